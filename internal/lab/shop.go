package lab

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// shop describes a scenario in which users may leave without a selection, or do not select as in the paper. Regret is per impression, an
// impression without a selection pays nothing, and all users count. Payoffs are 0 or 1, with means uniform on [0.05, 0.95].
type shop struct {
	low, high float64 // range of selection probabilities, by utility
	apart     bool    // these in an order of their own
	anti      bool    // means are 0.85 − 0.65·(i−1)/(n−1) + N(0, 0.12²), cut to [0.02, 0.98]
	cascade   bool    // users go down their window and select the first item they like
	unseen    float64 // share of impressions not looked at
	leave     func(window int) float64
	fade      float64 // factor of selection probability per position; 0 for 1
	swaps     bool    // selection probabilities are reversed in the second half
	tastes    float64 // deviation of users' utilities, in gaps between neighbours
	noise     float64 // share of users who select any item in their window
	unscored  float64 // share of items without a utility
	scale     float64 // of means; 0 for 1
}

// Families of such scenarios. Users of abandon select the favourite in their window with its own probability, or else leave. Users of unseen
// select it, but do not look at half of the impressions. Users of attentive all select it.
var (
	abandon   = family(func() *definition { return &definition{items: 20, shop: &shop{low: 0.03, high: 0.63}} })
	unseen    = family(func() *definition { return &definition{items: 20, shop: &shop{low: 1, high: 1, unseen: 0.5}} })
	attentive = family(func() *definition { return &definition{items: 20, impressions: 60_000, shop: &shop{low: 1, high: 1}} })
)

// ofShops are scenarios with such users.
var ofShops = []*definition{
	attentive("tastes", "20 items; all select, and each user's utilities deviate by 2 gaps between neighbours", deviating),
	attentive("tastes:8", "the same; by 8 gaps", func(d *definition) { d.shop.tastes = 8 }),
	attentive("noise:20", "20 items; all select, a fifth of the users anything in their window", func(d *definition) { d.shop.noise = 0.2 }),
	attentive("unscored", "20 items; all select, a quarter of the items have no utility", func(d *definition) { d.shop.unscored = 0.25 }),
	unseen("unseen", "20 items; half of the impressions are not looked at, whatever the ranking"),
	unseen("unseen:90", "the same; nine in ten", func(d *definition) { d.shop.unseen = 0.9 }),
	unseen("unseen:tastes", "the same; half, and each user's utilities deviate by 2 gaps", deviating),
	unseen("unseen:uniform", "the same; uniform windows of 1 to 10", deviating, upTo10),
	abandon("abandon", "20 items; the favourite of the window is taken with probability 0.03 to 0.63, by utility; else the user leaves"),
	abandon("abandon:anti", "the same; items that users like pay little", func(d *definition) { d.shop.anti = true }),
	abandon("abandon:rare", "the same as abandon; a tenth of the payoffs, 1,000 late", func(d *definition) { d.late, d.shop.scale = 1000, 0.1 }),
	abandon("abandon:bots", "the same; half of the impressions are not looked at", func(d *definition) { d.shop.unseen = 0.5 }),
	abandon("abandon:near", "the same; who looks little leaves sooner", func(d *definition) {
		d.shop.leave = func(window int) float64 { return math.Pow(0.7, float64(window)) }
	}),
	abandon("abandon:far", "the same; who looks far leaves sooner", func(d *definition) {
		d.shop.leave = func(window int) float64 { return 1 - math.Pow(0.85, float64(window-1)) }
	}),
	abandon("abandon:place", "the same; taken less by a tenth at each place", func(d *definition) { d.shop.fade = 0.9 }),
	abandon("abandon:many", "the same; 20 candidates of 500 items", func(d *definition) { d.items, d.fewer = 500, true }),
	abandon("abandon:apart", "the same; how likely an item is taken has nothing to do with utility", func(d *definition) { d.shop.apart = true }),
	abandon("abandon:mild", "as abandon:anti, taken with probability 0.5 to 0.7",
		func(d *definition) { d.shop.anti, d.shop.low, d.shop.high = true, 0.5, 0.7 }),
	abandon("abandon:swapped", "as abandon; how likely items are taken is reversed half-way", func(d *definition) { d.shop.swaps = true }),
	abandon("abandon:tastes", "the same; each user's utilities deviate by 2 gaps", deviating),
	abandon("abandon:uniform", "the same; uniform windows of 1 to 10", upTo10),
	abandon("abandon:short", "the same; windows P(w) ∝ 0.3^w", func(d *definition) { d.windows = shortWindows }),
	abandon("cascade", "20 items; users go down their window and take the first that they like, with probability 0.03 to 0.63",
		func(d *definition) { d.shop.cascade = true }),
	abandon("cascade:anti", "the same; items that users like pay little", func(d *definition) { d.shop.cascade, d.shop.anti = true, true }),
}

func deviating(d *definition) { d.shop.tastes = 2 }

func upTo10(d *definition) {
	d.windows = func(n int) []float64 {
		q := make([]float64, n)
		for w := range min(n, 10) {
			q[w] = 1 / float64(min(n, 10))
		}
		return q
	}
}

func shortWindows(n int) []float64 {
	q, sum := make([]float64, n), 0.0
	for w := range q {
		q[w] = math.Pow(0.3, float64(w))
		sum += q[w]
	}
	for w := range q {
		q[w] /= sum
	}
	return q
}

// shopTimeout is the number of impressions after which a learner learns that there was no selection.
const shopTimeout = 100

// customersOf are the users of one run.
type customersOf struct {
	*shop
	means []float64
	taken [2][]float64 // by item, in the first and second half
	half  int
	draws *stream
	luck  float64
	noise float64    // share of users who select any item in their window
	noisy bool       // the present user is one of them
	best  [2][]int32 // best ranking of the candidates, if windows do not share one that is known
}

// newCustomersOf draws the items.
func newCustomersOf(s *shop, e *Experiment, run int) *customersOf {
	draws, items := rand.New(newStream(e.Seed, run, forItems)), e.Items
	c := &customersOf{shop: s, noise: cmp.Or(e.Noise, s.noise), draws: newStream(e.Seed, run, forNoise)}
	order := make([]int, items)
	for i := range order {
		order[i] = i
	}
	if s.apart {
		order = draws.Perm(items)
	}
	for i := range items {
		place, liked := 1.0, 1.0
		if items > 1 {
			place, liked = float64(order[i])/float64(items-1), float64(i)/float64(items-1)
		}
		mean := 0.05 + 0.9*draws.Float64()
		if s.anti {
			mean = 0.85 - 0.65*liked + 0.12*draws.NormFloat64()
		}
		mean = min(max(mean, 0.02), 0.98)
		if s.scale > 0 {
			mean *= s.scale
		}
		c.means = append(c.means, mean)
		c.taken[0] = append(c.taken[0], s.low+(s.high-s.low)*place)
	}
	c.taken[1] = slices.Clone(c.taken[0])
	if s.swaps {
		slices.Reverse(c.taken[1])
	}
	return c
}

// findBest finds the rankings for regret where no ranking is best for all windows.
func (c *customersOf) findBest(w *World) {
	if !c.cascade && c.fade == 0 {
		return
	}
	for c.half = range c.best {
		c.best[c.half] = bestShown(w.n, w.Worth)
	}
	c.half = 0
}

// bestShown searches the ranking of the largest value by moves of one item, until none improves it. It starts from the best ranking of an
// item that blocks all of lower utility, and the rest behind. No single move leads there from the order of utility.
func bestShown(n int, value func([]int32) float64) (best []int32) {
	reached := math.Inf(-1)
	for top := range n {
		var tried []int32
		for k := range n {
			tried = append(tried, int32((top-k+n)%n))
		}
		if v := value(tried); v > reached {
			best, reached = tried, v
		}
	}
	for improved := true; improved; {
		improved = false
		for from := range n {
			for to := range n {
				tried := slices.Clone(best)
				item := tried[from]
				tried = slices.Insert(slices.Delete(tried, from, from+1), to, item)
				if v := value(tried); v > reached+1e-12 {
					best, reached, improved = tried, v, true
				}
			}
		}
	}
	return best
}

func (c *customersOf) next(w *World) {
	if c.swaps && w.t > w.horizon/2 {
		c.half = 1
	}
	c.luck = c.draws.float64()
	c.noisy = c.draws.float64() < c.noise
}

// share returns the probability with which a chosen item is selected, at a place from 0.
func (c *customersOf) share(w *World, position int32, place int) float64 {
	a := c.taken[c.half][w.candidates[position]]
	if c.fade > 0 {
		a *= math.Pow(c.fade, float64(place))
	}
	return a
}

// present returns the probability that a user with a window looks at the impression.
func (c *customersOf) present(window int) float64 {
	p := 1 - c.unseen
	if c.leave != nil {
		p *= 1 - c.leave(window)
	}
	return p
}

// each calls f with each place that the user may select from, and its probability.
func (c *customersOf) each(w *World, ranking []int32, window int, noisy bool, f func(place int, share float64)) {
	window = min(window, len(ranking))
	left := c.present(window)
	switch {
	case c.cascade:
		for k, position := range ranking[:window] {
			a := c.share(w, position, k)
			f(k, left*a)
			left *= 1 - a
		}
	case noisy:
		for k, position := range ranking[:window] {
			f(k, left*c.share(w, position, k)/float64(window))
		}
	default:
		best := w.favourite(ranking, window, w.utility)
		f(best, left*c.share(w, ranking[best], best))
	}
}

// selects returns the place of the selection; −1 if the user leaves.
func (c *customersOf) selects(w *World, ranking []int32) int {
	at, upTo := -1, 0.0
	c.each(w, ranking, w.window, c.noisy, func(place int, share float64) {
		if upTo += share; at < 0 && c.luck < upTo {
			at = place
		}
	})
	return at
}

// earns returns the mean payoff of an impression with a window.
func (c *customersOf) earns(w *World, ranking []int32, window int) float64 {
	value := func(noisy bool) (sum float64) {
		c.each(w, ranking, window, noisy, func(place int, share float64) { sum += share * w.mean(ranking[place]) })
		return sum
	}
	if c.noise == 0 {
		return value(false)
	}
	return (1-c.noise)*value(false) + c.noise*value(true)
}

// bestMean returns the best ranking's mean payoff for the present window, and tastes, of a user without noise.
func (c *customersOf) bestMean(w *World) float64 {
	if best := c.best[c.half]; best != nil {
		return c.earns(w, best, w.window)
	}
	return c.present(w.window) * w.bestOf(func(position int32) float64 { return c.share(w, position, 0) * w.mean(position) })
}
