package policy

import "math"

// MOSS is the index of that name (J.-Y. Audibert, S. Bubeck, "Minimax policies for adversarial and stochastic bandits",
// COLT 2009), around a mean that a prior shrinks: the leader is the item with the largest
//
//	m̃_i + σ·√(2·log(1 + t/(n·(N_i+κ)))/(N_i+κ)),
//
// n the number of items the learner knows, t = ΣN. The bonus vanishes once an item has its share t/n of the payoffs,
// and so exploration ends where there are many items and few payoffs of each.
//
// Without a prior m̃_i is the empirical mean, κ is 0, and items without a payoff lead before all others.
type MOSS struct{ belief Belief }

var mossKind = Kind{Name: "moss", About: "a bonus for what had less than its share of the payoffs", Believes: true,
	Rank: func(p *Parameters) (Policy, error) { return NewMOSS(p.Belief) }}

var _ Policy = (*MOSS)(nil)

// NewMOSS makes the policy, or says which parameter is out of range.
func NewMOSS(b Belief) (*MOSS, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return &MOSS{belief: b}, nil
}

// share is MOSS's index, with what is common to all items.
type share struct {
	expectation
	spread float64 // 2σ²
	fair   float64 // t/n
}

func (m *MOSS) share(t *Table) share {
	x := share{expectation: m.belief.expect(t), fair: max(t.Weight(), 0) / float64(t.Len())}
	x.spread = 2 * x.variance
	return x
}

// of is the index, or where that is below best, some number below best. A logarithm costs more than all the rest, and
// most items cannot lead; with the bound in its place the index is no smaller, rounding included, for rounding is
// monotone.
func (x *share) of(in *Input, item Item, best float64) float64 {
	mean, weight := x.mean(in, item)
	if weight == 0 {
		return mean
	}
	ratio, scale := 1+x.fair/weight, x.spread/weight
	if above := mean + math.Sqrt(scale*logAbove(ratio)); above < best {
		return above
	}
	return mean + math.Sqrt(scale*math.Log(ratio))
}

// Rank implements Policy in O(n).
func (m *MOSS) Rank(in *Input, ws *Workspace, dst []int32) {
	x := m.share(in.Table)
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		r.enter(i, x.of(in, in.Items[i], r.best))
	}
	follow(r.leaders, dst)
}

// logAbove is between log x and log x + 0.06, for finite x ≥ 1. The bits of x = 2^e·(1+f), read as an integer, are
// 2^52·(1023+e+f), and log2(1+f) ≤ f + 0.08607134 (at f = 1/ln 2 − 1).
func logAbove(x float64) float64 {
	return (float64(math.Float64bits(x))*0x1p-52 - (1023 - 0.0860714)) * math.Ln2
}

// Rule implements Explainer.
func (m *MOSS) Rule() string {
	return "the candidate with the largest MOSS index leads: " + m.belief.expected() +
		", plus a bonus for having had less than its share of the payoffs"
}

// Weigh implements Explainer.
func (m *MOSS) Weigh(in *Input, _ *Workspace, why []Reason) {
	x := m.share(in.Table)
	for k, item := range in.Items {
		why[k].Index = x.of(in, item, math.Inf(-1))
	}
}
