package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrRobust says that the settings of Robust make no sense.
var ErrRobust = errors.New("policy: settings of robust are faulty")

// Robust is a decision for payoffs whose means change, alone or together. It looks at what is known of each candidate lately
// (Recent), and samples from the point of the admissible set C
//
//	p = argmax_{p ∈ C} ⟨s,p⟩ + 2·Σ r_i·√p_i,
//	s_i = (n_i·a_i + κ·m)/(n_i + κ),   r_i = c·σ/√e_i,   c = ½,
//	e_i = min(chances_i, A) + κ + 1,   A = look again·min(1000, max(1, (σ/D)²/5)),
//
// with m, σ and κ = σ²/τ² as the payoffs of all items tell (Components), and D by how much the candidates' scores differ at the most.
//
// A score s_i is a mean, not a sum: whatever users do, it stays within the range of what is known and the prior. Without caps
// p_i = (r_i/(λ−s_i))²: about c²σ²/(e_i·Δ_i²) for an item that is Δ_i behind, which is what Tsallis-INF plays with η = 1/(cσ√t)
// (J. Zimmert, Y. Seldin, JMLR 2021), but that each candidate is explored by how often it could have been selected lately.
// A never lets an item be forgotten: what has been the best for a million impressions is doubted as though it were for A. Looking
// again costs about c²σ²/A·Σ1/Δ_i an impression, which where payoffs vary much more than items differ would be much of what there is
// to win. So A grows with (σ/D)², which leaves c²·D²/300·Σ1/Δ_i with the default: a share of D, however payoffs vary.
//
// Multiplying all payoffs by a number, and what is known and believed of them with it, changes no point.
type Robust struct {
	lookAgain float64
}

var robustKind = Spec{Name: "robust", Colour: "#0a8550", About: "for payoffs that change, alone or together", Believes: true,
	Follow: func(p *Parameters) (*Robust, error) { return NewRobust(p.LookAgain) }}

const (
	// DefaultLookAgain is Robust's unless configured.
	DefaultLookAgain = 1500
	boldness         = 0.5 // c
	// noisy is (σ/D)² beyond which it is looked again more rarely, and rarest how many times more rarely at the most: of items that
	// are all alike, those that could have been selected for ever would else not be selected any more.
	noisy  = 5
	rarest = 1000
)

// NewRobust makes the decision; lookAgain, from 1 on, is how many impressions of one that could be selected end doubts of it.
// Fewer find silent changes sooner, and cost more where nothing changes.
func NewRobust(lookAgain float64) (*Robust, error) {
	if !(lookAgain >= 1 && lookAgain <= 0x1p53) {
		return nil, fmt.Errorf("%w: it looks again after %v impressions", ErrRobust, lookAgain)
	}
	return &Robust{lookAgain}, nil
}

// Recent is what is known of a candidate: the mean of its payoffs over so much of the past as tells of now, in normalised units,
// what that is worth, in payoffs from 0 on, and the number of impressions lately in which it could have been selected, from 0 on.
type Recent struct{ Mean, Worth, Chances float64 }

// Shares are how often impressions end with a selection that have a candidate on top, by candidate, as a ratio to the mean of all. An
// impression without a selection pays Nothing, normalised.
type Shares struct {
	Times   []float64
	Nothing float64
}

// RobustWorkspace is the memory that Robust works in. Its owner passes it to one call at a time and keeps it.
type RobustWorkspace struct {
	solver  admissible.Solver
	losses  []float64
	squares []float64 // of rates
}

// scorePlaces is what scores are rounded to: they are recorded with six decimals, and what is recorded is what was used.
const scorePlaces = 1e6

// Point fills scores and p, both as long as known, with the candidates' scores, which are multiples of 10⁻⁶, and the
// probabilities with which they are to be selected: a point of C, up to rounding. Candidates are in increasing utility; q is the
// window distribution folded for lists of their number. It allocates nothing once ws has grown to n.
func (r *Robust) Point(known []Recent, c *Components, q, scores, p []float64, ws *RobustWorkspace) {
	r.PointPerImpression(known, nil, c, q, scores, p, ws)
}

// PointPerImpression is Point with the value of each score per impression in place of it; shares are nil where there are none. Scores stay
// those of selections.
func (r *Robust) PointPerImpression(known []Recent, shares *Shares, c *Components, q, scores, p []float64, ws *RobustWorkspace) {
	n := len(known)
	ws.losses, ws.squares = sized(ws.losses, n), sized(ws.squares, n)
	kappa, square := c.Kappa(), boldness*boldness*c.Sigma*c.Sigma
	pseudo := float64(kappa * c.Mean)
	least, best := math.Inf(1), math.Inf(-1)
	scores, losses, squares := scores[:n], ws.losses[:n], ws.squares[:n]
	for i := range known {
		k := &known[i]
		weight, sum := k.Worth+kappa, float64(k.Worth*k.Mean)+pseudo
		if !(weight > 0) {
			weight, sum = 1, 0
		}
		doubt := min(k.Chances, r.lookAgain) + kappa + 1
		inverse := 1 / (weight * doubt) // of both, by one division
		s := math.RoundToEven(sum*doubt*inverse*scorePlaces) / scorePlaces
		value, variance := s, square
		if shares != nil {
			times := shares.Times[i]
			value, variance = shares.Nothing+float64(times*(s-shares.Nothing)), float64(square*times*times)
		}
		scores[i], losses[i], squares[i] = s, -value, variance*weight*inverse
		least, best = min(least, value), max(best, value)
	}
	noise := c.Sigma / (best - least) // infinite where all are alike, and exploring costs nothing
	if rarely := min(rarest, noise*noise/noisy); rarely > 1 {
		for i := range known {
			variance := square
			if shares != nil {
				variance = float64(square * shares.Times[i] * shares.Times[i])
			}
			squares[i] = variance / (min(known[i].Chances, r.lookAgain*rarely) + kappa + 1)
		}
	}
	ws.solver.SolveEach(p, ws.losses, q, ws.squares)
	for i, loss := range losses {
		losses[i] = -loss
	}
}

// Values are what the candidates of the last point counted as: their scores, per impression where shares were given. They hold until the
// next one.
func (ws *RobustWorkspace) Values() []float64 { return ws.losses }

// Kappa is σ²/τ²: how many payoffs the prior is worth; 0 for none.
func (c *Components) Kappa() float64 {
	ratio := c.Sigma / c.Tau
	return ratio * ratio
}
