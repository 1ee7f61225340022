//go:build !race

package lab

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// offer is the definition of a delay model for an item of quality q.
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
	case "conversions":
		return conversions, 12_000, second
	case "conversions-slow":
		return offer{conversions.paid, 500 * math.Pow(16, q)}, 12_000, second
	case "conversions-fast":
		return offer{conversions.paid, 8000 * math.Pow(16, -q)}, 12_000, second
	case "churn":
		return offer{0.02 + 0.3*q, 4000}, 20_000, second
	case "churn-quick":
		return offer{0.02 + 0.3*q, 200}, 20_000, second
	case "churn-slow":
		return offer{0.02 + 0.3*q, 1000 * math.Pow(8, q)}, 20_000, second
	case "instalments":
		return offer{0.2 + 0.8*q, 3000}, 12_000, second
	case "bimodal", "bimodal:late":
		return offer{sales.paid, 0}, 30 * minutes, minute
	case "halves":
		return sales, 30 * minutes, minute
	case "halves:most":
		return offer{0.4 + 0.5*q, sales.wait}, 30 * minutes, minute
	case "faster":
		return offer{0.02 + 0.3*q, 4000}, 20_000, second
	case "slower":
		return offer{0.02 + 0.3*q, 1000}, 20_000, second
	case "nightly":
		return offer{0.02 + 0.3*q, 200}, 3 * 8640, 10 * second
	case "revenue", "refunds", "refunds-sum":
		return sales, 30 * minutes, minute
	case "mostly-paid", "sure-and-rare":
		return offer{0.4 + 0.5*q, 6 * minutes}, 30 * minutes, minute
	case "waves":
		return offer{0.02 + 0.06*q, 3 * minutes}, 30 * minutes, minute
	case "outage":
		return offer{0.02 + 0.04*q, 3 * minutes}, 30 * minutes, minute
	case "rare":
		return offer{0.002 + 0.018*q, 3 * minutes}, 30 * minutes, minute
	case "ten-rare":
		return offer{0.005 + 0.015*q, 3 * minutes}, 30 * minutes, minute
	case "two":
		return offer{0.03 + 0.01*q, 3 * minutes}, 30 * minutes, minute
	}
	panic(s)
}

func delayed() (all []Scenario) {
	for _, s := range Scenarios() {
		if s.OwnDelays() {
			all = append(all, s)
		}
	}
	return all
}

func eventsOf(t *testing.T, s Scenario, seed uint64) *eventStream {
	t.Helper()
	w, err := NewWorld(defaults(s, seed), 0)
	require.NoError(t, err)
	require.NotNil(t, w.events)
	return w.events
}

// Qualities are evenly spaced in an order that is another in each run, or products of uniform variables, of mean ¼ (seven
// standard errors of 600: 3·10⁻¹²).
func TestDelayModel_Qualities(t *testing.T) {
	for _, s := range delayed() {
		m := eventsOf(t, s, 1)
		sorted := slices.Sorted(slices.Values(m.quality))
		if !m.unequal {
			for k, q := range sorted {
				require.InDelta(t, float64(k)/float64(len(sorted)-1), q, 1e-12)
			}
			require.Len(t, sorted, s.DefaultItems())
			if len(sorted) > 2 {
				require.NotEqual(t, sorted, m.quality)
				require.NotEqual(t, eventsOf(t, s, 2).quality, m.quality)
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
func TestDelayModel_SharesAndDelaysAreAsDefined(t *testing.T) {
	const seed, draws = 11, 200_000
	for _, s := range delayed() {
		if s.definition().delays.sums {
			continue
		}
		m := eventsOf(t, s, seed)
		luck := newStream(seed, 1, forPayoffs)
		for _, item := range []policy.Item{0, policy.Item(len(m.quality) / 2), policy.Item(len(m.quality) - 1)} {
			o, horizon, period := offered(s, m.quality[item])
			if (s == "halves" || s == "halves:most") && item%2 == 0 {
				o.wait *= 4
			}
			require.Equal(t, horizon, s.PayoffHorizon())
			require.EqualValues(t, period, s.clock())
			var got seen
			for range draws {
				m.late = m.delays.float64()
				r := m.reply(1, item, luck.float64(), 1)
				if r.Payoff <= 0 || !r.Paid {
					continue
				}
				if r.Late >= horizon {
					t.Fatalf("%s, item %d: %d late, of %d", s, item, r.Late, horizon)
				}
				got.paid++
				got.wait += float64(r.Late) + 0.5 // the mean of the delays that are rounded down to it
			}
			name := fmt.Sprintf("%s, item %d, seed %d", s, item, seed)
			if s == "sure-and-rare" && item%2 == 0 {
				require.EqualValues(t, draws, got.paid)
				require.InDelta(t, o.paid, m.reply(1, item, 0.99, 1).Payoff, 1e-12)
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
func TestDelayModel_Bimodal(t *testing.T) {
	late := Scenario("bimodal").definition().delays.delay
	require.EqualValues(t, 0, late(0))
	require.EqualValues(t, 30, late(0.4001))
	require.EqualValues(t, 59, late(0.7999))
	require.EqualValues(t, 14*24*60, late(0.8))
	require.EqualValues(t, 14*24*60, late(0.9999))
	late = Scenario("bimodal:late").definition().delays.delay
	require.EqualValues(t, 59, late(0.1999))
	require.EqualValues(t, 14*24*60, late(0.2))
}

// Delays change at 0.3·T: they become a quarter or four times as long, at most the payoff horizon.
func TestDelayModel_DelaysChange(t *testing.T) {
	for s, mean := range map[Scenario]float64{"faster": 1000, "slower": 4000} {
		m := eventsOf(t, s, 1)
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
func TestDelayModel_Nightly(t *testing.T) {
	const perDay = 8640
	w, err := NewWorld(defaults("nightly", 1), 0)
	require.NoError(t, err)
	for now := int64(1); now < 3*perDay; now++ {
		w.Next()
		w.luck = 0
		r := w.Reply(0)
		require.Zero(t, (now+1+r.Late)%perDay)
		require.True(t, r.undelivered >= 0 && r.undelivered < perDay)
		require.Equal(t, w.events.delayOf(w.candidates[0], w.events.late), r.Late-r.undelivered)
	}
}

// Revenue's payoffs have median 1 and deviation 2 of the logarithm below the cut. The shares below e^{2z} are those of the normal
// distribution, each of 8 within 7 standard deviations (3·10⁻¹² each).
func TestDelayModel_Revenue(t *testing.T) {
	const seed, draws = 12, 400_000
	m := eventsOf(t, "revenue", seed)
	luck := newStream(seed, 1, forPayoffs)
	best := policy.Item(slices.Index(m.quality, 1))
	var payoffs []float64
	for range draws {
		m.late = m.delays.float64()
		if r := m.reply(1, best, luck.float64(), 1); r.Paid {
			require.True(t, r.Payoff > 0 && r.Payoff <= 100)
			payoffs = append(payoffs, r.Payoff)
		}
	}
	slices.Sort(payoffs)
	n := float64(len(payoffs))
	for _, z := range []float64{-2, -1, -0.5, 0, 0.5, 1, 2, 2.3} {
		p := 0.5 * math.Erfc(-z/math.Sqrt2)
		below, _ := slices.BinarySearch(payoffs, math.Exp(2*z))
		require.InDelta(t, p, float64(below)/n, 7*math.Sqrt(p*(1-p)/n), "z = %v, seed %d", z, seed)
	}
	low, high := Scenario("revenue").payoffRange()
	require.Equal(t, []float64{0, 100}, []float64{low, high})
}

// Of a poor and a good item's selections 1 and 4% come to −1, 10 days late; 7 standard deviations of 200,000 (10⁻¹¹).
func TestDelayModel_Refunds(t *testing.T) {
	const seed, draws = 13, 200_000
	m := eventsOf(t, "refunds", seed)
	luck := newStream(seed, 1, forPayoffs)
	for q, p := range map[float64]float64{0: 0.01, 1: 0.04} {
		var back float64
		for range draws {
			m.late = m.delays.float64()
			if r := m.reply(1, policy.Item(slices.Index(m.quality, q)), luck.float64(), 1); r.Payoff < 0 {
				require.Equal(t, Reply{Payoff: -1, Late: 14_400, Paid: true}, r)
				back++
			}
		}
		require.InDelta(t, p, back/draws, 7*math.Sqrt(p*(1-p)/draws), "seed %d", seed)
	}
	low, high := Scenario("refunds").payoffRange()
	require.Equal(t, []float64{-1, 1}, []float64{low, high})
}

// Waves come by day and week, and are 1 in the mean of a week.
func TestDelayModel_Waves(t *testing.T) {
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
	w, err := NewWorld(defaults("waves", 1), 0)
	require.NoError(t, err)
	for now := int64(1); now <= 2000; now++ {
		w.Next()
		require.Equal(t, tide(now*minute), w.factor)
		require.InDelta(t, w.events.paid[3]*w.factor, w.mean(3), 1e-12)
	}
}

// Payoffs due while their producer is down never come; they count for regret all the same.
func TestDelayModel_Outage(t *testing.T) {
	const down, up = 35 * 24 * 60, 38 * 24 * 60
	m := eventsOf(t, "outage", 1)
	for _, now := range []int64{1, down - 2000, down - 5, down + 10, up - 5, up, up + 100} {
		for range 50 {
			m.late = m.delays.float64()
			r := m.reply(now, 0, 0, 1)
			comes := now + r.Late
			require.Equal(t, comes < down || comes >= up, r.Paid, "at %d, %d late", now, r.Late)
		}
	}
	w, err := NewWorld(defaults("outage", 1), 0)
	require.NoError(t, err)
	for range down + 10 {
		w.Next()
	}
	w.luck, w.events.late = 0, 0
	require.Equal(t, Reply{Late: 30 * 24 * 60}, w.Reply(0))
	require.GreaterOrEqual(t, w.mean(0), 0.02)
}

// One item goes every 250 impressions, each with the same probability. Candidates are 20 different live ones, each as often as any
// other (7 standard deviations for 200 items: 10⁻⁹ together).
func TestDelayModel_Churn(t *testing.T) {
	w, err := NewWorld(defaults("churn", 5), 0)
	require.NoError(t, err)
	live := slices.Clone(w.events.live)
	line := slices.Clone(w.events.line)
	counts := map[policy.Item]float64{}
	left := map[int]float64{}
	for now := 1; now <= 60_000; now++ {
		w.Next()
		changed := 0
		for k, item := range w.events.live {
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
	require.EqualValues(t, 200, (&Experiment{Scenario: "churn", Items: 200, Horizon: 250}).every())
	require.EqualValues(t, 201, (&Experiment{Scenario: "churn", Items: 200, Horizon: 251}).every())
	require.ErrorContains(t, (&Experiment{Scenario: "churn", Items: 200, Horizon: 1e9, Runs: 1}).Check(), "come and go")
}
