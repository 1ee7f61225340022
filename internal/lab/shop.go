package lab

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// Scenarios in which users may leave without a selection, or do not select as in the paper. Regret is per impression, an impression
// without a selection pays nothing, and all users count.
const (
	// Abandon has 20 items and windows P(w) ∝ 0.7^w. The favourite in the window is selected with its own probability, from 0.03
	// for the least liked item to 0.63; else the user leaves. Payoffs are Bernoulli, with means uniform on [0.05, 0.95].
	Abandon Scenario = "abandon"
	// AbandonAnti has means 0.85 − 0.65·(i−1)/(n−1) + N(0, 0.12²), cut to [0.02, 0.98].
	AbandonAnti Scenario = "abandon:anti"
	// Cascade is Abandon with users who go down their window and select the first item they like, each with its own probability.
	Cascade Scenario = "cascade"
	// CascadeAnti is Cascade with the means of AbandonAnti.
	CascadeAnti Scenario = "cascade:anti"
	// Unseen has users who select the favourite of their window, and half of the impressions are not looked at.
	Unseen Scenario = "unseen"
	// UnseenMost is Unseen with nine impressions in ten never looked at.
	UnseenMost Scenario = "unseen:90"
	// UnseenTastes is Unseen with users' utilities deviating by two gaps between neighbours.
	UnseenTastes Scenario = "unseen:tastes"
	// Tastes has users who all select, with utilities deviating by two gaps.
	Tastes Scenario = "tastes"
	// TastesFar is Tastes with eight gaps.
	TastesFar Scenario = "tastes:8"
	// NoiseFifth has users who all select, a fifth of them any item in their window.
	NoiseFifth Scenario = "noise:20"
	// Unscored has users who all select; a quarter of the items, drawn for each run, have no given utility.
	Unscored Scenario = "unscored"

	// AbandonRare is Abandon with a tenth of the payoffs, 1,000 late by default.
	AbandonRare Scenario = "abandon:rare"
	// AbandonBots is Abandon with half of the impressions not looked at.
	AbandonBots Scenario = "abandon:bots"
	// AbandonNear is Abandon with users of window w leaving at once with probability 0.7^w.
	AbandonNear Scenario = "abandon:near"
	// AbandonFar is Abandon with users leaving at once with probability 1 − 0.85^(w−1).
	AbandonFar Scenario = "abandon:far"
	// AbandonPlace is Abandon with selection probabilities multiplied by 0.9 for each position further down.
	AbandonPlace Scenario = "abandon:place"
	// AbandonMany is Abandon with 500 items, 20 of them in an impression.
	AbandonMany Scenario = "abandon:many"
	// AbandonApart is Abandon with selection probabilities independent of utilities.
	AbandonApart Scenario = "abandon:apart"
	// AbandonMild is AbandonAnti with selection probabilities from 0.5 to 0.7.
	AbandonMild Scenario = "abandon:mild"
	// AbandonSwapped is Abandon with selection probabilities reversed in the second half.
	AbandonSwapped Scenario = "abandon:swapped"
	// AbandonTastes is Abandon with users' utilities deviating by two gaps.
	AbandonTastes Scenario = "abandon:tastes"
	// AbandonUniform is Abandon with windows uniform on 1..10.
	AbandonUniform Scenario = "abandon:uniform"
	// UnseenUniform is UnseenTastes with windows uniform on 1..10.
	UnseenUniform Scenario = "unseen:uniform"
	// AbandonShort is Abandon with windows P(w) ∝ 0.3^w.
	AbandonShort Scenario = "abandon:short"
)

type shop struct {
	items     int
	low, high float64 // range of selection probabilities, by utility
	apart     bool    // these in an order of their own
	anti      bool    // payoffs fall with utility
	cascade   bool
	unseen    float64 // share of impressions not looked at
	leave     func(window int) float64
	fade      float64 // factor of selection probability per position; 0 for 1
	swaps     bool
	tastes    float64
	noise     float64
	unscored  float64 // share of items without a utility
	scale     float64 // of payoffs; 0 for 1
	fewer     bool
	q         func(n int) []float64 // distribution of windows; nil for 0.7^w
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

// shopTimeout is the number of impressions after which a learner learns that there was no selection.
const shopTimeout = 100

// customersOf are a run's users.
type customersOf struct {
	*shop
	taken [2][]float64 // by item, in the first and second half
	now   []float64
	draws *stream
	luck  float64
	noise float64    // share of users who select any item in their window
	noisy bool       // the present user is one of them
	best  [2][]int32 // best ranking of the candidates, if windows do not share one that is known
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

// findBest finds the rankings for regret where no ranking is best for all windows.
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

// bestShown searches the ranking of the largest value by moves of one item, until none improves it.
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

func (c *customersOf) next(w *world) {
	if c.swaps && w.t == w.horizon/2+1 {
		c.now = c.taken[1]
	}
	c.luck = c.draws.float64()
	u := c.draws.float64()
	c.noisy = u < c.noise
}

// share returns the probability with which a chosen item is selected, at a position shown from 0.
func (c *customersOf) share(w *world, position int32, place int) float64 {
	a := c.now[w.candidates[position]]
	if c.fade > 0 {
		a *= math.Pow(c.fade, float64(place))
	}
	return a
}

func (c *customersOf) present(window int) float64 {
	p := 1 - c.unseen
	if c.leave != nil {
		p *= 1 - c.leave(window)
	}
	return p
}

// each calls f with each position that the user may select from, and its probability.
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

// selects returns the position shown of the selection; -1 if the user leaves.
func (c *customersOf) selects(w *world, order []int32) int {
	at, upTo := -1, 0.0
	c.each(w, order, w.window, c.noisy, func(place int, share float64) {
		if upTo += share; at < 0 && c.luck < upTo {
			at = place
		}
	})
	return at
}

// earns returns the mean payoff of an impression with a window.
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

// bestMean returns the best ranking's mean payoff for the present window, and tastes, of a user without noise.
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

// shown returns the positions among the candidates in the order shown, for a learner with other numbers.
func (v *hiddenUtilities) shown(order []int32, dst []int32) []int32 {
	dst = dst[:0]
	for _, k := range order {
		dst = append(dst, v.positions[k])
	}
	return dst
}

// Visits are the users of a run of a scenario whose users may leave, for rankings by others than the laboratory's learners.
type Visits struct{ w *world }

// NewVisits returns a run's users. It fails if users of the scenario do not leave.
func NewVisits(e *Experiment, run int) (*Visits, error) {
	if shops[e.Scenario] == nil {
		return nil, fmt.Errorf("users of scenario %s do not leave", e.Scenario)
	}
	w, err := newWorld(e, run)
	return &Visits{w}, err
}

// Visit is the outcome of an impression.
type Visit struct {
	Place        int // position of the selection, from 0; -1 for none
	Payoff       float64
	Late         int64   // delay of the payoff in impressions
	Earned, Best float64 // mean payoffs of an impression with this user: of the ranking, and of the best
}

// Next shows the next user an order of utility ranks, from 0.
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

// Worth returns the mean payoff of a ranking in the present impression, over all users.
func (v *Visits) Worth(order []int32) (mean float64) {
	for k, q := range v.w.q {
		mean += q * v.w.shop.earns(v.w, order, k+1)
	}
	return mean
}
