package policy

import "math"

// MOSS is the index of that name (J.-Y. Audibert, S. Bubeck, "Minimax policies for adversarial and stochastic bandits",
// COLT 2009), around a mean that a prior shrinks: the leader is the item with the largest
//
//	m̃_i + b_i·σ_i·√(2·log(1 + x_i)/(N_i+κ)),  x_i = t/(n·(N_i+κ)),  b_i = 1 − (1 − c/n)/(2·(1 + x_i/8)),
//
// n the number of items the learner knows, c that of the candidates, t = ΣN. The bonus vanishes once an item has its share
// t/n of the payoffs, and so exploration ends where there are many items and few payoffs of each.
//
// MOSS itself has b_i = 1, as here where all items are candidates. Where few of them are, an item that is taken for worse
// than it is leads all the same wherever chance brings it among poorer ones, and is found out: exploration comes for nothing
// (H. Bastani, M. Bayati, K. Khosravi, "Mostly exploration-free algorithms for contextual bandits", Management Science 2021).
// Then about half of the bonus is enough, as long as the item has not been left far behind.
//
// σ_i is σ. Only where σ is estimated, and comes out below a quarter of what is assumed of it, is it what is assumed for
// items with fewer than 2·√(t/n) payoffs: of an item that pays seldom, and then much, the first payoffs are all alike, and
// others that hardly vary would have it taken for settled.
//
// Without a prior m̃_i is the empirical mean, κ is 0, and items without a payoff lead before all others.
type MOSS struct{ belief Belief }

var mossKind = Spec{Name: "moss", Colour: "#179cc7", About: "a bonus for what had less than its share of the payoffs", Believes: true, Personal: true,
	Rank: func(p *Parameters) (Policy, error) { return NewMOSS(p.Belief) }}

var _ Policy = (*MOSS)(nil)

// NewMOSS makes the policy, or says which parameter is out of range.
func NewMOSS(b Belief) (*MOSS, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return &MOSS{belief: b}, nil
}

const (
	// behind is the x_i at which an item has half of what is spared of its bonus back.
	behind = 8
	// tight is how many times σ² goes into what is assumed of it where payoffs use a small part of their range.
	tight = 16
	// fewest times √(t/n) is how many payoffs an item needs to be taken for one that varies as the others do.
	fewest = 2
)

// share is MOSS's index, with what is common to all items.
type share struct {
	expectation
	spread  float64 // 2σ²
	fair    float64 // t/n
	spared  float64 // 8·(1 − c/n)/2
	few     float64 // below this N_i+κ, σ_i is what is assumed; 0 where σ holds for all
	assumed float64 // 2σ_i² then
}

func (m *MOSS) share(in *Input) share {
	t := in.Table
	n := float64(t.Len())
	x := share{expectation: m.belief.expected(in), fair: max(t.Weight(), 0) / n, spared: behind * (1 - float64(len(in.Items))/n) / 2}
	x.spread = 2 * x.variance
	if assumed := m.belief.Sigma * m.belief.Sigma; m.belief.EstimateSigma && x.variance*tight < assumed {
		x.few, x.assumed = fewest*math.Sqrt(x.fair)+x.kappa, 2*assumed
	}
	return x
}

// of is the mean and the index, or where that is below best, some number below best in its place. A logarithm costs more than all the rest, and
// most items cannot lead; with the bound in its place the index is no smaller, rounding included, for rounding is
// monotone.
func (x *share) of(in *Input, k int32, best float64) (mean, index float64) {
	mean, weight := x.at(in, k)
	if weight == 0 {
		return mean, mean
	}
	part, spread := 1-x.spared*weight/(behind*weight+x.fair), x.spread
	if weight < x.few {
		part, spread = 1, x.assumed
	}
	ratio, scale := 1+x.fair/weight, spread/weight
	if above := mean + float64(part*math.Sqrt(scale*logAbove(ratio))); above < best {
		return mean, above
	}
	return mean, mean + float64(part*math.Sqrt(scale*math.Log(ratio)))
}

// Rank implements Policy in O(n).
func (m *MOSS) Rank(in *Input, ws *Workspace, dst []int32) {
	x := m.share(in)
	r := newRace(in, ws)
	for i := int32(len(in.Items)) - 1; i >= 0; i-- {
		mean, index := x.of(in, i, r.best)
		r.enter(i, mean, index)
	}
	ws.byMean(dst)
}

// logAbove is between log x and log x + 0.06, for finite x ≥ 1. The bits of x = 2^e·(1+f), read as an integer, are
// 2^52·(1023+e+f), and log2(1+f) ≤ f + 0.08607134 (at f = 1/ln 2 − 1).
func logAbove(x float64) float64 {
	return (float64(math.Float64bits(x))*0x1p-52 - (1023 - 0.0860714)) * math.Ln2
}

// Rule implements Explainer.
func (m *MOSS) Rule() string {
	return "the candidate with the largest MOSS index leads: " + m.belief.inWords() +
		", plus a bonus for having had less than its share of the payoffs" + blockedInWords
}

// Weigh implements Explainer.
func (m *MOSS) Weigh(in *Input, _ *Workspace, why []Reason) {
	x := m.share(in)
	for k := range why {
		_, why[k].Index = x.of(in, int32(k), math.Inf(-1))
	}
}
