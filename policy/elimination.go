package policy

import (
	"fmt"
	"math"
)

// Radius is a formula of the confidence radius c_i, infinite for N_i = 0, with n items known and t = 1 + ΣN, pooled.
type Radius uint8

const (
	// Subgaussian is c_i = σ·√(2·log(4·n·t²/δ)/N_i), for σ-sub-Gaussian payoffs, by Hoeffding's inequality (Lemma 3.4).
	Subgaussian Radius = iota
	// Paper is c_i = √(log(4·n·t²/δ)/N_i), as printed in Algorithm 2: Subgaussian with σ = 1/√2. It is conservative for payoffs in
	// [0,1] (σ = 1/2), and for N(μ,1) too small by √2 for Lemma 3.4.
	Paper
)

// ParseRadius returns the radius of a configuration's name. It fails for any other.
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

// Confidence sets the radius of a confidence interval: σ, δ and its form.
type Confidence struct {
	Radius Radius
	// Sigma is the sub-Gaussian parameter of a payoff, in normalised units: 1/2 for any payoff within [0,1]. Paper ignores it.
	Sigma float64
	// Delta is δ in (0,1], the probability of Lemma 3.4's bad event. A fixed one leaves δ·Δ_max·T of expected regret.
	Delta float64
	// AutoDelta sets δ = 1/t instead of Delta.
	AutoDelta bool
}

// maxSigma bounds σ, and its inverse bounds it from below, far beyond use.
const maxSigma = 1e9

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

// spread returns c_i²·N_i for n items and fed payoffs.
func (c Confidence) spread(n int, fed int64) float64 {
	t := float64(fed) + 1
	// log(4·n·t²/δ), taken apart because t² may exceed a float64's digits.
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

// Elimination is the paper's algorithm for stochastic payoffs (Algorithm 1): the leader is the least-sampled item that no other beats
// with confidence. On the good event of Lemma 3.4, of probability 1−δ, its regret is at most 64·σ²·L·Σ 1/Δ with L = log(4nT²/δ). The sum
// is over Theorem 3.2's pairs for fixed utilities, and over neighbours in mean for changing ones (Theorem 3.1). With the paper's radius
// it is 32·L·Σ 1/Δ. Intervals separate when Δ ≥ 2(c_s + c_j), hence N_j ≤ 16·L/Δ² where the proof prints 4, and 32 where it prints 8.
//
// Ties in N go to fewer selections in flight, then to a random draw.
type Elimination struct{ confidence Confidence }

var eliminationSpec = Spec{Name: "elimination", Colour: "#fc4abb",
	About:     "the paper's: the least paid of those that nothing beats with confidence",
	NotDirect: "payoffs fed on arrival make elimination's confidence radius invalid", Confident: true,
	Rank: func(p *Parameters) (Policy, error) { return NewElimination(p.Confidence) }}

var _ Policy = (*Elimination)(nil)

// NewElimination returns the policy. It fails if a parameter is out of range.
func NewElimination(c Confidence) (*Elimination, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Elimination{confidence: c}, nil
}

func (e *Elimination) Rank(in *Input, ws *Workspace, dst []int32) {
	findPermutation(in, e.confidence.spread(in.Table.Len(), in.Table.Fed()), ws, dst)
}
