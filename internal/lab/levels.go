package lab

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
)

// lazyRatio is that of P(w) ∝ e^(−w/2).
var lazyRatio = math.Exp(-0.5)

// ofLevels are scenarios whose items differ in mean payoffs, which stay or follow t.
var ofLevels = []*definition{
	{name: "blocks", about: "the paper's worst case: windows grow, one block after the other; normal payoffs",
		blocks: true, payoffs: normal, levels: falling(1, 1)},
	{name: "lazy", about: "short windows mostly, P(w) ∝ e^(−w/2); normal payoffs",
		ratio: lazyRatio, payoffs: normal, levels: falling(1, 1)},
	{name: "mixed", about: "uniform windows, mixed means; normal payoffs",
		ratio: 1, payoffs: normal, levels: mixed},
	{name: "changing", about: "as mixed, and each user has an order of his own",
		ratio: lazyRatio, payoffs: normal, reorders: true, levels: mixed},
	{name: "stationary", about: "payoffs 0 or 1 of mean 0.2 to 0.8; P(w) ∝ 0.7^w, as all below",
		againstFixed: true, levels: falling(0.8, 0.6)},
	{name: "constrained", about: "means rise and fall together",
		againstFixed: true, levels: lowAndHigh, level: growingPhase},
	{name: "switching", about: "the best item changes once, at 0.3·T",
		againstFixed: true, level: changedOnce,
		levels: func(n int) [][]float64 {
			return [][]float64{means(n, 0.1, byItem{(4*n + 4) / 5: 0.9}), means(n, 0.05, byItem{2: 0.9})}
		}},
	{name: "catalog", about: "20 candidates of 2,000 items",
		items: 2000, fewer: true, payoffs: clipped, deviation: 0.23, draw: drawCatalog},
	{name: "ranks", about: "as constrained, and payoffs belong to ranks",
		againstFixed: true, reorders: true, byRank: true, levels: lowAndHigh, level: growingPhase},
	{name: "jackpot", about: "one item pays 1 with probability 0.15, the others 0.1 nearly always",
		impressions: 50_000, payoffs: jackpot, levels: one(0.1, byItem{1: 0.15})},
	{name: "jackpot-0.3", about: "the same with probability 0.3",
		impressions: 50_000, payoffs: jackpot, levels: one(0.1, byItem{1: 0.3})},
	{name: "wandering", about: "means rise and fall by 0.3, each at its own time, in 100,000 impressions; payoffs 1,000 late",
		impressions: 200_000, late: 1000, levels: one(0, nil), move: wander},
	{name: "rising", about: "the shown item stays, and another becomes better at 0.3·T; 1,000 late, as all to daily but two",
		late: 1000, level: changedOnce,
		levels: func(n int) [][]float64 {
			return [][]float64{means(n, 0.1, byItem{8: 0.5}), means(n, 0.1, byItem{8: 0.5, 2: 0.9})}
		}},
	{name: "often", about: "the best item changes ten times; 100 late",
		late: 100, levels: bestInTurn, level: tenth},
	{name: wave, about: "as constrained, but the level changes every half --period",
		late: 1000, levels: lowAndHigh, level: halfPeriod},
	{name: "fatigue", about: "as stationary, but items selected often pay less; 100 late",
		late: 100, levels: falling(0.8, 0.6), move: tire},
	{name: "jump", about: "as stationary, but the best item becomes the worst at 0.3·T",
		late: 1000, levels: fallingAndRising, level: changedOnce},
	{name: "jump-busy", about: "the same, 100 impressions a second",
		clock: hundredASecond, impressions: 300_000, late: 1000, levels: fallingAndRising, level: changedOnce},
	{name: "daily", about: "all means rise and fall by 0.3 in 86,400 impressions",
		impressions: 200_000, late: 1000, levels: one(0, nil), move: rise},
}

// byItem are means by item, from 1.
type byItem map[int]float64

// means returns n items' means: rest, except for those of own that exist.
func means(n int, rest float64, own byItem) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = rest
		if mean, ok := own[i+1]; ok {
			all[i] = mean
		}
	}
	return all
}

// one is a single level of means.
func one(rest float64, own byItem) func(n int) [][]float64 {
	return func(n int) [][]float64 { return [][]float64{means(n, rest, own)} }
}

// falling are means from high for the first item down to above high − width.
func falling(high, width float64) func(n int) [][]float64 {
	return func(n int) [][]float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = high - width*float64(i)/float64(n)
		}
		return [][]float64{all}
	}
}

func fallingAndRising(n int) [][]float64 {
	before := falling(0.8, 0.6)(n)[0]
	after := slices.Clone(before)
	slices.Reverse(after)
	return [][]float64{before, after}
}

func mixed(n int) [][]float64 {
	values := [...]float64{.2, .9, .1, .7, .6, .3, .5, 0, .4, .15}
	all := make([]float64, n)
	for i := range all {
		all[i] = values[i%len(values)]
	}
	return [][]float64{all}
}

// lowAndHigh are the means of the stochastically constrained adversary of J. Zimmert and Y. Seldin (2021): item 3 has always 0.15 more.
func lowAndHigh(n int) [][]float64 {
	return [][]float64{means(n, 0, byItem{3: 0.15}), means(n, 0.8, byItem{3: 0.95})}
}

// bestInTurn are the means of the ten phases of Often.
func bestInTurn(n int) (levels [][]float64) {
	for _, best := range [...]int{8, 2, 6, 3, 9, 1, 4, 7, 5, 10} {
		levels = append(levels, means(n, 0.2, byItem{best: 0.8}))
	}
	return levels
}

// growingPhase alternates in phases that grow by 60%.
func growingPhase(w *World) int { return int(math.Log(float64(w.t+1))/math.Log(1.6)) % 2 }

// changedOnce is 1 after 0.3 of all impressions.
func changedOnce(w *World) int {
	if w.t > 3*w.horizon/10 {
		return 1
	}
	return 0
}

// tenth returns the number of the tenth of all impressions: phase k begins after ⌊k·T/10⌋.
func tenth(w *World) int { return int((10*w.t - 1) / w.horizon) }

// halfPeriod alternates after each half of the experiment's period: half k begins after ⌊k·period/2⌋.
func halfPeriod(w *World) int { return int((2*w.t - 1) / w.period % 2) }

const (
	wanderingTurn = 100_000 // impressions
	dailyTurn     = 86_400
	rested        = 0.999 // share of a load left after an impression
	jackpotNoise  = 0.01
)

func wander(w *World) {
	for i := range w.now {
		w.now[i] = 0.5 + 0.3*math.Sin(2*math.Pi*(float64(w.t)/wanderingTurn+float64(7*i%10)/10))
	}
}

func rise(w *World) {
	wave := 0.3 * math.Sin(2*math.Pi*float64(w.t)/dailyTurn)
	for i := range w.now {
		w.now[i] = 0.65 - 0.3*float64(i)/float64(w.n) + wave
	}
}

// tire multiplies means by 1 − load. A selection adds to its item's load, and loads decay.
func tire(w *World) {
	if w.loads == nil {
		w.loads, w.rests = make([]float64, w.n), slices.Clone(w.now)
	}
	for i := range w.loads {
		w.loads[i] *= rested
	}
	if w.tired != nobody {
		w.loads[w.tired] += 1 - rested
	}
	for i, load := range w.loads {
		w.now[i] = w.rests[i] * (1 - load)
	}
	w.tired = nobody
}

// drawCatalog draws the items. Their numbers are the utility order, which is random, since items are drawn alike.
func drawCatalog(w *World, items int, r *rand.Rand) [][]float64 {
	const mean, sd = 0.75, 0.08
	w.centres = make([]float64, items)
	all := make([]float64, items)
	for i := range all {
		w.centres[i] = unit(mean + sd*r.NormFloat64())
		all[i] = simulate.ClippedMean(w.centres[i], w.scenario.deviation)
	}
	return [][]float64{all}
}
