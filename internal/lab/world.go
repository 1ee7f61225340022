package lab

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// World is one run of a scenario: its items, and the users of impressions t = 1, 2, and so on. Next begins an impression; the other methods are
// about the present one. Rankings hold positions among its candidates, in the order shown. Its random numbers come from the run's
// streams, and except for Fatigue's means nothing depends on rankings. It is not safe for concurrent use.
type World struct {
	scenario *definition
	n        int // candidates per impression
	horizon  int64
	period   int64 // Wave's
	t        int64 // the present impression
	clock    clock

	candidates []policy.Item // of the present impression, in increasing utility
	window     int           // of its user
	luck       float64       // of the payoff: standard normal, or uniform on [0,1)

	lateness lateness
	awaited  int64 // payoff horizon; beyond any delay if there is none

	means      [][]float64 // by level, then by item, or by rank for Ranks
	centres    []float64   // Catalog: of payoffs before clipping
	now        []float64   // present means
	counts     []int64     // impressions by level
	lucky      float64     // normal luck below which item 1 pays, with jackpot payoffs
	factor     float64     // of all means: the present tide
	conversion float64     // Numbers': the mean of means
	loads      []float64   // Fatigue: by item
	rests      []float64   // Fatigue: means without load
	tired      policy.Item // Fatigue: the last selection, or nobody

	// Each of these is nil in scenarios without it.
	events    *eventStream
	visitors  *visitors
	customers *customersOf
	news      *news
	tastes    *preferenceNoise

	q       []float64 // the distribution of windows; nil if they are not drawn
	upTo    []float64 // its prefix sums
	order   []int32   // positions in rising utility of the present user
	windows *stream
	normal  *rand.Rand // of uniform
	uniform *stream    // payoffs' luck
	shuffle *stream
}

// NewWorld returns a run of an experiment, before its first impression.
func NewWorld(e *Experiment, run int) (*World, error) {
	s := e.Scenario
	w := &World{
		scenario: s.definition(), n: s.Candidates(e.Items), horizon: e.Horizon, period: e.period(), clock: e.clock(), factor: 1,
		awaited: e.horizon(), tired: nobody,
		windows: newStream(e.Seed, run, forWindows), uniform: newStream(e.Seed, run, forPayoffs), shuffle: newStream(e.Seed, run, forCandidates),
	}
	w.normal = rand.New(w.uniform)
	if e.Numbers != nil {
		w.conversion = e.Numbers.Conversion
	}
	if w.awaited == 0 {
		w.awaited = math.MaxInt64
	}
	if !s.OwnDelays() {
		w.lateness = e.lateness().drawn(newStream(e.Seed, run, forDelays))
	}
	var err error
	if w.q, err = s.distribution(w.n); err != nil {
		return nil, err
	}
	if w.q != nil {
		w.upTo = admissible.Prefix(w.q, make([]float64, w.n))
	}
	for i := range w.n {
		w.candidates = append(w.candidates, policy.Item(i))
		w.order = append(w.order, int32(i))
	}
	w.tastes = newTastes(e, run, w.n)
	w.drawItems(e, run)
	w.counts = make([]int64, len(w.means))
	if w.scenario.payoffs == jackpot {
		w.lucky = math.Sqrt2 * math.Erfinv(2*w.means[0][0]-1)
	}
	return w, nil
}

// drawItems sets the means and the scenario's own part.
func (w *World) drawItems(e *Experiment, run int) {
	d := w.scenario
	switch {
	case d.delays != nil:
		w.events = newEventStream(d.delays, w.clock, e.Items, e.Horizon, e.Seed, run)
		w.means = [][]float64{w.events.means()}
	case d.contexts != nil:
		w.visitors = newVisitors(d.contexts, e.Items, w.n, e.Horizon, e.Seed, run)
		w.means = [][]float64{w.visitors.means}
	case d.shop != nil:
		w.customers = newCustomersOf(d.shop, e, run)
		w.means = [][]float64{w.customers.means}
		w.now = w.means[0]
		w.customers.findBest(w)
	case d.draw != nil:
		w.means = d.draw(w, e.Items, rand.New(newStream(e.Seed, run, forItems)))
	default:
		w.means = d.levels(e.Items)
	}
}

// Next begins the next impression.
func (w *World) Next() {
	d := w.scenario
	w.t++
	level := 0
	if d.level != nil {
		level = d.level(w)
	}
	w.now = w.means[level]
	w.counts[level]++
	w.window = w.drawWindow()
	if d.payoffs == bernoulli {
		w.luck = w.uniform.float64()
	} else {
		w.luck = w.normal.NormFloat64()
	}
	if d.move != nil {
		d.move(w)
	}
	if w.events != nil {
		w.events.next(w.t)
		if d.delays.tide != nil {
			w.factor = d.delays.tide(w.clock.at(w.t))
		}
	}
	switch {
	case d.reorders:
		shuffle(w.candidates, w.shuffle)
	case w.visitors != nil:
		w.visitors.next(w.candidates)
	case w.news != nil:
		w.news.next(w)
	case d.fewer:
		w.drawCandidates()
	}
	if w.tastes != nil {
		w.tastes.next(w.order)
	}
	if w.customers != nil {
		w.customers.next(w)
	}
}

func (w *World) drawWindow() int {
	if w.q == nil {
		return 1 + int((w.t-1)*int64(w.n)/w.horizon)
	}
	return simulate.Window(w.upTo, w.windows.float64())
}

// drawCandidates draws distinct items, of the live ones if items come and go, in the order of their utilities.
func (w *World) drawCandidates() {
	var live []policy.Item
	items := len(w.means[0])
	if w.events != nil && w.events.live != nil {
		live = w.events.live
		items = len(live)
	}
	w.candidates = sample(w.shuffle.below, items, w.n, w.candidates)
	if live != nil {
		for k, x := range w.candidates {
			w.candidates[k] = live[x]
		}
		slices.Sort(w.candidates)
	}
}

// mean returns a candidate's mean payoff.
func (w *World) mean(position int32) float64 {
	switch {
	case w.visitors != nil && w.scenario.payoffs == clipped:
		return simulate.ClippedMean(w.visitors.centres[position], w.scenario.deviation)
	case w.visitors != nil:
		return w.visitors.centres[position]
	case w.scenario.byRank:
		return w.now[position]
	}
	return w.now[w.candidates[position]] * w.factor
}

// utility returns the present user's utility of a candidate.
func (w *World) utility(position int32) float64 {
	if w.tastes != nil {
		return w.tastes.own[position]
	}
	return float64(position)
}

// favourite returns the place in a ranking, from 0, of the largest utility within the window.
func (w *World) favourite(ranking []int32, window int, utility func(position int32) float64) (place int) {
	liked := math.Inf(-1)
	for k, position := range ranking[:min(window, len(ranking))] {
		if u := utility(position); u > liked {
			liked, place = u, k
		}
	}
	return place
}

// Select returns the place in a ranking, from 0, of the user's selection; −1 for none.
func (w *World) Select(ranking []int32) int {
	if w.customers != nil {
		return w.customers.selects(w, ranking)
	}
	return w.favourite(ranking, w.window, w.utility)
}

// Earns returns the mean payoff of a ranking with the present user, over the luck of selections and payoffs.
func (w *World) Earns(ranking []int32) float64 { return w.earns(ranking, w.window) }

func (w *World) earns(ranking []int32, window int) float64 {
	if w.customers != nil {
		return w.customers.earns(w, ranking, window)
	}
	return w.mean(ranking[w.favourite(ranking, window, w.utility)])
}

// Worth returns the mean of Earns over all windows. Not for windows that are not drawn.
func (w *World) Worth(ranking []int32) (mean float64) {
	for k, q := range w.q {
		mean += q * w.earns(ranking, k+1)
	}
	return mean
}

// Best returns the mean payoff of the best ranking for the present user.
func (w *World) Best() float64 {
	switch {
	case w.customers != nil:
		return w.customers.bestMean(w)
	case w.visitors != nil && w.tastes == nil:
		return w.mean(w.visitors.best(w.window))
	}
	return w.bestOf(w.mean)
}

// bestOf returns the largest value of a candidate that some ranking makes the user select: of which window−1 or more are liked less.
func (w *World) bestOf(value func(position int32) float64) float64 {
	best := math.Inf(-1)
	for _, position := range w.order[w.window-1:] {
		best = max(best, value(position))
	}
	return best
}

// bestFixed returns Σ_w q_w·max_{i≥w} L_i, the mean of the best fixed ranking so far. scratch has room for n numbers.
func (w *World) bestFixed(scratch []float64) float64 {
	total := scratch[:w.n]
	clear(total)
	for level, count := range w.counts {
		for i, mean := range w.means[level] {
			total[i] += float64(count) * mean
		}
	}
	return admissible.Best(total, w.q)
}

// Reply is the outcome of a selection.
type Reply struct {
	Payoff float64 // in raw units
	Late   int64   // delay in impressions of the payoff or the expiry
	Paid   bool
	// undelivered is the part of Late in which the payoff waits in an undelivered file.
	undelivered int64
	parts       []part // in the order of time
}

// part is a partial payoff.
type part struct {
	late int64   // delay in impressions
	sum  float64 // cumulated, within the range, in raw units
}

// Reply returns the outcome by the payoff horizon of the user's selection of a candidate. The luck is the same for all candidates. It is
// called once per impression at most.
func (w *World) Reply(position int32) Reply {
	w.tired = w.candidates[position]
	var r Reply
	switch {
	case w.events == nil:
		r = Reply{Payoff: w.payoff(position), Late: w.lateness.draw(w.horizon)}
		r.Paid = !w.scenario.silent || r.Payoff > 0
	case w.events.sums:
		return w.events.replyInParts(w.candidates[position], w.luck, w.awaited)
	default:
		r = w.events.reply(w.t, w.candidates[position], w.luck, w.factor)
	}
	if w.events != nil && w.events.daily {
		r.undelivered = w.events.nightFrom(w.t + 1 + r.Late)
		r.Late += r.undelivered
	}
	if !r.Paid || r.Late >= w.awaited {
		return Reply{Late: w.awaited}
	}
	return r
}

// payoff returns the payoff where all selections are paid.
func (w *World) payoff(position int32) float64 {
	switch w.scenario.payoffs {
	case normal:
		return w.mean(position) + w.luck
	case clipped:
		return unit(w.centre(position) + w.scenario.deviation*w.luck)
	case jackpot:
		if w.candidates[position] == 0 {
			return indicator(w.luck < w.lucky)
		}
		return unit(w.mean(position) + jackpotNoise*w.luck)
	}
	return indicator(w.luck < w.mean(position))
}

// centre returns the mean of clipped payoffs before clipping.
func (w *World) centre(position int32) float64 {
	if w.visitors != nil {
		return w.visitors.centres[position]
	}
	return w.centres[w.candidates[position]]
}

func unit(x float64) float64 { return min(max(x, 0), 1) }

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
