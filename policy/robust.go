package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrRobust is wrapped by errors about Robust's settings.
var ErrRobust = errors.New("policy: settings of robust are faulty")

// Robust decides where means change, of single items or of all together. From recent means of the candidates (Recent) it computes
// the point of the admissible set C
//
//	p = argmax_{p ∈ C} ⟨s,p⟩ + 2·Σ r_i·√p_i,
//	s_i = (n_i·a_i + κ·m)/(n_i + κ),   r_i = c·σ/√e_i,   c = ½,
//	e_i = min(chances_i, A) + κ + 1,   A = look again·min(1000, max(1, (σ/D)²/5)),
//
// with m, σ and κ = σ²/τ² of all items (Components), and D the range of the candidates' scores.
//
// A score s_i is a mean, which stays within the range of payoffs and prior whatever users do. Without caps p_i = (r_i/(λ−s_i))², about
// c²σ²/(e_i·Δ_i²) for an item Δ_i behind, as Tsallis-INF with η = 1/(cσ√t) (J. Zimmert, Y. Seldin, JMLR 2021), except that exploration
// is by an item's own recent chances. A bounds chances, so that exploration of an item never ends. It costs about c²σ²/A·Σ1/Δ_i per
// impression; since A grows with (σ/D)², that is c²·D²/300·Σ1/Δ_i with the default, a share of D however payoffs vary.
//
// Scaling all payoffs, with estimates and prior, changes no point.
type Robust struct {
	lookAgain float64
	onlyAgain bool // e_i = A + κ + 1, see LookingAgain
}

var robustSpec = Spec{Name: "robust", Colour: "#0a8550", About: "for payoffs that change, alone or together", Believes: true,
	Follow: func(p *Parameters) (*Robust, error) { return NewRobust(p.LookAgain) }}

const (
	// DefaultLookAgain is Robust's default.
	DefaultLookAgain = 1500
	boldness         = 0.5 // c
	// noisy is the (σ/D)² above which A grows, rarest the largest factor, so that no item is dropped among equals.
	noisy  = 5
	rarest = 1000
)

// NewRobust returns the decision. lookAgain, at least 1, bounds the number of impressions that reduce exploration of an item:
// smaller values find unannounced changes sooner, and cost more without change. It fails with ErrRobust.
func NewRobust(lookAgain float64) (*Robust, error) {
	if !(lookAgain >= 1 && lookAgain <= 0x1p53) {
		return nil, fmt.Errorf("%w: it looks again after %v impressions", ErrRobust, lookAgain)
	}
	return &Robust{lookAgain: lookAgain}, nil
}

// oftener divides A where MOSS makes the other half of the decisions, so that an item is looked at as often as by Robust alone.
const oftener = 2

// LookingAgain returns the decision for items that another policy explores: e_i = A/2 + κ + 1, so that it only looks again.
func (r *Robust) LookingAgain() *Robust {
	return &Robust{lookAgain: r.lookAgain / oftener, onlyAgain: true}
}

// chances returns e_i without κ + 1; A is r.lookAgain times rarely.
func (r *Robust) chances(k *Recent, rarely float64) float64 {
	if r.onlyAgain {
		return r.lookAgain * rarely
	}
	return min(k.Chances, r.lookAgain*rarely)
}

// Recent is the recent estimate of a candidate: the mean of its payoffs, normalised, and its weight in payoffs. Chances is the
// number of recent impressions in which it could have been selected.
type Recent struct{ Mean, Worth, Chances float64 }

// AllTime is the estimate of a candidate from the whole of its past: the mean of its payoffs, normalised, and its weight in payoffs.
type AllTime struct {
	Mean, Worth float64
	// Changed says that a more recent part of the past contradicts the mean.
	Changed bool
}

// Shares are the shares of impressions with a candidate on top that end with a selection, by candidate, relative to their mean. An
// impression without a selection pays Nothing, normalised.
type Shares struct {
	Times   []float64
	Nothing float64
}

// RobustWorkspace is Robust's memory. Its owner passes it to one call at a time.
type RobustWorkspace struct {
	solver  admissible.Solver
	losses  []float64
	squares []float64 // of rates
}

// scorePlaces is the rounding of scores to the six decimals that are recorded.
const scorePlaces = 1e6

// Point fills scores and p, as long as known, with the candidates' scores, multiples of 10⁻⁶, and their selection probabilities, a
// point of C up to rounding. Candidates are in increasing utility; q is the window distribution folded to their number. It does not
// allocate once ws has grown to n.
func (r *Robust) Point(known []Recent, c *Components, q, scores, p []float64, ws *RobustWorkspace) {
	r.PointPerImpression(known, nil, c, q, scores, p, ws)
}

// PointPerImpression is Point by value per impression; nil shares mean none. Scores stay per selection.
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
		doubt := r.chances(k, 1) + kappa + 1
		inverse := 1 / (weight * doubt) // of both, by one division
		s := math.RoundToEven(sum*doubt*inverse*scorePlaces) / scorePlaces
		value, variance := s, square
		if shares != nil {
			w := worth{shares.Times[i], shares.Nothing}
			value, variance = w.of(s), float64(square*w.times*w.times)
		}
		scores[i], losses[i], squares[i] = s, -value, variance*weight*inverse
		least, best = min(least, value), max(best, value)
	}
	noise := c.Sigma / (best - least) // infinite for equal items, where exploration costs nothing
	if rarely := min(rarest, noise*noise/noisy); rarely > 1 {
		for i := range known {
			variance := square
			if shares != nil {
				variance = float64(square * shares.Times[i] * shares.Times[i])
			}
			squares[i] = variance / (r.chances(&known[i], rarely) + kappa + 1)
		}
	}
	ws.solver.SolveEach(p, ws.losses, q, ws.squares)
	for i, loss := range losses {
		losses[i] = -loss
	}
}

// Values returns the last point's values: scores, per impression if shares were given; valid until the next point.
func (ws *RobustWorkspace) Values() []float64 { return ws.losses }

// Kappa returns σ²/τ², the prior's weight in payoffs; 0 for no prior.
func (c *Components) Kappa() float64 {
	ratio := c.Sigma / c.Tau
	return ratio * ratio
}
