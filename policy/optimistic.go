package policy

import "math"

// Optimistic is ours: the leader is the item with the largest upper confidence index
//
//	m̃_i + σ·√(2·log f(t)/(N_i+κ)),  f(t) = 1 + t·log²(t+1),  t = 1 + ΣN,
//
// UCB1's with the optimal constant (T. Lattimore, C. Szepesvári, Bandit Algorithms, 2020, chapter 8), in the place of
// the paper's least-sampled undominated item. The paper's argument holds: in an inversion of s and j, j leads with an
// index that is not below that of s, hence not below μ_s as long as that one is an upper bound; and each inversion is a
// payoff of j. So the regret is at most the sum over the paper's pairs of
//
//	(2σ²·log f(T) + 2·√(π·σ²·log f(T)) + 1)/Δ + Δ·(1 + what the indices' failures cost),
//
// 2σ²·log T/Δ to first order, where Elimination has 64σ²·log T²/Δ: the order of the paper's Theorem 3.5 with the constant
// that no policy can beat. It assumes σ-sub-Gaussian payoffs; that is, a Sigma that is given, and no prior or one that is
// true.
//
// Without a prior m̃_i is the empirical mean, κ is 0, and items without a payoff lead before all others.
type Optimistic struct{ belief Belief }

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

func (o *Optimistic) optimism(t *Table) optimism {
	x := optimism{expectation: o.belief.expect(t)}
	now := float64(max(t.fed, 0)) + 1
	l := math.Log(now + 1)
	x.spread = 2 * x.variance * math.Log(1+now*l*l)
	return x
}

func (x *optimism) of(in *Input, item Item) float64 {
	mean, weight := x.mean(&in.Table.pooled[item])
	if weight == 0 {
		return mean
	}
	return mean + math.Sqrt(x.spread/(weight+in.waiting(item)))
}

// Rank implements Policy in O(n).
func (o *Optimistic) Rank(in *Input, ws *Workspace, dst []int32) {
	x := o.optimism(in.Table)
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		r.enter(i, x.of(in, in.Items[i]))
	}
	follow(r.leaders, dst)
}

// Rule implements Explainer.
func (o *Optimistic) Rule() string {
	return "the candidate with the largest upper confidence bound leads: " + o.belief.expected() + ", plus a bonus for what is not known"
}

// Weigh implements Explainer.
func (o *Optimistic) Weigh(in *Input, _ *Workspace, why []Reason) {
	x := o.optimism(in.Table)
	for k, item := range in.Items {
		why[k].Index = x.of(in, item)
	}
}
