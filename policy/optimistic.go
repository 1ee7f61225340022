package policy

import "math"

// Optimistic is ours: the leader is the item with the largest upper confidence index
//
//	m̃_i + σ·√(2·log f(t)/(N_i+κ)),  f(t) = 1 + t·log²(t+1),  t = 1 + ΣN,
//
// UCB's with the optimal constant (T. Lattimore, C. Szepesvári, Bandit Algorithms, 2020, chapter 8), in the place of the
// paper's least-sampled undominated item. The argument of the paper's Theorem 3.1 holds: an inversion of s and j needs an
// index of j that is not below that of s, and is a sample of j; hence the expected number of inversions of two items is at
// most, for any ε in (0,Δ),
//
//	1 + 5σ²/ε² + 2σ²·(log f(T) + √(π·log f(T)) + 1)/(Δ−ε)²,
//
// 2σ²·log T/Δ² to first order, and the regret, summed as in Theorems 3.1 and 3.2, at most 4σ²·log T·Σ 1/Δ to first order,
// where Elimination has 64σ²·log(4nT²/δ)·Σ 1/Δ. That is for σ-sub-Gaussian payoffs with a Sigma that is given, and
// without a prior.
//
// Without a prior m̃_i is the empirical mean, κ is 0, and items without a payoff lead before all others.
type Optimistic struct{ belief Belief }

var optimisticKind = Spec{Name: "optimistic", Colour: "#9a79ff", About: "upper confidence bounds", Believes: true, Personal: true,
	Rank: func(p *Parameters) (Policy, error) { return NewOptimistic(p.Belief) }}

var _ Policy = (*Optimistic)(nil)

// NewOptimistic makes the policy, or says which parameter is out of range.
func NewOptimistic(b Belief) (*Optimistic, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return &Optimistic{belief: b}, nil
}

// optimism is Optimistic's index, with what is common to all items.
type optimism struct {
	expectation
	spread float64 // 2σ²·log f(t)
}

func (o *Optimistic) optimism(in *Input) optimism {
	x, t := optimism{expectation: o.belief.expected(in)}, in.Table
	now := max(t.Weight(), 0) + 1
	l := math.Log(now + 1)
	log := math.Log(1 + now*l*l)
	x.spread = 2 * x.variance * log
	if known := in.Known; known != nil && known.Plain {
		radius := math.Sqrt(x.variance*(2*log+known.LogDet)) + math.Sqrt(known.Ridge)
		x.spread = radius * radius
	}
	return x
}

func (x *optimism) of(in *Input, k int32) (mean, index float64) {
	mean, weight := x.at(in, k)
	if weight == 0 {
		return mean, mean
	}
	return mean, mean + math.Sqrt(x.spread/weight)
}

// Rank implements Policy in O(n).
func (o *Optimistic) Rank(in *Input, ws *Workspace, dst []int32) {
	x := o.optimism(in)
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		mean, index := x.of(in, i)
		r.enter(i, mean, index)
	}
	ws.byMean(dst)
}

// Rule implements Explainer.
func (o *Optimistic) Rule() string {
	return "the candidate with the largest upper confidence bound leads: " + o.belief.inWords() + ", plus a bonus for what is not known" + blockedInWords
}

// Weigh implements Explainer.
func (o *Optimistic) Weigh(in *Input, _ *Workspace, why []Reason) {
	x := o.optimism(in)
	for k := range why {
		_, why[k].Index = x.of(in, int32(k))
	}
}
