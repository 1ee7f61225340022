package policy

import "math"

// KLUCB is kl-UCB (A. Garivier, O. Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond", COLT 2011) in the
// place of the paper's least-sampled undominated item: the leader is the item with the largest
//
//	max{q ≤ 1 : N_i·kl(μ̂_i, q) ≤ log f(t)},  f(t) = 1 + t·log²(t+1),  t = 1 + ΣN,
//
// where kl(p,q) = p·log(p/q) + (1−p)·log((1−p)/(1−q)) and payoffs lie within [0,1]. It assumes nothing else, and has no
// parameter. Where an item pays seldom, kl grows far faster than the 2(q−p)² that other bounds make of it: (q−p)²/2q near 0. So
// rare conversions are told apart with that many payoffs fewer. As in Optimistic, an inversion of two items needs a sample
// of the worse one, so that the expected number of inversions of s and j is log T/kl(μ_j, μ_s) to first order.
//
// Where payoff per impression is the aim, the index counts as Input.selection says.
//
// Items without a payoff lead before all others.
type KLUCB struct{}

var klucbKind = Spec{Name: "klucb", Colour: "#6657ff", About: "upper confidence bounds that assume nothing of payoffs but their range",
	Rank: func(*Parameters) (Policy, error) { return NewKLUCB(), nil }}

var (
	_ Policy    = (*KLUCB)(nil)
	_ Explainer = (*KLUCB)(nil)
)

// NewKLUCB makes the policy.
func NewKLUCB() *KLUCB { return &KLUCB{} }

// budget is log f(t), what is common to all items.
func (*KLUCB) budget(t *Table) float64 {
	now := max(t.Weight(), 0) + 1
	l := math.Log(now + 1)
	return math.Log(1 + now*l*l)
}

// of is a candidate's mean and index, or, where that is below best, some number below best.
func (*KLUCB) of(in *Input, at int32, budget, best float64) (mean, index float64) {
	mean, weight := believed(in, at)
	if weight == 0 {
		return mean, mean
	}
	payoff, worth := in.selection(at)
	p, x := min(max(payoff.Mean, 0), 1), budget/payoff.Weight
	// kl(p,q) ≥ 2(q−p)² (Pinsker): no logarithm is needed for what cannot lead.
	if above := worth.of(p + math.Sqrt(x/2)); above < best {
		return mean, above
	}
	return mean, worth.of(klAbove(p, x))
}

// klAbove is the largest q ≤ 1 with kl(p,q) ≤ x, for p within [0,1] and x ≥ 0. kl(p,·) is convex and rises above p, so that
// Newton's method from a point above comes down to the solution and never passes it.
func klAbove(p, x float64) float64 {
	switch {
	case p >= 1:
		return 1
	case p <= 0:
		return -math.Expm1(-x)
	}
	// kl(p,q) ≥ p·log p + (1−p)·log((1−p)/(1−q)), which has a solution of its own, and Pinsker's.
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

// Rank implements Policy in O(n).
func (k *KLUCB) Rank(in *Input, ws *Workspace, dst []int32) {
	budget := k.budget(in.Table)
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		mean, index := k.of(in, i, budget, r.best)
		r.enter(i, mean, index)
	}
	ws.byMean(dst)
}

// Rule implements Explainer.
func (*KLUCB) Rule() string {
	return "the candidate with the largest mean payoff leads that its payoffs do not rule out (kl-UCB); unseen ones come first" + blockedInWords
}

// Weigh implements Explainer.
func (k *KLUCB) Weigh(in *Input, _ *Workspace, why []Reason) {
	budget := k.budget(in.Table)
	for i := range why {
		_, why[i].Index = k.of(in, int32(i), budget, math.Inf(-1))
	}
}
