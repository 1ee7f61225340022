package policy

import "math"

var klucbSpec = Spec{Name: "klucb", Colour: "#6657ff", About: "upper confidence bounds that assume nothing of payoffs but their range",
	Rank: func(*Parameters) (Policy, error) { return NewKLUCB(), nil }}

// NewKLUCB returns kl-UCB (A. Garivier, O. Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond", COLT 2011) in place of the
// paper's least-sampled undominated item. The item with the largest index leads:
//
//	max{q ≤ 1 : N_i·kl(μ̂_i, q) ≤ log f(t)},  f(t) = 1 + t·log²(t+1),  t = 1 + ΣN,
//
// kl(p,q) = p·log(p/q) + (1−p)·log((1−p)/(1−q)), for payoffs within [0,1]. There is no other assumption and no parameter. For rare
// conversions kl is near (q−p)²/2q, far above the 2(q−p)² of other bounds, so that fewer payoffs separate them. As with optimistic, an
// inversion of two items needs a sample of the worse one. So the expected number of inversions of s and j is log T/kl(μ_j, μ_s) to first
// order.
//
// For payoff per impression, Input.selection gives the index. Items without a payoff lead before all others.
func NewKLUCB() *Index {
	return &Index{belief: Unbelieving, complete: (*common).setLog, of: (*common).klucb,
		rule: "the candidate with the largest mean payoff leads that its payoffs do not rule out (kl-UCB); unseen ones come first"}
}

// setLog sets log f(t).
func (x *common) setLog(_ *Belief, in *Input) {
	now := max(in.Table.Weight(), 0) + 1
	l := math.Log(now + 1)
	x.log = math.Log(1 + now*l*l)
}

// klucb returns a candidate's mean and index.
func (x *common) klucb(in *Input, k int32, best float64) (mean, index float64) {
	mean, weight := x.at(in, k)
	if weight == 0 {
		return mean, mean
	}
	payoff, worth := in.selection(k, Estimate{mean, weight})
	p, budget := min(max(payoff.Mean, 0), 1), x.log/payoff.Weight
	// kl(p,q) ≥ 2(q−p)² (Pinsker): no logarithm is needed for a candidate that cannot lead.
	if above := worth.of(p + math.Sqrt(budget/2)); above < best {
		return mean, above
	}
	return mean, worth.of(klAbove(p, budget))
}

// klAbove returns the largest q ≤ 1 with kl(p,q) ≤ x, for p within [0,1] and x ≥ 0. kl(p,·) is convex and rises above p, so Newton's method
// descends from a point above the solution and never passes it.
func klAbove(p, x float64) float64 {
	switch {
	case p >= 1:
		return 1
	case p <= 0:
		return -math.Expm1(-x)
	}
	// Starting point: the smaller solution of two lower bounds of kl, Pinsker's and p·log p + (1−p)·log((1−p)/(1−q)).
	rest := (1 - p) * math.Exp(-(x-p*math.Log(p))/(1-p)) // 1−q
	if q := p + math.Sqrt(x/2); q < 1-rest {
		rest = 1 - q
	}
	for range 50 {
		q := 1 - rest
		if q <= p || rest <= 0 {
			break
		}
		over := p*math.Log(p/q) + (1-p)*(math.Log(1-p)-math.Log(rest)) - x
		step := over * q * rest / (q - p)
		if !(step > 1e-15*q) {
			break
		}
		rest += step
	}
	return min(max(1-rest, p), 1)
}
