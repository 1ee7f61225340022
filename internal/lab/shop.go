package lab

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// The scenarios in which users may leave without a selection, or do not select as the paper has it. Regret is per impression, an
// impression without a selection pays nothing, and all users count.
const (
	// Abandon has 20 items and windows P(w) ∝ 0.7^w. The favourite of the window is taken with a probability of its own, from 0.03 for
	// the least liked item to 0.63 for the best liked; else the user leaves. Payoffs of a selection are Bernoulli, with means uniform on [0.05, 0.95].
	Abandon Scenario = "abandon"
	// AbandonAnti has means of 0.85 − 0.65·(i−1)/(n−1) + N(0, 0.12²), cut to [0.02, 0.98], instead.
	AbandonAnti Scenario = "abandon:anti"
	// Cascade is Abandon with users who go down the list as far as their window, and take the first item that they like: each with its own
	// probability.
	Cascade Scenario = "cascade"
	// CascadeAnti is Cascade with the means of AbandonAnti.
	CascadeAnti Scenario = "cascade:anti"
	// Unseen has users who take the favourite of their window, whatever it is, and half of the impressions are never looked at.
	Unseen Scenario = "unseen"
	// UnseenMost is Unseen with nine impressions in ten never looked at.
	UnseenMost Scenario = "unseen:90"
	// UnseenTastes is Unseen where users' utilities deviate by two gaps between neighbours.
	UnseenTastes Scenario = "unseen:tastes"
	// Tastes has users who all select, and whose utilities deviate by two gaps.
	Tastes Scenario = "tastes"
	// TastesFar is Tastes with eight gaps.
	TastesFar Scenario = "tastes:8"
	// NoiseFifth has users who all select, a fifth of them anything in their window.
	NoiseFifth Scenario = "noise:20"
	// Unscored has users who all select, and a quarter of the items, drawn for each run, have no utility that a learner is given.
	Unscored Scenario = "unscored"

	// AbandonRare is Abandon with a tenth of the payoffs, 1,000 late unless it is said.
	AbandonRare Scenario = "abandon:rare"
	// AbandonBots is Abandon where half of the impressions are never looked at.
	AbandonBots Scenario = "abandon:bots"
	// AbandonNear is Abandon where users of window w leave at once with probability 0.7^w.
	AbandonNear Scenario = "abandon:near"
	// AbandonFar is Abandon where they leave at once with probability 1 − 0.85^(w−1).
	AbandonFar Scenario = "abandon:far"
	// AbandonPlace is Abandon where the probability of taking is multiplied by 0.9 for each place further down.
	AbandonPlace Scenario = "abandon:place"
	// AbandonMany is Abandon with 500 items, 20 of them in an impression.
	AbandonMany Scenario = "abandon:many"
	// AbandonApart is Abandon where probabilities of taking have nothing to do with utilities.
	AbandonApart Scenario = "abandon:apart"
	// AbandonMild is AbandonAnti with probabilities of taking from 0.5 to 0.7.
	AbandonMild Scenario = "abandon:mild"
	// AbandonSwapped is Abandon where the probabilities of taking are in reverse order in the second half.
	AbandonSwapped Scenario = "abandon:swapped"
	// AbandonTastes is Abandon where users' utilities deviate by two gaps.
	AbandonTastes Scenario = "abandon:tastes"
	// AbandonUniform and the next are Abandon and UnseenTastes with uniform windows of 1 to 10.
	AbandonUniform Scenario = "abandon:uniform"
	// UnseenUniform has uniform windows, see AbandonUniform.
	UnseenUniform Scenario = "unseen:uniform"
	// AbandonShort is Abandon with windows P(w) ∝ 0.3^w.
	AbandonShort Scenario = "abandon:short"
)

// shop is what a scenario of these is made of.
type shop struct {
	items     int
	low, high float64 // of how likely items are taken, by utility
	apart     bool    // the same in an order of its own
	anti      bool    // payoffs are against utilities
	cascade   bool
	unseen    float64 // the share of impressions that nobody looks at
	leave     func(window int) float64
	fade      float64 // what is left of taking one place further down; 0 for all
	swaps     bool
	tastes    float64
	noise     float64
	unscored  float64 // the share of items without a utility
	scale     float64 // of payoffs; 0 for 1
	fewer     bool
	q         func(n int) []float64 // of windows; nil for 0.7^w
}

var shops = func() map[Scenario]*shop {
	abandon := shop{items: 20, low: 0.03, high: 0.63}
	unseen := shop{items: 20, low: 1, high: 1, unseen: 0.5}
	with := func(s shop, change func(*shop)) *shop {
		change(&s)
		return &s
	}
	return map[Scenario]*shop{
		Abandon:      &abandon,
		AbandonAnti:  with(abandon, func(s *shop) { s.anti = true }),
		Cascade:      with(abandon, func(s *shop) { s.cascade = true }),
		CascadeAnti:  with(abandon, func(s *shop) { s.cascade, s.anti = true, true }),
		Unseen:       &unseen,
		UnseenMost:   with(unseen, func(s *shop) { s.unseen = 0.9 }),
		UnseenTastes: with(unseen, func(s *shop) { s.tastes = 2 }),
		Tastes:       with(unseen, func(s *shop) { s.unseen, s.tastes = 0, 2 }),
		TastesFar:    with(unseen, func(s *shop) { s.unseen, s.tastes = 0, 8 }),
		NoiseFifth:   with(unseen, func(s *shop) { s.unseen, s.noise = 0, 0.2 }),
		Unscored:     with(unseen, func(s *shop) { s.unseen, s.unscored = 0, 0.25 }),

		AbandonRare: with(abandon, func(s *shop) { s.scale = 0.1 }),
		AbandonBots: with(abandon, func(s *shop) { s.unseen = 0.5 }),
		AbandonNear: with(abandon, func(s *shop) {
			s.leave = func(w int) float64 { return math.Pow(0.7, float64(w)) }
		}),
		AbandonFar: with(abandon, func(s *shop) {
			s.leave = func(w int) float64 { return 1 - math.Pow(0.85, float64(w-1)) }
		}),
		AbandonPlace:   with(abandon, func(s *shop) { s.fade = 0.9 }),
		AbandonMany:    with(abandon, func(s *shop) { s.items, s.fewer = 500, true }),
		AbandonApart:   with(abandon, func(s *shop) { s.apart = true }),
		AbandonMild:    with(abandon, func(s *shop) { s.anti, s.low, s.high = true, 0.5, 0.7 }),
		AbandonSwapped: with(abandon, func(s *shop) { s.swaps = true }),
		AbandonTastes:  with(abandon, func(s *shop) { s.tastes = 2 }),
		AbandonUniform: with(abandon, func(s *shop) { s.q = uniformWindows }),
		UnseenUniform:  with(unseen, func(s *shop) { s.tastes, s.q = 2, uniformWindows }),
		AbandonShort:   with(abandon, func(s *shop) { s.q = shortWindows }),
	}
}()

func uniformWindows(n int) []float64 {
	q := make([]float64, n)
	for w := range min(n, 10) {
		q[w] = 1 / float64(min(n, 10))
	}
	return q
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

// shopTimeout is after how many impressions one without a selection is told so.
const shopTimeout = 100

// customersOf are the users of a run of a shop.
type customersOf struct {
	*shop
	taken [2][]float64 // by item, in the first and the second half
	now   []float64
	draws *stream
	luck  float64
	noise float64    // the share of users who take anything in their window
	noisy bool       // the user at hand is one of them
	best  [2][]int32 // the best ranking of the candidates, where windows do not have the same
}

// newShop draws the items; means are by item.
func newShop(s *shop, e *Experiment, run int) (c *customersOf, means []float64) {
	draws, items := rand.New(newStream(e.Seed, run, forItems)), e.Items
	c = &customersOf{shop: s, noise: cmp.Or(e.Noise, s.noise), draws: newStream(e.Seed, run, forNoise)}
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
		means = append(means, mean)
		c.taken[0] = append(c.taken[0], s.low+(s.high-s.low)*place)
	}
	c.taken[1] = slices.Clone(c.taken[0])
	if s.swaps {
		slices.Reverse(c.taken[1])
	}
	c.now = c.taken[0]
	return c, means
}

// findBest finds the rankings that regret is against, where the best one for a window is not the best for another.
func (c *customersOf) findBest(w *world) {
	if !c.cascade && c.fade == 0 {
		return
	}
	for half := range c.best {
		c.now = c.taken[half]
		c.best[half] = bestShown(w.n, func(order []int32) (value float64) {
			for k, q := range w.q {
				value += q * c.earns(w, order, k+1)
			}
			return value
		})
	}
	c.now = c.taken[0]
}

// bestShown looks for the ranking of the largest value: the best of those that moving one item leads to, until no move helps.
func bestShown(n int, value func([]int32) float64) []int32 {
	best := make([]int32, n)
	for k := range best {
		best[k] = int32(n - 1 - k)
	}
	reached := value(best)
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

// next draws the next user.
func (c *customersOf) next(w *world) {
	if c.swaps && w.t == w.horizon/2+1 {
		c.now = c.taken[1]
	}
	c.luck = c.draws.float64()
	u := c.draws.float64()
	c.noisy = u < c.noise
}

// share is how likely the item at a position, shown at place from 0, is taken once it is the user's choice.
func (c *customersOf) share(w *world, position int32, place int) float64 {
	a := c.now[w.candidates[position]]
	if c.fade > 0 {
		a *= math.Pow(c.fade, float64(place))
	}
	return a
}

// present is the share of users with a window who look at all.
func (c *customersOf) present(window int) float64 {
	p := 1 - c.unseen
	if c.leave != nil {
		p *= 1 - c.leave(window)
	}
	return p
}

// each calls f with the places that the user at hand may take something at, and how likely that is.
func (c *customersOf) each(w *world, order []int32, window int, noisy bool, f func(place int, share float64)) {
	window = min(window, len(order))
	left := c.present(window)
	switch {
	case c.cascade:
		for k, position := range order[:window] {
			a := c.share(w, position, k)
			f(k, left*a)
			left *= 1 - a
		}
	case noisy:
		for k, position := range order[:window] {
			f(k, left*c.share(w, position, k)/float64(window))
		}
	default:
		best := 0
		for k, position := range order[:window] {
			if w.utility(position) > w.utility(order[best]) {
				best = k
			}
		}
		f(best, left*c.share(w, order[best], best))
	}
}

// selects is the place of the selection of the user at hand; -1 where he leaves without one.
func (c *customersOf) selects(w *world, order []int32) int {
	at, upTo := -1, 0.0
	c.each(w, order, w.window, c.noisy, func(place int, share float64) {
		if upTo += share; at < 0 && c.luck < upTo {
			at = place
		}
	})
	return at
}

// earns is the mean payoff of an impression with a window.
func (c *customersOf) earns(w *world, order []int32, window int) (mean float64) {
	value := func(noisy bool) (sum float64) {
		c.each(w, order, window, noisy, func(place int, share float64) { sum += share * w.mean(order[place]) })
		return sum
	}
	if c.noise == 0 {
		return value(false)
	}
	return (1-c.noise)*value(false) + c.noise*value(true)
}

// bestMean is what the best ranking earns with the window at hand: with tastes for the user at hand, who is known, and with noise for
// users without.
func (c *customersOf) bestMean(w *world) float64 {
	half := 0
	if c.swaps && w.t > w.horizon/2 {
		half = 1
	}
	if c.best[half] != nil {
		return c.earns(w, c.best[half], w.window)
	}
	best := math.Inf(-1)
	if w.tastes != nil {
		for _, k := range w.tastes.sorted()[w.window-1:] {
			best = max(best, c.share(w, k, 0)*w.mean(k))
		}
	} else {
		for k := w.window - 1; k < w.n; k++ {
			best = max(best, c.share(w, int32(k), 0)*w.mean(int32(k)))
		}
	}
	return c.present(w.window) * best
}

// windowsOf is the distribution of windows of a scenario.
func (s Scenario) windows(n int) ([]float64, error) {
	if x := shops[s]; x != nil && x.q != nil {
		return x.q(n), nil
	}
	windows, err := admissible.Geometric(s.Ratio(), n)
	if err != nil {
		return nil, err
	}
	return windows.Fold(make([]float64, n)), nil
}

// shown are the positions among the candidates in the order shown, for a learner that has other numbers for them.
func (v *hiddenUtilities) shown(order []int32, dst []int32) []int32 {
	dst = dst[:0]
	for _, k := range order {
		dst = append(dst, v.positions[k])
	}
	return dst
}

// Visits are the users of a run of a scenario whose users may leave, one after the other, for rankings of others than the laboratory's
// learners.
type Visits struct{ w *world }

// NewVisits returns those of a run. It fails where users of the scenario do not leave.
func NewVisits(e *Experiment, run int) (*Visits, error) {
	if shops[e.Scenario] == nil {
		return nil, fmt.Errorf("users of scenario %s do not leave", e.Scenario)
	}
	w, err := newWorld(e, run)
	return &Visits{w}, err
}

// Visit is what became of an impression.
type Visit struct {
	Place        int // of the selection, from 0; -1 for none
	Payoff       float64
	Late         int64   // how many impressions later the payoff comes
	Earned, Best float64 // mean payoffs of an impression with this user: of the ranking, and of the best one
}

// Next has the next user look at the candidates in an order of their utility ranks, from 0.
func (v *Visits) Next(order []int32) Visit {
	w := v.w
	w.next()
	x := Visit{Place: w.shop.selects(w, order), Earned: w.shop.earns(w, order, w.window), Best: w.bestMean()}
	if x.Place >= 0 {
		r := w.reply(order[x.Place])
		x.Payoff, x.Late = r.payoff, r.late
	}
	return x
}

// Worth is the mean payoff of a ranking of the impression at hand, over all users.
func (v *Visits) Worth(order []int32) (mean float64) {
	for k, q := range v.w.q {
		mean += q * v.w.shop.earns(v.w, order, k+1)
	}
	return mean
}
