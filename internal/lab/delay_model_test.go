//go:build !race

package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// offer is the definition of a trade for an item of quality q.
type offer struct {
	paid float64 // the share of selections
	wait float64 // of the exponential delays below horizon; 0 where they are others
}

// offered are the definitions, with the payoff horizon and the milliseconds between impressions.
func offered(s Scenario, q float64) (o offer, horizon, period int64) {
	const minutes, second, minute = 24 * 60, 1000, 60_000
	conversions := offer{0.02 + 0.08*q, 3000}
	sales := offer{0.02 + 0.08*q, 3 * minutes}
	switch s {
	case Conversions:
		return conversions, 12_000, second
	case ConversionsSlow:
		return offer{conversions.paid, 500 * math.Pow(16, q)}, 12_000, second
	case ConversionsFast:
		return offer{conversions.paid, 8000 * math.Pow(16, -q)}, 12_000, second
	case Churn:
		return offer{0.02 + 0.3*q, 4000}, 20_000, second
	case ChurnQuick:
		return offer{0.02 + 0.3*q, 200}, 20_000, second
	case ChurnSlow:
		return offer{0.02 + 0.3*q, 1000 * math.Pow(8, q)}, 20_000, second
	case Instalments:
		return offer{0.2 + 0.8*q, 3000}, 12_000, second
	case Bimodal, BimodalLate:
		return offer{sales.paid, 0}, 30 * minutes, minute
	case Halves:
		return sales, 30 * minutes, minute
	case HalvesMost:
		return offer{0.4 + 0.5*q, sales.wait}, 30 * minutes, minute
	case Faster:
		return offer{0.02 + 0.3*q, 4000}, 20_000, second
	case Slower:
		return offer{0.02 + 0.3*q, 1000}, 20_000, second
	case Nightly:
		return offer{0.02 + 0.3*q, 200}, 3 * 8640, 10 * second
	case Revenue, Refunds, RefundsSum:
		return sales, 30 * minutes, minute
	case MostlyPaid, SureAndRare:
		return offer{0.4 + 0.5*q, 6 * minutes}, 30 * minutes, minute
	case Waves:
		return offer{0.02 + 0.06*q, 3 * minutes}, 30 * minutes, minute
	case Outage:
		return offer{0.02 + 0.04*q, 3 * minutes}, 30 * minutes, minute
	case Rare:
		return offer{0.002 + 0.018*q, 3 * minutes}, 30 * minutes, minute
	case TenRare:
		return offer{0.005 + 0.015*q, 3 * minutes}, 30 * minutes, minute
	case Two:
		return offer{0.03 + 0.01*q, 3 * minutes}, 30 * minutes, minute
	}
	panic(s)
}

func tradeScenarios() (all []Scenario) {
	for _, s := range Scenarios() {
		if s.OwnDelays() {
			all = append(all, s)
		}
	}
	return all
}

func marketOf(t *testing.T, s Scenario, seed uint64) *eventStream {
	t.Helper()
	w, err := newWorld(defaults(s, seed), 0)
	require.NoError(t, err)
	require.NotNil(t, w.market)
	return w.market
}

// Qualities are evenly spaced in an order that is another in each run, or products of uniform variables, of mean ¼ (seven
// standard errors of 600: 3·10⁻¹²).
func TestTrades_Qualities(t *testing.T) {
	for _, s := range tradeScenarios() {
		m := marketOf(t, s, 1)
		sorted := slices.Sorted(slices.Values(m.quality))
		if !m.unequal {
			for k, q := range sorted {
				require.InDelta(t, float64(k)/float64(len(sorted)-1), q, 1e-12)
			}
			require.Len(t, sorted, s.DefaultItems())
			if len(sorted) > 2 {
				require.NotEqual(t, sorted, m.quality)
				require.NotEqual(t, marketOf(t, s, 2).quality, m.quality)
			}
			continue
		}
		var sum float64
		for _, q := range m.quality {
			require.True(t, q >= 0 && q < 1)
			sum += q
		}
		// 200 are live at first, and one more comes every 250 of 100,000 impressions.
		require.Len(t, m.quality, 200+399)
		require.InDelta(t, 0.25, sum/599, 7*math.Sqrt((1./9-1./16)/599))
	}
}

// seen is the outcome of a number of selections of an item.
type seen struct{ paid, wait float64 }

// Of 200,000 selections of a poor, a middling and a good item, the paid share and the mean delay are those of the definition,
// within 7 standard errors. For the rarest, of which 400 are expected, a share is off with a probability of 10⁻¹⁰. There are some
// 90 comparisons, which makes less than 10⁻⁷ for all. Delays stay below the payoff horizon.
func TestTrades_SharesAndDelaysAreAsDefined(t *testing.T) {
	const seed, draws = 11, 200_000
	for _, s := range tradeScenarios() {
		if trades[s].sums {
			continue
		}
		m := marketOf(t, s, seed)
		luck := newStream(seed, 1, forPayoffs)
		for _, item := range []policy.Item{0, policy.Item(len(m.quality) / 2), policy.Item(len(m.quality) - 1)} {
			o, horizon, period := offered(s, m.quality[item])
			if (s == Halves || s == HalvesMost) && item%2 == 0 {
				o.wait *= 4
			}
			require.Equal(t, horizon, s.PayoffHorizon())
			require.EqualValues(t, period, s.clock())
			var got seen
			for range draws {
				m.late = m.delays.float64()
				r := m.reply(1, item, luck.float64(), 1)
				if r.payoff <= 0 || !r.paid {
					continue
				}
				if r.late >= horizon {
					t.Fatalf("%s, item %d: %d late, of %d", s, item, r.late, horizon)
				}
				got.paid++
				got.wait += float64(r.late) + 0.5 // the mean of the delays that are rounded down to it
			}
			name := fmt.Sprintf("%s, item %d, seed %d", s, item, seed)
			if s == SureAndRare && item%2 == 0 {
				require.EqualValues(t, draws, got.paid)
				require.InDelta(t, o.paid, m.reply(1, item, 0.99, 1).payoff, 1e-12)
				got.paid *= o.paid // of these the mean delay is as good
				got.wait *= o.paid
			}
			require.InDelta(t, o.paid, got.paid/draws, 7*math.Sqrt(o.paid*(1-o.paid)/draws), name)
			if o.wait == 0 {
				continue
			}
			// An exponential variable of mean m that is below h has mean m − h/(e^{h/m}−1); its deviation is below m.
			mean := o.wait - float64(horizon)/math.Expm1(float64(horizon)/o.wait)
			require.InDelta(t, mean, got.wait/got.paid, 7*o.wait/math.Sqrt(got.paid), name)
		}
	}
}

// 80% come in the first hour, evenly, the others after 14 days: exactly so as a function of the luck.
func TestTrades_Bimodal(t *testing.T) {
	late := trades[Bimodal].delay
	require.EqualValues(t, 0, late(0))
	require.EqualValues(t, 30, late(0.4001))
	require.EqualValues(t, 59, late(0.7999))
	require.EqualValues(t, 14*24*60, late(0.8))
	require.EqualValues(t, 14*24*60, late(0.9999))
	late = trades[BimodalLate].delay
	require.EqualValues(t, 59, late(0.1999))
	require.EqualValues(t, 14*24*60, late(0.2))
}

// Delays change at 0.3·T: they become a quarter or four times as long, at most the payoff horizon.
func TestTrades_DelaysChange(t *testing.T) {
	for s, mean := range map[Scenario]float64{Faster: 1000, Slower: 4000} {
		m := marketOf(t, s, 1)
		before := m.delayOf(0, 0.5)
		m.next(30_000)
		require.Equal(t, before, m.delayOf(0, 0.5))
		m.next(30_001)
		want := -mean * math.Log1p(0.5*math.Expm1(-20_000/mean))
		require.InDelta(t, want, float64(m.delayOf(0, 0.5)), 1)
		require.NotEqual(t, before, m.delayOf(0, 0.5))
	}
}

// Payments of a day are transmitted at its end, with the age that they were paid at.
func TestTrades_Nightly(t *testing.T) {
	const perDay = 8640
	w, err := newWorld(defaults(Nightly, 1), 0)
	require.NoError(t, err)
	for now := int64(1); now < 3*perDay; now++ {
		w.next()
		w.luck = 0
		r := w.reply(0)
		require.Zero(t, (now+1+r.late)%perDay)
		require.True(t, r.undelivered >= 0 && r.undelivered < perDay)
		require.Equal(t, w.market.delayOf(w.candidates[0], w.market.late), r.late-r.undelivered)
	}
}

// Revenue's payoffs have median 1 and deviation 2 of the logarithm below the cut. The shares below e^{2z} are those of the normal
// distribution, each of 8 within 7 standard deviations (3·10⁻¹² each).
func TestTrades_Revenue(t *testing.T) {
	const seed, draws = 12, 400_000
	m := marketOf(t, Revenue, seed)
	luck := newStream(seed, 1, forPayoffs)
	best := policy.Item(slices.Index(m.quality, 1))
	var payoffs []float64
	for range draws {
		m.late = m.delays.float64()
		if r := m.reply(1, best, luck.float64(), 1); r.paid {
			require.True(t, r.payoff > 0 && r.payoff <= 100)
			payoffs = append(payoffs, r.payoff)
		}
	}
	slices.Sort(payoffs)
	n := float64(len(payoffs))
	for _, z := range []float64{-2, -1, -0.5, 0, 0.5, 1, 2, 2.3} {
		p := 0.5 * math.Erfc(-z/math.Sqrt2)
		below, _ := slices.BinarySearch(payoffs, math.Exp(2*z))
		require.InDelta(t, p, float64(below)/n, 7*math.Sqrt(p*(1-p)/n), "z = %v, seed %d", z, seed)
	}
	low, high := Revenue.payoffRange()
	require.Equal(t, []float64{0, 100}, []float64{low, high})
}

// Of a poor and a good item's selections 1 and 4% come to −1, 10 days late; 7 standard deviations of 200,000 (10⁻¹¹).
func TestTrades_Refunds(t *testing.T) {
	const seed, draws = 13, 200_000
	m := marketOf(t, Refunds, seed)
	luck := newStream(seed, 1, forPayoffs)
	for q, p := range map[float64]float64{0: 0.01, 1: 0.04} {
		var back float64
		for range draws {
			m.late = m.delays.float64()
			if r := m.reply(1, policy.Item(slices.Index(m.quality, q)), luck.float64(), 1); r.payoff < 0 {
				require.Equal(t, reply{payoff: -1, late: 14_400, paid: true}, r)
				back++
			}
		}
		require.InDelta(t, p, back/draws, 7*math.Sqrt(p*(1-p)/draws), "seed %d", seed)
	}
	low, high := Refunds.payoffRange()
	require.Equal(t, []float64{-1, 1}, []float64{low, high})
}

// Waves come by day and week, and are 1 in the mean of a week.
func TestTrades_Waves(t *testing.T) {
	const minute, minutes = 60_000, 7 * 24 * 60
	var sum float64
	for k := range int64(minutes) {
		x := tide(k * minute)
		days := float64(k) / (24 * 60)
		require.InDelta(t, (1+0.8*math.Sin(2*math.Pi*days))*(1+0.5*math.Sin(2*math.Pi*days/7)), x, 1e-9)
		require.InDelta(t, x, tide((k+minutes)*minute), 1e-9)
		sum += x
	}
	require.InDelta(t, 1, sum/minutes, 1e-9)
	// Payoffs, and the means that regret is computed with, rise together.
	w, err := newWorld(defaults(Waves, 1), 0)
	require.NoError(t, err)
	for now := int64(1); now <= 2000; now++ {
		w.next()
		require.Equal(t, tide(now*minute), w.factor)
		require.InDelta(t, w.market.paid[3]*w.factor, w.mean(3), 1e-12)
	}
}

// Payoffs due while their producer is down never come; they count for regret all the same.
func TestTrades_Outage(t *testing.T) {
	const down, up = 35 * 24 * 60, 38 * 24 * 60
	m := marketOf(t, Outage, 1)
	for _, now := range []int64{1, down - 2000, down - 5, down + 10, up - 5, up, up + 100} {
		for range 50 {
			m.late = m.delays.float64()
			r := m.reply(now, 0, 0, 1)
			comes := now + r.late
			require.Equal(t, comes < down || comes >= up, r.paid, "at %d, %d late", now, r.late)
		}
	}
	w, err := newWorld(defaults(Outage, 1), 0)
	require.NoError(t, err)
	for range down + 10 {
		w.next()
	}
	w.luck, w.market.late = 0, 0
	require.Equal(t, reply{late: 30 * 24 * 60}, w.reply(0))
	require.GreaterOrEqual(t, w.mean(0), 0.02)
}

// One item goes every 250 impressions, each with the same probability. Candidates are 20 different live ones, each as often as any
// other (7 standard deviations for 200 items: 10⁻⁹ together).
func TestTrades_Churn(t *testing.T) {
	w, err := newWorld(defaults(Churn, 5), 0)
	require.NoError(t, err)
	live := slices.Clone(w.market.live)
	line := slices.Clone(w.market.line)
	counts := map[policy.Item]float64{}
	left := map[int]float64{}
	for now := 1; now <= 60_000; now++ {
		w.next()
		changed := 0
		for k, item := range w.market.live {
			if item != live[k] {
				changed++
				require.Equal(t, line[0], item)
				line = line[1:]
				live[k] = item
				left[k/20]++ // a tenth of the places
			}
		}
		require.Equal(t, now > 1 && (now-1)%250 == 0, changed == 1)
		require.Len(t, w.candidates, 20)
		for k, item := range w.candidates {
			if !slices.Contains(live, item) || k > 0 && item <= w.candidates[k-1] {
				t.Fatalf("impression %d: candidates %v", now, w.candidates)
			}
			if now <= 250 {
				counts[item]++
			}
		}
	}
	for k := range 10 { // of 239 replacements; 6 standard deviations: 10⁻⁸ together
		require.InDelta(t, 23.9, left[k], 6*math.Sqrt(23.9*0.9))
	}
	require.Len(t, counts, 200)
	for _, c := range counts {
		require.InDelta(t, 25, c, 7*math.Sqrt(250*0.1*0.9))
	}
	require.EqualValues(t, 200, (&Experiment{Scenario: Churn, Items: 200, Horizon: 250}).every())
	require.EqualValues(t, 201, (&Experiment{Scenario: Churn, Items: 200, Horizon: 251}).every())
	require.ErrorContains(t, (&Experiment{Scenario: Churn, Items: 200, Horizon: 1e9, Runs: 1}).Check(), "come and go")
}

// Sums of payments have the mean that regret is computed with, which the cut at 1 lowers; payments that come too late do not count.
// Each of 200,000 within 7 standard errors (3·10⁻¹² each).
func TestTrades_Instalments(t *testing.T) {
	const seed, draws = 14, 200_000
	m := marketOf(t, Instalments, seed)
	luck := newStream(seed, 1, forPayoffs)
	for item := range policy.Item(10) {
		o, horizon, _ := offered(Instalments, m.quality[item])
		means := map[int64]float64{horizon: meanSum(o.paid)}
		// Of exponential delays of mean 3,000 below 12,000, those below 2,000.
		early := -math.Expm1(-2000./3000) / -math.Expm1(-12_000./3000)
		means[2000] = meanSum(o.paid * early)
		require.InDelta(t, m.means()[item], means[horizon], 1e-12)
		for within, mean := range means {
			var sum, squares float64
			for range draws {
				m.next(1)
				r := m.replyInParts(item, luck.float64(), within)
				x := r.payoff
				requireParts(t, r, within)
				if !(x >= 0 && x <= 1) {
					t.Fatalf("item %d: payoff %v", item, x)
				}
				sum += x
				squares += x * x
			}
			deviation := math.Sqrt(squares/draws - mean*mean)
			require.InDelta(t, mean, sum/draws, 7*deviation/math.Sqrt(draws), "item %d within %d, seed %d", item, within, seed)
		}
	}
	require.Zero(t, meanSum(0))
	require.InDelta(t, 0.02, meanSum(0.1), 1e-6, "hardly ever cut")
	require.InDelta(t, 1, meanSum(100), 1e-6, "always cut")
}

// requireParts checks that parts come in the order of time, before the whole, which is the last sum of parts.
func requireParts(t *testing.T, r reply, within int64) {
	t.Helper()
	ordered := slices.IsSortedFunc(r.parts, func(a, b part) int { return cmp.Compare(a.late, b.late) })
	if r.late != within || r.paid != (len(r.parts) > 0) || !ordered {
		t.Fatalf("%+v", r)
	}
	if last := len(r.parts) - 1; r.paid && (r.parts[last].late >= within || r.parts[last].sum != r.payoff) || !r.paid && r.payoff != 0 {
		t.Fatalf("%+v", r)
	}
}

// Of sales whose sums count, those of Refunds are returned, 10 days later: the means are as defined, within 7 standard errors of
// 400,000 (3·10⁻¹² each).
func TestTrades_RefundsSum(t *testing.T) {
	const seed, draws = 16, 400_000
	m := marketOf(t, RefundsSum, seed)
	luck := newStream(seed, 1, forPayoffs)
	for _, item := range []policy.Item{0, 4, 9} {
		var sum, back float64
		for range draws {
			m.next(1)
			r := m.replyInParts(item, luck.float64(), 43_200)
			requireParts(t, r, 43_200)
			if len(r.parts) == 2 {
				require.Equal(t, part{r.parts[0].late + 14_400, 0}, r.parts[1])
				back++
			}
			sum += r.payoff
		}
		q := m.quality[item]
		returned := (0.01 + 0.03*q) * -math.Expm1(-20./3) / -math.Expm1(-10)
		mean := 0.02 + 0.08*q - returned
		require.InDelta(t, mean, m.means()[item], 1e-12)
		require.InDelta(t, mean, sum/draws, 7*math.Sqrt(mean/draws), "seed %d", seed)
		require.InDelta(t, returned, back/draws, 7*math.Sqrt(returned/draws), "seed %d", seed)
	}
}

// Parts of payoffs, received as they come, change decisions long before their sums.
func TestParts_AreLearnedFromAsTheyCome(t *testing.T) {
	e := defaults(Instalments, 1)
	e.Horizon, e.Runs = 20_000, 2
	waits := regretOf(t, e, Settings{Policies: []string{"moss"}, Silences: []string{"waits"}})
	for _, law := range []string{"at_once", "ages"} {
		require.Less(t, 3*regretOf(t, e, Settings{Policies: []string{"moss"}, Silences: []string{law}}).Regret.Mean, waits.Regret.Mean, law)
	}
}

// The best item changes once: without drift the old best keeps its estimate for as long again, and a learner that ignores payoffs
// loses more.
func TestDrift_FollowsWhatChanges(t *testing.T) {
	e := defaults(Switching, 1)
	e.Horizon, e.Runs, e.Lateness = 30_000, 2, Lateness{Mean: 300}
	lost := func(policy, drift string) float64 {
		return regretOf(t, e, Settings{Policies: []string{policy}, Drifts: []string{drift}}).DynamicRegret.Mean
	}
	drifting := lost("moss", "0.2")
	for name, other := range map[string]float64{"for ever": lost("moss", "0"), "nothing": lost("utility", "0.2")} {
		require.Less(t, 3*drifting, other, name)
	}
}

// Jackpot: item 1 pays 1 or nothing, others 0.1 with deviation 0.01; 7 standard errors of 100,000 (3·10⁻¹² each).
func TestJackpot_PayoffsAreAsDefined(t *testing.T) {
	const draws = 100_000
	for s, p := range map[Scenario]float64{Jackpot: 0.15, JackpotOften: 0.3} {
		w, err := newWorld(defaults(s, 15), 0)
		require.NoError(t, err)
		var won, sum, squares float64
		for range draws {
			w.next()
			first, second := w.reply(0), w.reply(1)
			require.True(t, first.payoff == 0 || first.payoff == 1)
			require.True(t, first.paid && second.paid)
			won += first.payoff
			sum += second.payoff - 0.1
			squares += (second.payoff - 0.1) * (second.payoff - 0.1)
		}
		require.InDelta(t, p, won/draws, 7*math.Sqrt(p*(1-p)/draws))
		require.InDelta(t, 0, sum/draws, 7*0.01/math.Sqrt(draws))
		require.InDelta(t, 0.01, math.Sqrt(squares/draws), 7*0.01/math.Sqrt(2*draws))
	}
}

// regretOf plays a policy.
func regretOf(t *testing.T, e *Experiment, s Settings) *Result {
	t.Helper()
	results, err := Run(context.Background(), e, combine(t, e, s))
	require.NoError(t, err)
	return results[0]
}

// Known at once, delays do not matter: worlds that differ in them alone are the same.
func TestAtOnce_DelaysDoNotMatter(t *testing.T) {
	var first *Result
	for _, s := range []Scenario{Conversions, ConversionsSlow, ConversionsFast} {
		e := defaults(s, 1)
		e.Horizon, e.AtOnce, e.Runs = 5000, true, 2
		r := regretOf(t, e, Settings{Policies: []string{"moss"}})
		if first == nil {
			first = r
		}
		require.Equal(t, first.Regret, r.Regret)
		e.AtOnce = false
		waits := regretOf(t, e, Settings{Policies: []string{"moss"}, Silences: []string{"waits"}})
		require.Greater(t, waits.Regret.Mean, first.Regret.Mean)
	}
}

// A ranking by utility makes every user without noise select his favourite: its regret is that without noise. The noisy users
// select each of the items that they see equally often: 7 standard deviations of 100,000 (10⁻¹⁰).
func TestNoise(t *testing.T) {
	e := defaults(Conversions, 1)
	e.Horizon = 3000
	without := regretOf(t, e, Settings{Policies: []string{"utility"}})
	e.Noise = 0.4
	with := regretOf(t, e, Settings{Policies: []string{"utility"}})
	require.Equal(t, without.Regret, with.Regret)
	require.Equal(t, 0.4, with.Noise)

	const draws = 100_000
	n := noise{0.3, newStream(1, 0, forNoise)}
	var counts [4]float64
	for range draws {
		if k, any := n.selects(4); any {
			counts[k]++
		}
	}
	for _, c := range counts {
		require.InDelta(t, 0.075*draws, c, 7*math.Sqrt(0.075*0.925*draws))
	}
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		e.Noise = share
		require.ErrorContains(t, e.Check(), "noise")
	}
}

// A ranking by utility makes every user select the last item, which loses Σ_w P(w)·max_{i≥w} μ_i − μ_n per impression in the mean.
// Given the items, only windows are random: 7 standard errors of 20,000 (3·10⁻¹² each).
func TestTrades_RegretOfUtilityIsAsExpected(t *testing.T) {
	for _, s := range []Scenario{Conversions, Instalments, Refunds, RefundsSum, Revenue, Two} {
		e := defaults(s, 3)
		e.Horizon = 20_000
		w, err := newWorld(e, 0)
		require.NoError(t, err)
		means := w.market.means()
		var mean, squares, total float64
		for window := 1; window <= w.n; window++ {
			total += weight(s, window)
		}
		for window := 1; window <= w.n; window++ {
			lost := slices.Max(means[window-1:]) - means[w.n-1]
			mean += weight(s, window) / total * lost
			squares += weight(s, window) / total * lost * lost
		}
		got := regretOf(t, e, Settings{Policies: []string{"utility"}}).Regret.Mean
		require.InDelta(t, 20_000*mean, got, 7*math.Sqrt(20_000*(squares-mean*mean))+1e-9, s)
	}
}

// Without unpaid selections only payoffs of 1 are left, which are all the same.
func TestOnExpiry_DropIsUninformative(t *testing.T) {
	e := defaults(Conversions, 1)
	e.Horizon, e.Runs, e.PayoffHorizon = 20_000, 4, 4000
	assumed := regretOf(t, e, Settings{Policies: []string{"moss"}})
	dropped := regretOf(t, e, Settings{Policies: []string{"moss"}, OnExpiry: "drop"})
	require.Less(t, 2*assumed.Regret.Mean, dropped.Regret.Mean)
	require.EqualValues(t, 4000, *assumed.PayoffHorizon)
	require.Zero(t, *assumed.OnExpiry)
	require.Nil(t, dropped.OnExpiry)
	require.Nil(t, assumed.PayoffDelay)

	_, _, err := Combine(e, &Settings{OnExpiry: "2"})
	require.ErrorContains(t, err, "on_expiry", "outside the payoffs' range")
	_, _, err = Combine(e, &Settings{OnExpiry: "0}, sigma: {x: 1"})
	require.ErrorContains(t, err, "on_expiry")
	_, notes, err := Combine(defaults(Lazy, 1), &Settings{OnExpiry: "0"})
	require.NoError(t, err)
	require.Contains(t, notes, "on_expiry has no effect here")
	e.Lateness = Lateness{Mean: 1}
	require.ErrorContains(t, e.Check(), "delays of its own")
}

// Against the best at each time, a learner gains nothing by changing with the world. It loses as much as against a fixed ranking or
// more, in the mean over windows.
func TestDynamicRegret(t *testing.T) {
	for _, s := range Scenarios() {
		e := defaults(s, 1)
		e.Horizon = 3000
		r := regretOf(t, e, Settings{Policies: []string{"moss"}})
		require.GreaterOrEqual(t, r.DynamicRegret.Mean, 0.0)
		if !s.AgainstFixed() {
			require.Equal(t, r.Regret, r.DynamicRegret, s)
		}
	}
	e := defaults(Switching, 1)
	e.Horizon, e.Runs = 20_000, 4
	r := regretOf(t, e, Settings{Policies: []string{"ftrl"}})
	// The best fixed ranking loses 0.85 or 0.8 in the periods that are not its own.
	require.Greater(t, r.DynamicRegret.Mean, r.Regret.Mean+0.3*20_000*0.3)
}

// All policies play all scenarios, but those for adversarial payoffs where these are normal.
func TestEveryPolicyPlaysEveryScenario(t *testing.T) {
	var names []string
	for _, k := range policy.Kinds {
		names = append(names, k.Name)
	}
	for _, s := range Scenarios() {
		e := defaults(s, 1)
		e.Horizon = 100
		all := combine(t, e, Settings{Policies: names})
		results, err := Run(context.Background(), e, all)
		require.NoError(t, err)
		played := map[string]bool{}
		for _, r := range results {
			played[r.Policy] = true
			require.False(t, math.IsNaN(r.Regret.Mean))
		}
		for _, k := range policy.Kinds {
			require.Equal(t, fits(e, k.Name), played[k.Name], "%s on %s", k.Name, s)
		}
		require.NotEmpty(t, s.About())
	}
}
