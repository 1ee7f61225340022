package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// Six items, a to f by increasing utility, of which b is the best until all but d get worse. Users select the highest
// utility within a window of P(w) ∝ 0.7^w; three of a hundred select anything within it. The last rounds are judged.
const (
	robustItems   = 6
	robustRounds  = 50
	robustEach    = 45 // impressions in a round, which is a pass of event time
	robustChange  = 15 // the round in which the best item changes
	robustJudged  = 18 // rounds
	robustLag     = 4  // after how many rounds payoffs come, some of them up to five later
	robustRange   = 10 // payoff_range ends there; payoffs are 0 or 1
	robustPass    = 4096
	contraryUsers = 0.03
)

// robustMean is the mean payoff of an item.
func robustMean(item, round int) float64 {
	before := []float64{0.3, 0.9, 0.3, 0.5, 0.3, 0.3}
	after := []float64{0.05, 0.05, 0.05, 0.5, 0.05, 0.05}
	if round < robustChange {
		return before[item]
	}
	return after[item]
}

// robustWindows are the windows of users, folded: whoever looks at more sees them all.
func robustWindows() []float64 {
	q, total := make([]float64, robustItems), 0.0
	for k := range 10 {
		total += math.Pow(0.7, float64(k))
	}
	for k := range 10 {
		q[min(k, robustItems-1)] += math.Pow(0.7, float64(k)) / total
	}
	return q
}

// robustBest returns the payoff of the best ranking in a round: its best item is on top, then those with less utility.
func robustBest(q []float64, round int) float64 {
	sum := 0.0
	for w, share := range q {
		most := 0.0
		for item := w; item < robustItems; item++ {
			most = max(most, robustMean(item, round))
		}
		sum += share * most
	}
	return sum
}

// robustUser selects a position of those shown.
func robustUser(rng *rand.Rand, q []float64, shown []int) int {
	window, u := 1, rng.Float64()
	for u -= q[0]; u >= 0 && window < robustItems; window++ {
		u -= q[window]
	}
	if rng.Float64() < contraryUsers {
		return rng.IntN(window)
	}
	return slices.Index(shown, slices.Max(shown[:window]))
}

// fedPayoff is a logged payoff: normalised, with its ranking's values for the selected item.
type fedPayoff struct {
	item                         int
	began                        int64
	payoff, propensity, expected float64
}

// sumsRow is a block's row: payoffs, their sum and sum of squares, chances; or for all items payoffs and residuals.
type sumsRow struct {
	inflight.Bucket
	n, sum, squares, chances float64
}

// halfLives are the default ones, in ms, and the last is for ever.
var halfLives = []float64{1e3, 8e3, 60e3, 480e3, 3600e3, 9 * 3600e3, math.Inf(1)}

func decay(age int64, horizon int) float64 {
	return math.Exp2(-math.Abs(float64(age)) / halfLives[horizon])
}

// parts is a number as the state has it: rounded to 2⁻³⁰.
func parts(x float64) float64 { return math.Round(x*(1<<30)) / (1 << 30) }

// robustFold folds payoffs by block: each item as of the newest paid selection when its last payoff came, and all as of the newest.
func robustFold(g *inflight.Scheme, all []fedPayoff) (items [robustItems][]sumsRow, levels []sumsRow, pass int64) {
	pass = math.MinInt64
	var asOf [robustItems]int64
	for _, x := range all {
		pass = max(pass, g.Tick(x.began))
		asOf[x.item] = pass
	}
	count := func(rows []sumsRow, s sumsRow) []sumsRow {
		at, found := slices.BinarySearchFunc(rows, s, func(a, b sumsRow) int { return cmp.Compare(a.Start(), b.Start()) })
		if !found {
			return slices.Insert(rows, at, s)
		}
		r := &rows[at]
		r.n, r.sum, r.squares, r.chances = r.n+s.n, r.sum+s.sum, r.squares+s.squares, r.chances+s.chances
		return rows
	}
	for _, x := range all {
		items[x.item] = count(items[x.item], sumsRow{g.BucketOf(x.began, asOf[x.item]), 1, parts(x.payoff), parts(x.payoff * x.payoff),
			math.Round(1024/max(x.propensity, 1./1000)) / 1024})
		levels = count(levels, sumsRow{Bucket: g.BucketOf(x.began, pass), n: 1, sum: parts(x.payoff) - parts(x.expected)})
	}
	return items, levels, pass
}

// longestPast is the longest of nested pasts, the shortest first, that no shorter one of enough payoffs contradicts.
func longestPast(mean, worth []float64, least, deviations, sigma float64) int {
	for next := range mean {
		for k := range next {
			if worth[k] >= least && differ(mean[k], worth[k], mean[next], deviations, sigma) {
				return next - 1
			}
		}
	}
	return len(mean) - 1
}

func differ(mean, n, other, deviations, sigma float64) bool {
	return math.Abs(mean-other) > deviations*sigma/math.Sqrt(n)+max(0, 1-deviations*sigma)/n
}

// robustEstimate is the estimate from all payoffs: levels by block, half-life, and spread.
type robustEstimate struct {
	pass             int64
	blocks           []inflight.Bucket
	found, level     []float64 // by residuals, and the part that payoffs confirm
	now              int       // index of the half-life
	mean, sigma, tau float64
	slope            float64 // of payoffs over found levels, for the next estimate
}

func firstEstimate() robustEstimate {
	return robustEstimate{pass: math.MinInt64, blocks: []inflight.Bucket{{Level: 60}}, level: []float64{0}, now: len(halfLives) - 1,
		sigma: 0.5, tau: 0.25, slope: 1}
}

// after is the estimate made of some payoffs, after e.
func (e *robustEstimate) after(g *inflight.Scheme, all []fedPayoff) robustEstimate {
	items, rows, pass := robustFold(g, all)
	next := robustEstimate{pass: pass}
	around := func(at, upTo int) (mean, worth []float64) {
		for h := range halfLives {
			var n, u float64
			for _, r := range rows[:upTo] {
				w := decay(r.Middle()-rows[at].Middle(), h)
				n, u = n+w*r.n, u+w*r.sum
			}
			mean, worth = append(mean, u/n), append(worth, n)
		}
		return mean, worth
	}
	for at := range rows {
		mean, worth := around(at, len(rows))
		h := longestPast(mean, worth, 4, 3, e.sigma)
		next.blocks = append(next.blocks, rows[at].Bucket)
		found := mean[h] * worth[h] / (worth[h] + 4)
		next.found, next.level = append(next.found, found), append(next.level, parts(e.slope*found))
	}
	mean, worth := around(len(rows)-1, len(rows))
	next.now = longestPast(mean, worth, 4, 3, e.sigma)
	next.spread(items[:])
	return next
}

// at is the block of the estimate that a row belongs to.
func (e *robustEstimate) at(r *sumsRow) int {
	k := len(e.blocks) - 1
	for k > 0 && e.blocks[k].Start() > r.Start() {
		k--
	}
	return k
}

// spread estimates how payoffs of an item vary, and how items do, levels taken off: the likeliest, as the prior's page says. It regresses
// payoffs on found levels, as robust's page says.
func (e *robustEstimate) spread(items [][]sumsRow) {
	var n, sum, within []float64
	payoffs, squares := 0.0, 0.0
	xx, xy := 0.0, 0.0
	for _, rows := range items {
		var w, r, q, at, sums float64
		for k := range rows {
			x, level := &rows[k], e.level[e.at(&rows[k])]
			w, r, q = w+x.n, r+x.sum-level*x.n, q+x.squares-2*level*x.sum+level*level*x.n
			at, sums = at+x.n*e.found[e.at(x)], sums+x.sum
		}
		for k := range rows {
			x := &rows[k]
			off := e.found[e.at(x)] - at/w
			xx, xy = xx+x.n*off*off, xy+off*(x.sum-x.n*sums/w)
		}
		if w > 0 {
			n, sum, within = append(n, w), append(sum, r), append(within, max(0, q-r*r/w))
			payoffs, squares = payoffs+w, squares+within[len(within)-1]
		}
	}
	count := float64(len(n))
	variance := 0.25
	if payoffs > count {
		variance = min(variance, (squares+4*variance)/(payoffs-count+4))
	}
	e.sigma = math.Sqrt(variance)
	e.slope = min(1, max(0, (xy+e.sigma*math.Sqrt(xx)+variance)/(xx+variance)))
	mean, kappa := likeliest(n, sum, variance)
	kappa = (max(0, count-1) + 4) / (max(0, count-1)/kappa + 4/4.)
	e.mean, e.tau = mean, math.Sqrt(variance/kappa)
}

// likeliest are the mean of items' means, and how many payoffs that is worth, of the five at which likelihood is looked at and
// between them.
func likeliest(n, sum []float64, variance float64) (mean, kappa float64) {
	var lastMean, lastH, last float64
	for _, k := range []float64{0.5, 4, 32, 256, 2048} {
		var w, ww, v float64
		for i := range n {
			c := n[i] / (n[i] + k)
			w, ww, v = w+c, ww+c*c, v+sum[i]/(n[i]+k)
		}
		m, between := v/w, 0.0
		for i := range n {
			c := n[i] / (n[i] + k)
			between += c * c * (sum[i]/n[i] - m) * (sum[i]/n[i] - m)
		}
		if w-ww/w <= 1e-15 {
			return m, 4
		}
		h := between / (w - ww/w) * k / variance
		if h < 1 && k < 2048 {
			lastMean, lastH, last = m, h, k
			continue
		}
		if last == 0 || h <= 1 {
			return m, k
		}
		back := (1 - 1/h) / (1/lastH - 1/h)
		return m + back*(lastMean-m), 1 / (1/k + back*(1/last-1/k))
	}
	panic("not reached")
}

// is reports whether the estimate is the stored one.
func (e *robustEstimate) is(stored string) bool {
	words := strings.Fields(stored)
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return math.NaN()
		}
		return x
	}
	near := func(x float64, text string) bool { return math.Abs(x-number(text)) <= 1e-8*max(1, math.Abs(x)) }
	life := halfLives[e.now]
	if math.IsInf(life, 1) {
		life = 0
	}
	if len(words) != 7+len(e.blocks) || !near(float64(e.pass), words[0]) || !near(e.mean, words[2]) || !near(e.sigma, words[3]) ||
		!near(e.tau, words[4]) || !near(e.slope, words[5]) || !near(life, words[6]) {
		return false
	}
	for k, b := range e.blocks {
		parts := strings.Split(words[7+k], ":")
		if len(parts) != 3 || parts[0] != fmt.Sprint(b.Level) || parts[1] != fmt.Sprint(b.Index) ||
			math.Abs(e.level[k]-number(parts[2])/(1<<30)) > 1e-8 {
			return false
		}
	}
	return true
}

func (e *robustEstimate) middle(r *sumsRow) int64 { return e.blocks[e.at(r)].Middle() }

// decayed returns an item's mean payoff less levels, the number of payoffs behind it, and the chances, by half-life from the newest row.
func (e *robustEstimate) decayed(rows []sumsRow) (means, worths, chances []float64) {
	for h := range halfLives {
		var n, sum, d float64
		for k := range rows {
			x := &rows[k]
			w := decay(e.middle(&rows[len(rows)-1])-e.middle(x), h)
			n, sum, d = n+w*x.n, sum+w*(x.sum-x.n*e.level[e.at(x)]), d+w*x.chances
		}
		means, worths, chances = append(means, sum/n), append(worths, n), append(chances, d)
	}
	return means, worths, chances
}

// read returns an item's recent mean, the number of payoffs behind it, and its chances of selection.
func (e *robustEstimate) read(rows []sumsRow) (mean, worth, chances float64) {
	if len(rows) == 0 {
		return 0, 0, 0
	}
	forEver, last := len(halfLives)-1, len(rows)-1
	means, worths, all := e.decayed(rows)
	h := 1 + longestPast(means[1:], worths[1:], 1, 3, e.sigma)
	mean, worth, chances = means[h], worths[h], all[h]
	age := e.pass - e.middle(&rows[last])
	common := all[e.now] * decay(max(0, age), e.now)
	if m, n, d, cut := e.tail(rows, mean, worth); cut {
		mean, worth, chances, h = m, n, d, forEver
		if e.now == forEver {
			common = chances
		}
	}
	weight := decay(max(0, age), h)
	return mean, worth * weight, min(chances*weight, common)
}

// tail is the longest of the last 4, 8, 16 … payoffs that no shorter one contradicts, where one contradicts the mean of more.
func (e *robustEstimate) tail(rows []sumsRow, mean, worth float64) (m, n, d float64, cut bool) {
	var means, worths, chances []float64
	for k, next := len(rows)-1, 4.; k >= 0; k-- {
		x := &rows[k]
		n, m, d = n+x.n, m+x.sum-x.n*e.level[e.at(x)], d+x.chances
		if n >= worth {
			break
		}
		if n >= next {
			means, worths, chances = append(means, m/n), append(worths, n), append(chances, d)
			for next <= n {
				next *= 2
			}
		}
	}
	for k := range means {
		if differ(means[k], worths[k], mean, 4, e.sigma) {
			at := longestPast(means, worths, 0, 4, e.sigma)
			return means[at], worths[at], chances[at], true
		}
	}
	return 0, 0, 0, false
}

// decide returns each item's expected payoff, and its chances of selection.
func (e *robustEstimate) decide(items *[robustItems][]sumsRow) (expected, chances []float64) {
	for _, rows := range items {
		mean, worth, c := e.read(rows)
		expected = append(expected, (worth*mean+e.kappa()*e.mean)/(worth+e.kappa()))
		chances = append(chances, c)
	}
	return expected, chances
}

func (e *robustEstimate) kappa() float64 { return e.sigma * e.sigma / (e.tau * e.tau) }

// rates are those of items with such recorded expectations. While no mean has changed, chances do not count.
func (e *robustEstimate) rates(recorded, chances []float64, changed bool) (rates []float64) {
	differ := slices.Max(recorded) - slices.Min(recorded)
	again := 1500 * min(1000, max(1, e.sigma*e.sigma/(differ*differ)/5))
	for _, c := range chances {
		looks := min(c, again)
		if !changed {
			looks = again / 2
		}
		rates = append(rates, 0.5*e.sigma/math.Sqrt(looks+e.kappa()+1))
	}
	return rates
}

// robustRun is a run of TestPipeline_RobustIsRecomputed.
type robustRun struct {
	*world
	q        []float64
	grid     inflight.Scheme
	rng      *rand.Rand
	start    int64 // event time of the first round
	fed      []fedPayoff
	estimate robustEstimate
	flying   [robustItems]int
	halves   int // rankings that MOSS could have made
	due      [robustRounds + robustLag + 6][]robustAnswer
	seen     int     // rankings
	least    float64 // propensity
	realised float64 // payoffs of the rounds that are judged
	changes  int     // rounds in which the level was found to have changed
}

// robustAnswer is a payoff that is still to come.
type robustAnswer struct {
	id string
	fedPayoff
}

// impressions sends those of a round, and waits until they are ranked.
func (x *robustRun) impressions(t *testing.T, round int) {
	var batch []kafka.Message
	for k := range robustEach {
		id := fmt.Sprintf("i-%d-%d", round, k)
		var candidates []string
		for item := range robustItems {
			candidates = append(candidates, fmt.Sprintf(`{"item":"%c","utility":%d}`, 'a'+item, item))
		}
		x.rng.Shuffle(robustItems, func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		batch = append(batch, kafka.Message{Topic: x.cfg.Kafka.Topics.Impressions, Key: []byte(id),
			Value: fmt.Appendf(nil, `{"impression_id":%q,"candidates":[%s]}`, id, strings.Join(candidates, ",")),
			Time:  time.UnixMilli(x.start + int64(round*robustPass+k*80))})
	}
	x.publish(t, batch...)
	x.until(t, "impressions.read", (round+1)*robustEach)
}

// until waits until so many are stored.
func (x *robustRun) until(t *testing.T, count string, n int) {
	require.Eventually(t, func() bool { return x.counts(t)[count] == int64(n) }, deadline, 10*time.Millisecond, count)
}

// decisions compares the rankings of a round with this test's computation, and has users select.
func (x *robustRun) decisions(t *testing.T, round int) {
	items, _, _ := robustFold(&x.grid, x.fed)
	expected, chances := x.estimate.decide(&items)
	outcomes, changed := x.estimate.leading(&items, &x.flying, x.q)
	flying := x.flying
	records := x.world.rankings(t, 0)
	require.Len(t, records, x.seen+robustEach)
	var selections []kafka.Message
	for _, m := range records[x.seen:] {
		var d decided
		require.NoError(t, json.Unmarshal(m.Value, &d))
		require.Equal(t, "robust", d.Decision.Policy)
		shown, rounded := make([]int, robustItems), make([]float64, robustItems)
		for k, item := range d.Items {
			i := int(item[0] - 'a')
			shown[k] = i
			require.InDelta(t, expected[i], d.Decision.Expected[k], 0.51e-6, "%s: expected of %s", d.ID, item)
			rounded[i] = d.Decision.Expected[k]
			x.least = min(x.least, d.Decision.Propensities[k])
		}
		p := slowest(rounded, x.q, x.estimate.rates(rounded, chances, changed))
		if !changed {
			x.halves++
			p = halfOf(p, outcomes, shown, d.Decision.Propensities)
		}
		for k, i := range shown {
			require.InDelta(t, p[i], d.Decision.Propensities[k], 1e-9+1e-7*p[i], "%s: propensity of %s, of %v", d.ID, d.Items[k], outcomes)
		}
		at := robustUser(x.rng, x.q, shown)
		selections = append(selections, kafka.Message{Topic: x.cfg.Kafka.Topics.Selections, Key: []byte(d.ID),
			Value: fmt.Appendf(nil, `{"impression_id":%q,"item":%q}`, d.ID, d.Items[at])})
		payoff := 0.0
		if x.rng.Float64() < robustMean(shown[at], round) {
			payoff = 1
		}
		if round >= robustRounds-robustJudged {
			x.realised += payoff
		}
		late := robustLag
		if x.rng.IntN(10) == 0 {
			late += x.rng.IntN(6)
		}
		flying[shown[at]]++
		x.due[round+late] = append(x.due[round+late], robustAnswer{d.ID, fedPayoff{shown[at], d.Decision.Began.UnixMilli(),
			payoff / robustRange, d.Decision.Propensities[at], d.Decision.Expected[at]}})
	}
	x.seen, x.flying = len(records), flying
	x.publish(t, selections...)
	x.until(t, "selections.joined", x.seen)
}

// answers sends the payoffs due in a round, and waits until they are fed and estimates made.
func (x *robustRun) answers(t *testing.T, round int) {
	due := x.due[round]
	if len(due) == 0 {
		return
	}
	var batch []kafka.Message
	for _, a := range due {
		batch = append(batch, kafka.Message{Topic: x.cfg.Kafka.Topics.Payoffs, Key: []byte(a.id),
			Value: fmt.Appendf(nil, `{"impression_id":%q,"payoff":%g}`, a.id, math.Round(a.payoff*robustRange))})
	}
	x.publish(t, batch...)
	before := len(x.fed)
	for _, a := range due {
		x.fed = append(x.fed, a.fedPayoff)
		x.flying[a.item]--
	}
	x.until(t, "payoffs.applied", len(x.fed))
	_, _, pass := robustFold(&x.grid, x.fed)
	stored := ""
	require.Eventually(t, func() bool {
		var err error
		stored, err = x.redis.HGet(t.Context(), fmt.Sprintf("{%s:0}:feed:learner", x.group), "levels").Result()
		return err == nil && strings.HasPrefix(stored, fmt.Sprint(pass, " "))
	}, deadline, 10*time.Millisecond, "payoffs are estimated")
	if pass == x.estimate.pass { // a round that ends within the tick of the one before has no estimate of its own
		require.True(t, x.estimate.is(stored), stored)
		return
	}
	for k := len(x.fed); ; k-- { // it was made once in this round, after so many payoffs
		require.Greater(t, k, before, "none of the estimates that could have been made is the one stored: %s", stored)
		if e := x.estimate.after(&x.grid, x.fed[:k]); e.is(stored) {
			x.estimate = e
			break
		}
	}
	if x.estimate.now < len(halfLives)-1 {
		x.changes++
	}
}

// TestPipeline_RobustIsRecomputed: robust ranks and learns, with some contrary users, a payoff range ten times too wide, late payoffs, and
// a restart meanwhile. A slow and plain computation from the log gives the same levels, spread, expectations and propensities. Only the
// number of payoffs before each estimate is not in the log; it is found from the stored estimate. No propensity collapses, and the best
// item is found again after its change.
//
// In 4,000 plays of this world with the learner alone, the payoff of the judged rounds was 0.394 ± 0.022 in the mean. At best it is 0.402;
// no play was below two thirds of that. It must be above that in one of two plays. With 8·10⁻⁴ at the most (95%) to miss it in one, this
// fails without cause less often than once in 10⁶. A ranking by utility earns 0.05.
func TestPipeline_RobustIsRecomputed(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		best, most := robustBest(robustWindows(), robustRounds-1), 0.0
		for play := uint64(0); play < 2 && most <= best*2/3; play++ {
			most = max(most, playRobust(t, env, play))
		}
		require.Greater(t, most, best*2/3, "in both plays it has not learned")
	})
}

// playRobust plays the world once, and gives the mean payoff of the rounds that are judged.
func playRobust(t *testing.T, env testenv.Env, seed uint64) float64 {
	s := plain(env, fmt.Sprintf(`policy: robust
    payoff_range: [0, %d]
    payoff_horizon: 24h
    on_expiry: drop
    windows: {geometric: 0.7, max: 10}`, robustRange))
	s.payoffs = "adversarial"
	x := &robustRun{world: makeWorld(t, 1, s, s, func(string) (string, bool) { return "", false }), q: robustWindows(),
		grid: inflight.NewSchemeUpTo(1, 1024), rng: rand.New(rand.NewPCG(7, seed)), estimate: firstEstimate(), least: 1}
	// Event time goes a pass ahead with each round, and may be five minutes ahead of the clock.
	x.start = (time.Now().UnixMilli()/robustPass + 1) * robustPass
	run := x.world.start(t)
	for round := range robustRounds {
		x.impressions(t, round)
		x.decisions(t, round)
		if round == robustRounds/2 {
			run.stop(t)
			run = x.world.start(t)
		}
		x.answers(t, round)
	}
	run.stop(t)
	x.ranked(t, robustRounds*robustEach)
	x.lawful(t)
	require.Greater(t, x.least, 1e-8)
	require.Greater(t, x.halves, robustChange*robustEach/2, "most of the impressions before the change have halves")
	require.Less(t, x.halves, x.seen)
	realised := x.realised / (robustJudged * robustEach)
	t.Logf("the payoff of the last rounds is %.3f in the mean; the least propensity is %.2g; in %d rounds the level had changed",
		realised, x.least, x.changes)
	return realised
}
