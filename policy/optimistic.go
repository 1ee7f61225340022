package policy

import "math"

var optimisticSpec = Spec{Name: "optimistic", Colour: "#9a79ff", About: "upper confidence bounds", Believes: true, Contextual: true,
	Rank: func(p *Parameters) (Policy, error) { return NewOptimistic(p.Belief) }}

// NewOptimistic returns UCB in the paper's ranking: the leader is the item with the largest upper confidence index
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
//
// It fails if a parameter is out of range.
func NewOptimistic(b Belief) (*Index, error) {
	return &Index{belief: &b, plain: true, complete: (*common).setRadius, of: (*common).optimistic,
		rule: "the candidate with the largest upper confidence bound leads: " + b.inWords() + ", plus a bonus for uncertainty"}, b.check()
}

// setRadius sets the squared bonus of weight 1.
func (x *common) setRadius(b *Belief, in *Input) {
	x.setLog(b, in)
	x.spread = 2 * x.variance * x.log
	if known := in.Known; known != nil && known.Plain {
		radius := math.Sqrt(x.variance*(2*x.log+known.LogDet)) + math.Sqrt(known.Ridge)
		x.spread = radius * radius
	}
}

// optimistic returns a candidate's mean and index.
func (x *common) optimistic(in *Input, k int32, _ float64) (mean, index float64) {
	mean, weight := x.at(in, k)
	if weight == 0 {
		return mean, mean
	}
	return mean, mean + math.Sqrt(x.spread/weight)
}
