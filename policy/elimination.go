package policy

import (
	"fmt"
	"math"
)

// Radius is a formula of the confidence radius c_i of an item with N_i payoffs, where n is the number of items the
// learner knows and t = 1 + ΣN, pooled. It is infinite where N_i = 0.
type Radius uint8

const (
	// Subgaussian is c_i = σ·√(2·log(4·n·t²/δ)/N_i), for payoffs that are σ-sub-Gaussian. It is what the step from
	// Hoeffding's inequality in the proof of Lemma 3.4 asks for.
	Subgaussian Radius = iota
	// Paper is c_i = √(log(4·n·t²/δ)/N_i), as printed in Algorithm 2: Subgaussian with σ = 1/√2. For payoffs in [0,1],
	// which are 1/2-sub-Gaussian, it is conservative; for N(μ,1) it is too small by √2 for Lemma 3.4.
	Paper
)

// ParseRadius reads a radius by the name it has in the configuration.
func ParseRadius(name string) (Radius, error) {
	for _, r := range []Radius{Subgaussian, Paper} {
		if name == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("policy: unknown radius %q, want %s or %s", name, Subgaussian, Paper)
}

func (r Radius) String() string {
	switch r {
	case Subgaussian:
		return "subgaussian"
	case Paper:
		return "paper"
	}
	return fmt.Sprintf("Radius(%d)", uint8(r))
}

// Confidence says how sure a policy wants to be.
type Confidence struct {
	Radius Radius
	// Sigma is the sub-Gaussian parameter of a payoff, in normalised units: 1/2 for anything within [0,1]. Paper has its
	// own, and does not look at it.
	Sigma float64
	// Delta is δ, the probability of Lemma 3.4's bad event, in (0,1]. A fixed one leaves δ·Δ_max·T of expected regret.
	Delta float64
	// AutoDelta puts δ = 1/t instead of Delta.
	AutoDelta bool
}

// maxSigma bounds σ, and its inverse bounds it from below: far beyond use, and far from where σ² stops being a number.
const maxSigma = 1e9

// check says what is wrong with c.
func (c Confidence) check() error {
	if c.Radius != Subgaussian && c.Radius != Paper {
		return fmt.Errorf("policy: unknown radius %s", c.Radius)
	}
	if c.Radius == Subgaussian && !(c.Sigma >= 1/maxSigma && c.Sigma <= maxSigma) {
		return fmt.Errorf("policy: sigma must be from %g to %g payoff ranges, not %v", 1/maxSigma, maxSigma, c.Sigma)
	}
	if !c.AutoDelta && !(c.Delta > 0 && c.Delta <= 1) {
		return fmt.Errorf("policy: delta must be above 0 and at most 1, not %v", c.Delta)
	}
	return nil
}

// spread is c_i²·N_i, the square of the radius of an item with one payoff, for n items known and fed payoffs fed.
func (c Confidence) spread(n int, fed int64) float64 {
	t := float64(fed) + 1
	// log(4·n·t²/δ), taken apart because t² may have more digits than a float64 holds.
	l := math.Log(4*float64(n)) + 2*math.Log(t)
	if c.AutoDelta {
		l += math.Log(t)
	} else {
		l -= math.Log(c.Delta)
	}
	if c.Radius == Paper {
		return l
	}
	return 2 * c.Sigma * c.Sigma * l
}

// Elimination is the paper's algorithm for stochastic payoffs (Algorithm 1): the leader is the least-sampled item that
// no other beats with confidence. On the good event (Lemma 3.4), which has probability 1−δ, its regret is at most
// 64·σ²·L·Σ 1/Δ with L = log(4nT²/δ), where the sum is over Theorem 3.2's pairs for fixed utilities and over
// neighbours in mean payoff for changing ones (Theorem 3.1). With the paper's radius that is 32·L·Σ 1/Δ: intervals
// separate only when Δ ≥ 2(c_s + c_j), hence N_j ≤ 16·L/Δ² where the proof prints 4, and 32 where it prints 8.
//
// Ties in N go to the item with fewer selections in flight, then to a random draw.
type Elimination struct{ confidence Confidence }

var eliminationKind = Spec{Name: "elimination", Colour: "#fc4abb",
	About:     "the paper's: the least paid of those that nothing beats with confidence",
	NotDirect: "payoffs fed on arrival make elimination's confidence radius invalid", Confident: true,
	Rank: func(p *Parameters) (Policy, error) { return NewElimination(p.Confidence) }}

var _ Policy = (*Elimination)(nil)

// NewElimination makes the policy, or says which parameter is out of range.
func NewElimination(c Confidence) (*Elimination, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Elimination{confidence: c}, nil
}

// Rank implements Policy in O(n log n).
func (e *Elimination) Rank(in *Input, ws *Workspace, dst []int32) {
	findPermutation(in, e.confidence.spread(in.Table.Len(), in.Table.Fed()), ws, dst)
}
