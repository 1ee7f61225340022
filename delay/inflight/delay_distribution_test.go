package inflight

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// awaitedSpans are some of which payoffs have come to any share, in one list or two.
func awaitedSpans(t *rapid.T) []Intervals {
	lists := make([]Intervals, rapid.IntRange(0, 2).Draw(t, "lists"))
	for k := range lists {
		for range rapid.IntRange(0, 6).Draw(t, "spans") {
			come := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, 1e-9})).Draw(t, "come")
			lists[k] = append(lists[k], Interval{N: rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 100_000)).Draw(t, "n"), Come: come, Above: come})
		}
	}
	return lists
}

// weight is the weight of awaited selections where no payoff is below the default.
func weight(c float64, awaited ...Intervals) float64 { return Weigh(c, 0, awaited...).Sum() }

func outcomes(t *rapid.T) Outcomes {
	n := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100_000))
	return Outcomes{Paid: n.Draw(t, "paid"), Unpaid: n.Draw(t, "unpaid")}
}

// likelihood is a·log c + b·log(1−c) + Σ n·log(1−c·F).
func likelihood(c, a, b float64, awaited []Intervals) float64 {
	sum := a*math.Log(c) + b*math.Log1p(-c)
	for _, x := range slices.Concat(awaited...) {
		sum += float64(x.N) * math.Log1p(-c*x.Come)
	}
	return sum
}

// likeliest is the best of so many shares between 0 and 1: since the likelihood is concave, the best of all lies between its
// neighbours.
func likeliest(steps int, a, b float64, awaited []Intervals) float64 {
	best, most := 0.0, math.Inf(-1)
	for k := 1; k < steps; k++ {
		if x := likelihood(float64(k)/float64(steps), a, b, awaited); x > most {
			best, most = float64(k)/float64(steps), x
		}
	}
	return best
}

const shareSteps = 4000

func TestShare_IsTheLikeliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settled, awaited := outcomes(t), awaitedSpans(t)
		c := Share(settled, awaited...)
		require.InDelta(t, likeliest(shareSteps, float64(settled.Paid)+1, float64(settled.Unpaid)+1, awaited), c, 1.01/shareSteps)
		require.True(t, c > 0 && c < 1)
	})
}

// rootOf is where the likelihood's slope is 0, by many bisections.
func rootOf(a, b float64, awaited []Intervals) float64 {
	low, high := 0.0, 1.0
	for range 200 {
		c := (low + high) / 2
		slope := a/c - b/(1-c)
		for _, x := range slices.Concat(awaited...) {
			slope -= float64(x.N) * x.Come / (1 - c*x.Come)
		}
		if slope > 0 {
			low = c
		} else {
			high = c
		}
	}
	return low
}

// An item's share is the likeliest, with four finished selections as all items have them besides its own.
func TestItemShare_IsTheLikeliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.OneOf(rapid.Float64Range(1e-6, 1-1e-6), rapid.Float64Range(0.001, 0.1)).Draw(t, "all")
		settled, awaited := outcomes(t), awaitedSpans(t)
		c := ItemShare(all, settled, awaited...)
		a, b := float64(settled.Paid)+4*all, float64(settled.Unpaid)+4*(1-all)
		require.True(t, c > 0 && c < 1)
		require.InDelta(t, likeliest(shareSteps, a, b, awaited), c, 1.01/shareSteps)
		require.InEpsilon(t, rootOf(a, b, awaited), c, 1e-4)
		require.InDelta(t, all, ItemShare(all, Outcomes{}), 1e-12, "of an item of which nothing is known it is that of all")
	})
}

// Where nothing was paid, or all, shares are near 0 and 1, steps are smallest and rounding is greatest.
func TestItemShare_AtTheEnds(t *testing.T) {
	spans := Intervals{{N: 900, Come: 1, Above: 1}, {N: 5, Come: 0.999, Above: 0.999}, {N: 3, Come: 0.2, Above: 0.2}}
	for _, all := range []float64{0, 1e-9, 0.5, 1 - 1e-9, 1} {
		for _, settled := range []Outcomes{{}, {Unpaid: 1811}, {Paid: 1705}, {Paid: 1 << 50}, {Unpaid: 1 << 50}, {Paid: 1 << 50, Unpaid: 1 << 50}} {
			for _, awaited := range [][]Intervals{nil, {spans}, {spans[1:], spans[2:]}, {spans[:1]}} {
				c := ItemShare(all, settled, awaited...)
				require.True(t, c >= 0 && c < 1, "%v %v %v: %v", all, settled, awaited, c)
				a, b := float64(settled.Paid)+4*all, float64(settled.Unpaid)+4*(1-all)
				require.InDelta(t, rootOf(a, b, awaited), c, 1e-6, "%v %v %v", all, settled, awaited)
				w := weight(c, awaited...)
				require.True(t, w >= 0 && w <= 911, "%v %v %v: %v", all, settled, awaited, w)
			}
		}
	}
}

// The maximum likelihood of the share without any prior is that of the paid among the settled and the weight of the awaited.
func TestWeigh_IsWhatMakesTheShareOfThePaidTheLikeliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settled, awaited := outcomes(t), awaitedSpans(t)
		settled.Paid, settled.Unpaid = settled.Paid+1, settled.Unpaid+1
		c := rootOf(float64(settled.Paid), float64(settled.Unpaid), awaited)
		z := weight(c, awaited...)
		require.InEpsilon(t, c, float64(settled.Paid)/(float64(settled.Paid+settled.Unpaid)+z), 1e-6)
	})
}

func TestWeigh_IsBetweenNothingAndAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.OneOf(rapid.Float64Range(1e-9, 1-1e-9), rapid.Float64Range(0.001, 0.1)).Draw(t, "c")
		awaited := awaitedSpans(t)
		w := weight(c, awaited...)
		var n, come, literal float64
		for _, x := range slices.Concat(awaited...) {
			n += float64(x.N)
			come += float64(x.N) * x.Come
			literal += float64(x.N) * (1 - c) * x.Come / (1 - c*x.Come)
		}
		require.InDelta(t, literal, w, 1e-6)
		require.Equal(t, math.Trunc(w*(1<<20)), w*(1<<20), "a multiple of 2⁻²⁰")
		require.True(t, 0 <= w && w <= n && w <= come+1e-6)
		require.InDelta(t, come, weight(1e-12, awaited...), 1e-6+1e-9*n, "payoffs are rare")
		unfinished := slices.DeleteFunc(slices.Concat(awaited...), func(x Interval) bool { return x.Come > 0.999 })
		require.InDelta(t, 0, weight(1-1e-12, unfinished), 1e-6+1e-8*n, "all is paid")

		for _, list := range awaited {
			for k := range list { // later, more is known
				list[k].Come = rapid.Float64Range(list[k].Come, 1).Draw(t, "later")
				list[k].Above = list[k].Come
			}
		}
		require.GreaterOrEqual(t, weight(c, awaited...), w)
		for _, list := range awaited {
			for k := range list {
				list[k].Come, list[k].Above = 1, 1
			}
		}
		require.Equal(t, n, weight(c, awaited...), "at the horizon")
		for _, list := range awaited {
			for k := range list {
				list[k].Come, list[k].Above = 0, 0
			}
		}
		require.Zero(t, weight(c, awaited...), "at the selection")
	})
}

// fallsBehind is the greatest error of the estimate where payoffs had one delay for ten horizons, and then have another for two and
// a half, with perHorizon payoffs in each.
func fallsBehind(perHorizon int64) (off float64) {
	g := NewScheme(day)
	tick := g.Tick(lately)
	var ages Ages
	for ago := int64(0); ago < 25*day/2; ago += day / perHorizon {
		age := int64(day / 32)
		if ago < 5*day/2 {
			age = day / 4
		}
		if age <= ago {
			ages.Add(&g, ages.Row(&g, tick-ago, tick), age, 1)
		}
	}
	late := Estimate(&g, tick, 1, &ages)
	for k, come := range late.Shares()[:g.Bins()-1] {
		truth := 0.0
		if g.ends[k] > day/4 {
			truth = 1
		}
		off = max(off, math.Abs(come-truth))
	}
	return off
}

// Where payoffs become late the estimate follows within some horizons, though far more of them were early; where there are few, all that are
// known count.
func TestEstimate_FollowsWhatChanges(t *testing.T) {
	off, rare := fallsBehind(1000), fallsBehind(10)
	t.Logf("off by %.3f, with few payoffs by %.3f", off, rare)
	require.Less(t, off, 0.3)
	require.Greater(t, rare, 0.7)
}

// After minutes in which all payoffs come at once, few more are expected until a horizon of a month. Where they come evenly over the ages
// seen, many more may come, and Coming says so.
func TestEstimate_BeyondTheAgesSeen(t *testing.T) {
	g := NewScheme(30 * day)
	g.Cover(1_500_000)
	tick := g.Tick(lately + 1_500_000)
	for _, c := range []struct {
		delay       func(k int64) int64 // of the payoff of a selection at second k
		least, most float64             // share come by the ages seen
		allCome     bool
	}{
		{func(k int64) int64 { return 1000 * (1 + k%20) }, 0.95, 1, true},
		{func(k int64) int64 { return 1000 * (1 + k*7919%1500) }, 0, 0.55, false},
	} {
		var a Ages
		for k := range int64(1500) {
			if age := c.delay(k); 1000*k+age <= 1_500_000 {
				a.Add(&g, a.Row(&g, lately+1000*k, tick), age, 1)
			}
		}
		l := Estimate(&g, tick, 1, &a)
		share := l.By(&g, 1_200_000)
		require.True(t, c.least <= share && share <= c.most, "%v", share)
		require.Equal(t, c.allCome, Coming(&g, tick, 1, &a) < 0.1)
	}
}
