package policy

import "math"

// Optimistic is UCB in the paper's ranking: the leader is the item with the largest upper confidence index
//
//	m̃_i + σ·√(2·log f(t)/(N_i+κ)),  f(t) = 1 + t·log²(t+1),  t = 1 + ΣN,
//
// with the optimal constant (T. Lattimore, C. Szepesvári, Bandit Algorithms, 2020, chapter 8). The argument of the paper's Theorem
// 3.1 holds: an inversion of s and j needs an index of j not below that of s, and is a sample of j. So the expected number of
// inversions of two items is, for any ε in (0,Δ), at most
//
//	1 + 5σ²/ε² + 2σ²·(log f(T) + √(π·log f(T)) + 1)/(Δ−ε)²,
//
// and the regret, summed as in Theorems 3.1 and 3.2, at most 4σ²·log T·Σ 1/Δ to first order, where Elimination has
// 64σ²·log(4nT²/δ)·Σ 1/Δ. This is for σ-sub-Gaussian payoffs with a given Sigma and no prior: m̃_i is then the empirical mean, κ is
// 0, and items without payoffs lead.
type Optimistic struct{ belief Belief }

var optimisticSpec = Spec{Name: "optimistic", Colour: "#9a79ff", About: "upper confidence bounds", Believes: true, Contextual: true,
	Rank: func(p *Parameters) (Policy, error) { return NewOptimistic(p.Belief) }}

var _ Policy = (*Optimistic)(nil)

// NewOptimistic returns the policy. It fails if a parameter is out of range.
func NewOptimistic(b Belief) (*Optimistic, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return &Optimistic{belief: b}, nil
}

// optimism holds the parts of the index that all items share.
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

func (o *Optimistic) Rank(in *Input, ws *Workspace, dst []int32) {
	x := o.optimism(in)
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		mean, index := x.of(in, i)
		r.enter(i, mean, index)
	}
	ws.byMean(dst)
}

func (o *Optimistic) Rule() string {
	return "the candidate with the largest upper confidence bound leads: " + o.belief.inWords() + ", plus a bonus for uncertainty" + blockedInWords
}

func (o *Optimistic) Weigh(in *Input, _ *Workspace, why []Reason) {
	x := o.optimism(in)
	for k := range why {
		_, why[k].Index = x.of(in, int32(k))
	}
}
