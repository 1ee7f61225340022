package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// world is one run of a scenario: impressions t = 1..horizon. Its random numbers come from the run's streams, and except for
// Fatigue nothing depends on the policy.
type world struct {
	scenario Scenario
	n        int // candidates per impression
	horizon  int64
	t        int64 // the present impression

	candidates []policy.Item // of the present impression, in increasing utility
	window     int           // of its user
	luck       float64       // of the payoff: standard normal, or uniform on [0,1)

	lateness lateness
	market   *eventStream // nil without a delay model
	awaited  int64        // payoff horizon; beyond any delay if there is none
	clock    clock
	fewer    bool // impressions show only some items

	means   [][]float64 // by level, then by item, or by rank for Ranks
	centres []float64   // Catalog: of payoffs before clipping
	periods []period
	at      int       // index of the present period
	now     []float64 // present means
	counts  []int64   // impressions by level
	// best is the best mean by level and window, if it is the same in all impressions of a level.
	best [][]float64
	// lucky is the normal luck below which item 1 pays, with jackpot.
	lucky   float64
	jackpot bool
	factor  float64     // factor of all means: the present tide
	loads   []float64   // Fatigue: by item
	rests   []float64   // Fatigue: means without load
	tired   policy.Item // Fatigue: the last selection, or nobody

	shop     *customersOf     // nil if all users select
	news     *news            // only for News
	visitors *visitors        // nil if payoffs depend on the item alone
	tastes   *preferenceNoise // nil if all users share one order

	q       []float64 // the distribution of windows
	upTo    []float64 // its prefix sums
	windows *stream
	payoffs *rand.Rand
	uniform *stream
	shuffle *stream
}

func newWorld(e *Experiment, run int) (*world, error) {
	s := e.Scenario
	w := &world{
		scenario: s, n: s.Candidates(e.Items), horizon: e.Horizon, clock: s.clock(), fewer: s.fewer(), factor: 1, awaited: e.horizon(),
		windows: newStream(e.Seed, run, forWindows), uniform: newStream(e.Seed, run, forPayoffs),
		shuffle: newStream(e.Seed, run, forCandidates),
	}
	w.payoffs = rand.New(w.uniform)
	if w.awaited == 0 {
		w.awaited = math.MaxInt64
	}
	switch t := trades[s]; {
	case t != nil:
		w.market = newMarket(t, e.Items, e.Horizon, e.Seed, run)
		w.means, w.periods = [][]float64{w.market.means()}, []period{{1, 0}}
	case audiences[s] != nil:
		w.visitors = newVisitors(audiences[s], e.Items, w.n, e.Horizon, e.Seed, run)
		w.means, w.periods = [][]float64{w.visitors.means}, []period{{1, 0}}
	case shops[s] != nil:
		var means []float64
		w.shop, means = newShop(shops[s], e, run)
		w.means, w.periods = [][]float64{means}, []period{{1, 0}}
	case rhythms[s] != nil:
		w.means, w.periods = newRhythm(rhythms[s], e.Items, newStream(e.Seed, run, forItems)), []period{{1, 0}}
	case s == News:
		w.news = newNews(e, newStream(e.Seed, run, forItems))
		w.means, w.periods = [][]float64{make([]float64, e.every())}, []period{{1, 0}}
	case s == Catalog:
		w.drawCatalog(e.Items, rand.New(newStream(e.Seed, run, forItems)))
	default:
		w.means, w.periods = s.levels(e.Items, e.Horizon, e.period())
	}
	if w.market == nil {
		w.lateness = e.lateness().drawn(newStream(e.Seed, run, forDelays))
	}
	if p := s.jackpot(); p > 0 {
		w.jackpot = true
		w.lucky = math.Sqrt2 * math.Erfinv(2*p-1)
	}
	w.counts = make([]int64, len(w.means))
	if !s.blocks() {
		var err error
		if w.q, err = s.windows(w.n); err != nil {
			return nil, fmt.Errorf("windows of scenario %s: %w", s, err)
		}
		w.upTo = admissible.Prefix(w.q, make([]float64, w.n))
	}
	w.tastes = newTastes(e, run, w.n)
	w.candidates = make([]policy.Item, w.n)
	for i := range w.candidates {
		w.candidates[i] = policy.Item(i)
	}
	if w.shop != nil {
		w.now = w.means[0]
		w.shop.findBest(w)
	}
	if (s.fixedOrder() || s == Ranks) && !s.moves() {
		w.rememberBest()
	}
	w.now = w.means[w.periods[0].level]
	if s == Fatigue {
		w.loads, w.rests, w.tired = make([]float64, w.n), slices.Clone(w.now), nobody
	}
	return w, nil
}

func (w *world) rememberBest() {
	w.best = make([][]float64, len(w.means))
	for level, means := range w.means {
		w.best[level] = make([]float64, w.n)
		for k := range w.best[level] {
			w.best[level][k] = policy.BestMean(means, k+1)
		}
	}
}

const (
	catalogMean  = 0.75
	catalogSD    = 0.08
	catalogNoise = 0.23
)

// drawCatalog draws the items. Their numbers are the utility order, which is random, since items are drawn alike.
func (w *world) drawCatalog(items int, draws *rand.Rand) {
	w.centres = make([]float64, items)
	means := make([]float64, items)
	for i := range means {
		w.centres[i] = unit(catalogMean + catalogSD*draws.NormFloat64())
		means[i] = clippedMean(w.centres[i], catalogNoise)
	}
	w.means, w.periods = [][]float64{means}, []period{{1, 0}}
}

func clippedMean(mean, sd float64) float64 {
	cdf := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	pdf := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	low, high := (0-mean)/sd, (1-mean)/sd
	return mean*(cdf(high)-cdf(low)) + sd*(pdf(low)-pdf(high)) + 1 - cdf(high)
}

func (w *world) next() {
	w.t++
	if w.at+1 < len(w.periods) && w.periods[w.at+1].from == w.t {
		w.at++
		w.now = w.means[w.periods[w.at].level]
	}
	w.counts[w.periods[w.at].level]++
	w.window = w.drawWindow()
	if w.scenario.normal() {
		w.luck = w.payoffs.NormFloat64()
	} else {
		w.luck = w.uniform.float64()
	}
	switch {
	case w.market != nil:
		w.market.next(w.t)
		if w.market.tide != nil {
			w.factor = w.market.tide(w.clock.at(w.t))
		}
	case rhythms[w.scenario] != nil:
		w.turn(rhythms[w.scenario])
	case w.scenario == Wandering:
		wander(w.t, w.now)
	case w.scenario == Daily:
		w.rise()
	case w.loads != nil:
		w.tire()
	}
	switch {
	case w.scenario == Changing || w.scenario == Ranks:
		for k := w.n - 1; k > 0; k-- {
			j := w.shuffle.below(k + 1)
			w.candidates[k], w.candidates[j] = w.candidates[j], w.candidates[k]
		}
	case w.visitors != nil:
		w.visitors.next(w.candidates)
	case w.news != nil:
		w.news.next(w)
	case w.fewer:
		w.drawCandidates()
	}
	if w.tastes != nil {
		w.tastes.next()
	}
	if w.shop != nil {
		w.shop.next(w)
	}
}

func wander(t int64, means []float64) {
	for i := range means {
		means[i] = 0.5 + 0.3*math.Sin(2*math.Pi*(float64(t)/wanderingTurn+float64(7*i%10)/10))
	}
}

func (w *world) rise() {
	wave := 0.3 * math.Sin(2*math.Pi*float64(w.t)/dailyTurn)
	for i := range w.now {
		w.now[i] = 0.65 - 0.3*float64(i)/float64(w.n) + wave
	}
}

func (w *world) tire() {
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

func (w *world) drawWindow() int {
	if w.q == nil {
		return 1 + int((w.t-1)*int64(w.n)/w.horizon)
	}
	u := w.windows.float64()
	if w.scenario == Mixed {
		return 1 + int(u*float64(w.n))
	}
	// Short windows are the likeliest.
	k := 0
	for k < w.n-1 && u >= w.upTo[k] { // the last is 1
		k++
	}
	return k + 1
}

// drawCandidates draws distinct items (R. Floyd's algorithm: J. Bentley, "Programming pearls: A sample of brilliance", CACM 1987)
// in the order of their utilities.
func (w *world) drawCandidates() {
	var live []policy.Item // nil: all
	items := len(w.means[0])
	if w.market != nil && w.market.live != nil {
		live = w.market.live
		items = len(live)
	}
	c := w.candidates[:0]
	for top := items - w.n; top < items; top++ {
		x := policy.Item(w.shuffle.below(top + 1))
		if slices.Contains(c, x) {
			x = policy.Item(top)
		}
		c = append(c, x)
	}
	if live != nil {
		for k, x := range c {
			c[k] = live[x]
		}
	}
	slices.Sort(c)
}

func (w *world) mean(position int32) float64 {
	if w.visitors != nil {
		return w.visitors.mean(position)
	}
	if w.scenario == Ranks {
		return w.now[position]
	}
	return w.now[w.candidates[position]] * w.factor
}

// reply is the outcome of a selection.
type reply struct {
	payoff float64 // in raw units
	late   int64   // delay in decisions of the payoff or the expiry
	paid   bool
	// undelivered is the part of late in which the payoff waits in an undelivered file.
	undelivered int64
	parts       []part // in the order of time
}

// part is a partial payoff.
type part struct {
	late int64   // delay in decisions
	sum  float64 // cumulated, within the range, in raw units
}

// reply returns the outcome of the user's selection by the payoff horizon. The luck is the same for all candidates. It is called
// once per impression, since it adds load (Fatigue).
func (w *world) reply(position int32) reply {
	w.tired = w.candidates[position]
	var r reply
	switch {
	case w.market == nil:
		r = reply{payoff: w.payoff(position), late: w.lateness.draw(w.horizon), paid: true}
	case w.market.sums:
		return w.market.replyInParts(w.candidates[position], w.luck, w.awaited)
	default:
		r = w.market.reply(w.t, w.candidates[position], w.luck, w.factor)
	}
	if w.market != nil && w.market.daily {
		r.undelivered = w.market.nightFrom(w.t + 1 + r.late)
		r.late += r.undelivered
	}
	if !r.paid || r.late >= w.awaited {
		return reply{late: w.awaited}
	}
	return r
}

// payoff returns the payoff where all selections are paid.
func (w *world) payoff(position int32) float64 {
	switch {
	case w.visitors != nil:
		return w.visitors.payoff(position, w.luck)
	case w.scenario.Gaussian():
		return w.mean(position) + w.luck
	case w.scenario == Catalog:
		return unit(w.centres[w.candidates[position]] + catalogNoise*w.luck)
	case w.jackpot && w.candidates[position] != 0:
		return unit(w.mean(position) + jackpotNoise*w.luck)
	case w.jackpot:
		return indicator(w.luck < w.lucky)
	}
	return indicator(w.luck < w.mean(position))
}

func unit(x float64) float64 { return min(max(x, 0), 1) }

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// bestMean returns the mean payoff of the best ranking for the present window.
func (w *world) bestMean() float64 {
	if w.shop != nil {
		return w.shop.bestMean(w)
	}
	if w.tastes != nil {
		return w.bestOwn()
	}
	if w.visitors != nil {
		return w.visitors.best(w.window)
	}
	if w.best != nil {
		return w.best[w.periods[w.at].level][w.window-1]
	}
	best := math.Inf(-1)
	for _, item := range w.candidates[w.window-1:] {
		best = max(best, w.now[item])
	}
	return best * w.factor
}

// bestFixed returns Σ_w q_w·max_{i≥w} L_i, the mean of the best fixed ranking so far. scratch has room for n numbers.
func (w *world) bestFixed(scratch []float64) float64 {
	total := scratch[:w.n]
	clear(total)
	for level, count := range w.counts {
		for i, mean := range w.means[level] {
			total[i] += float64(count) * mean
		}
	}
	return admissible.Best(total, w.q)
}
