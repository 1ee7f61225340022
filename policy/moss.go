package policy

import "math"

var mossSpec = Spec{Name: "moss", Colour: "#179cc7", About: "a bonus for items with less than their share of the payoffs", Believes: true, Contextual: true,
	Rank: func(p *Parameters) (Policy, error) { return NewMOSS(p.Belief) }}

// NewMOSS returns the policy MOSS (J.-Y. Audibert, S. Bubeck, "Minimax policies for adversarial and stochastic bandits", COLT 2009), around
// a shrunken mean. The item with the largest index leads:
//
//	m̃_i + b_i·σ_i·√(2·log(1 + x_i)/(N_i+κ)),  x_i = t/(n·(N_i+κ)),  b_i = 1 − (1 − c/n)/(2·(1 + x_i/8)),
//
// with n items known to the learner, c candidates, and t = ΣN. The bonus vanishes once an item has its share t/n of the payoffs, so
// exploration ends even with many items and few payoffs of each.
//
// MOSS itself has b_i = 1, as here if all items are candidates. If few are, an underestimated item still leads lists of poorer ones by
// chance, so some exploration is free (H. Bastani, M. Bayati, K. Khosravi, "Mostly exploration-free algorithms for contextual bandits",
// Management Science 2021). Then about half of the bonus is enough, unless the item has fallen far behind.
//
// σ_i is σ, with one exception. If an estimated σ is below a quarter of the assumed one, items with fewer than 2·√(t/n) payoffs use the
// assumed one. The first payoffs of an item that pays seldom and much are all alike, and σ of items that hardly vary would end its
// exploration.
//
// Without a prior m̃_i is the empirical mean, κ is 0, and items without a payoff lead before all others.
//
// It fails for a parameter out of range.
func NewMOSS(b Belief) (*Index, error) {
	return &Index{belief: &b, complete: (*common).setShare, of: (*common).moss,
		rule: "the candidate with the largest MOSS index leads: " + b.inWords() + ", plus a bonus for having had less than its share of the payoffs"}, b.check()
}

const (
	// behind is the x_i at which an item regains half of the withheld bonus.
	behind = 8
	// tight is the ratio of the assumed σ² to the estimated one above which few payoffs use the assumed one.
	tight = 16
	// fewest times √(t/n) is the number of payoffs from which an item uses the estimated σ.
	fewest = 2
)

// setShare sets an item's share of the payoffs, and the terms of the bonus.
func (x *common) setShare(b *Belief, in *Input) {
	n := float64(in.Table.Len())
	x.fair, x.spared = max(in.Table.Weight(), 0)/n, behind*(1-float64(len(in.Items))/n)/2
	x.spread = 2 * x.variance
	if assumed := b.Sigma * b.Sigma; b.EstimateSigma && x.variance*tight < assumed {
		x.few, x.assumed = fewest*math.Sqrt(x.fair)+x.kappa, 2*assumed
	}
}

// moss returns a candidate's mean and index. The bound saves a logarithm, which costs more than the rest: most items cannot lead. It is no
// smaller than the index, since rounding is monotone.
func (x *common) moss(in *Input, k int32, best float64) (mean, index float64) {
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

// logAbove returns a number between log x and log x + 0.06, for finite x ≥ 1. The bits of x = 2^e·(1+f), as an integer, are
// 2^52·(1023+e+f), and log2(1+f) ≤ f + 0.08607134 (at f = 1/ln 2 − 1).
func logAbove(x float64) float64 {
	return (float64(math.Float64bits(x))*0x1p-52 - (1023 - 0.0860714)) * math.Ln2
}
