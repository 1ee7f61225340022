package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
)

// The interval of a selection is the set of windows under which that item would have been selected.
func TestIntervals_SelectionSaysWhichWindowsItCouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		longest := rapid.IntRange(1, 14).Draw(t, "longest")
		ranks := make([]int32, n)
		for i := range ranks {
			ranks[i] = int32(i)
		}
		order := rapid.Permutation(ranks).Draw(t, "order")
		window := rapid.IntRange(1, n).Draw(t, "window")
		selected := policytest.Select(order, window)
		at := 0
		for order[at] != selected {
			at++
		}
		counts, err := NewIntervals(longest)
		require.NoError(t, err)
		i := counts.Selected(order, at)
		low, high := i.Low, i.High
		require.EqualValues(t, 1, counts.Own(i))
		require.Equal(t, min(n, longest), i.Length)
		// Any window w ≥ 1, also beyond the list; those beyond longest count as longest.
		could := map[int]bool{}
		for w := 1; w <= 20; w++ {
			if policytest.Select(order, min(w, n)) == selected {
				could[min(w, longest)] = true
			}
		}
		for w := 1; w <= longest; w++ {
			require.Equal(t, could[w], low <= w && w <= high, "window %d of [%d, %d], order %v, at %d", w, low, high, order, at)
		}
	})
}

// The interval of an item shown behind one of a higher utility has no upper end that a window could be compared with.
func TestIntervals_NoWindowSelectsABlockedItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		order := rapid.Permutation(seq(n)).Draw(t, "order")
		at := rapid.IntRange(0, n-1).Draw(t, "at")
		longest := rapid.IntRange(1, 9).Draw(t, "longest")
		counts, _ := NewIntervals(longest)
		i := counts.Selected(order, at)
		low, high := i.Low, i.High
		some := false
		for w := 1; w <= n; w++ {
			some = some || policytest.Select(order, w) == order[at]
		}
		require.Equal(t, !some, high == Blocked)
		require.Equal(t, min(at+1, longest), low)
		require.EqualValues(t, 1, counts.Own(i))
		require.Equal(t, !some, counts.blocked == 1)
	})
}

func TestNewIntervals_RefusesOtherLengths(t *testing.T) {
	for _, faulty := range []int{-1, 0, MaxWindows + 1} {
		_, err := NewIntervals(faulty)
		require.ErrorIs(t, err, ErrIntervals)
	}
}

// Lengths are rounded down by less than an eighth, and not below 16.
func TestIntervals_LengthsHaveFourBits(t *testing.T) {
	counts, err := NewIntervals(MaxWindows)
	require.NoError(t, err)
	for n := 1; n < 2*MaxWindows; n++ {
		rounded := counts.round(n)
		require.Equal(t, rounded, counts.round(rounded))
		if n < 16 || n >= MaxWindows {
			require.Equal(t, min(n, MaxWindows), rounded)
		}
		require.Greater(t, 9*rounded, 8*min(n, MaxWindows)-1)
	}
}

// Pooled counts are the sum of all sources', whatever was imported in between, and the estimate depends on them alone.
func TestIntervals_PoolingAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const longest = 6
		pooled, _ := NewIntervals(longest)
		alone, _ := NewIntervals(longest)
		type published struct {
			source int32
			Interval
		}
		newest := map[published]int64{}
		for range rapid.IntRange(0, 30).Draw(t, "imports") {
			high := rapid.IntRange(0, longest).Draw(t, "high")
			low := rapid.IntRange(1, max(high, 1)).Draw(t, "low")
			i := Interval{low, high, rapid.IntRange(1, longest).Draw(t, "length")}
			source := rapid.Int32Range(0, 2).Draw(t, "source")
			count := rapid.Int64Range(0, 50).Draw(t, "count")
			require.NoError(t, pooled.Check(i, count))
			pooled.SetSource(source, i, count)
			newest[published{source, i}] = count
		}
		pooled.Load(Interval{2, 3, 4}, 7)
		alone.Load(Interval{2, 3, 4}, 7)
		var total int64 = 7
		for at, count := range newest {
			alone.Load(at.Interval, count)
			total += count
		}
		require.Equal(t, total, pooled.Total())
		for n, i := range alone.intervals {
			require.Equal(t, alone.counts.Pooled(int32(n)), pooled.counts.Pooled(pooled.number(i)))
		}
		a, b := make([]float64, longest), make([]float64, longest)
		PriorWindows(a)
		PriorWindows(b)
		noise, _ := pooled.Estimate(a, 0)
		same, _ := alone.Estimate(b, 0)
		require.Equal(t, a, b)
		require.Equal(t, same, noise)
		require.Equal(t, alone.blocked, pooled.blocked)
	})
}

// slowEM is EM as its definition reads: each selection is by utility or by noise, in one window. The prior is selections by utility
// whose window was seen.
func slowEM(t *Intervals, passes int) (q []float64, noise float64) {
	q = make([]float64, t.max)
	prior := make([]float64, t.max)
	PriorWindows(prior)
	copy(q, prior)
	if t.blocked > 0 {
		noise = float64(t.blocked) / (float64(t.total) + PriorWeight)
	}
	for range passes {
		next := make([]float64, t.max)
		var total, byNoise float64
		for w := range next {
			next[w] = PriorWeight * prior[w]
			total += next[w]
		}
		for n, i := range t.intervals {
			count := float64(t.counts.Pooled(int32(n)))
			low, high := i.Low, i.High
			if count == 0 || noise == 0 && high-low+1 == t.max {
				continue
			}
			utility, chance := make([]float64, t.max+1), make([]float64, t.max+1)
			var likely float64
			for w := low; w <= t.max; w++ {
				if w <= high {
					utility[w] = (1 - noise) * q[w-1]
				}
				chance[w] = noise * q[w-1] / float64(min(w, i.Length))
				likely += utility[w] + chance[w]
			}
			for w := low; w <= t.max; w++ {
				next[w-1] += count * (utility[w] + chance[w]) / likely
				byNoise += count * chance[w] / likely
			}
			total += count
		}
		for w := range next {
			q[w] = next[w] / total
		}
		noise = byNoise / total
	}
	return q, noise
}

func TestIntervals_EstimateIsEM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := rapid.IntRange(1, 9).Draw(t, "longest")
		counts, _ := NewIntervals(longest)
		for high := 1; high <= longest; high++ {
			for low := 1; low <= high; low++ {
				length := rapid.IntRange(1, longest).Draw(t, "length")
				counts.Load(Interval{low, high, length}, rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1000)).Draw(t, "count"))
			}
		}
		if rapid.Bool().Draw(t, "noisy") {
			for low := 1; low <= longest; low++ {
				length := rapid.IntRange(1, longest).Draw(t, "length")
				counts.Load(Interval{low, Blocked, length}, rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300)).Draw(t, "blocked"))
			}
		}
		q := make([]float64, longest)
		PriorWindows(q)
		noise, passes := counts.Estimate(q, 0)
		want, wantNoise := slowEM(counts, passes)
		require.InDelta(t, wantNoise, noise, 1e-9)
		require.Equal(t, counts.blocked > 0, noise > 0)
		for w := range q {
			require.InDelta(t, want[w], q[w], 1e-9)
			require.Positive(t, q[w])
		}
	})
}

// Extreme counts make no NaN, and no window impossible.
func TestIntervals_EstimateOfExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := rapid.SampledFrom([]int{1, 2, 100, 300}).Draw(t, "longest")
		counts, _ := NewIntervals(longest)
		for range rapid.IntRange(0, 20).Draw(t, "intervals") {
			low := rapid.IntRange(1, longest).Draw(t, "low")
			high := rapid.IntRange(low, longest).Draw(t, "high")
			if rapid.Bool().Draw(t, "blocked") {
				high = Blocked
			}
			length := counts.round(rapid.IntRange(1, longest).Draw(t, "length"))
			counts.Load(Interval{low, high, length}, rapid.SampledFrom([]int64{1, 1000, 1 << 40, 1 << 53}).Draw(t, "count"))
		}
		q := make([]float64, longest)
		PriorWindows(q)
		noise := 0.0
		for range 5 {
			noise, _ = counts.Estimate(q, noise)
		}
		require.True(t, noise >= 0 && noise < 1, "%v", noise)
		var sum float64
		for _, x := range q {
			require.True(t, x > 0 && x <= 1, "%v", q)
			sum += x
		}
		require.InDelta(t, 1, sum, 1e-9)
	})
}

// From users with known windows and noise, who are shown random orders of 8 candidates, or of 3 and of 8, the estimate finds both. With
// 200,000 selections and intervals that distinguish windows as these do, the standard error of a probability is below 0.004. A deviation
// of 0.03 is more than seven of them: it fails by chance less than once in a million times, and the seed is fixed besides.
func TestIntervals_EstimateFindsTheWindows(t *testing.T) {
	want := []float64{0.05, 0.3, 0.1, 0.05, 0.2, 0.1, 0, 0.2}
	for _, lengths := range [][]int{{8, 8}, {3, 8}} {
		for _, noise := range []float64{0, 0.02, 0.2} {
			q, got := estimated(t, want, noise, lengths)
			require.InDelta(t, noise, got, 0.03)
			require.Equal(t, noise > 0, got > 0)
			for w := range q {
				require.InDelta(t, want[w], q[w], 0.03, "window %d", w+1)
			}
		}
	}
}

// Half of the lists are much shorter than most windows, which are uniform on 1..50. Errors are as in the last test; those of sums of
// probabilities are below 0.01.
func TestIntervals_EstimateKnowsShortLists(t *testing.T) {
	const noise = 0.25
	want := make([]float64, 50)
	for w := range want {
		want[w] = 1.0 / 50
	}
	q, got := estimated(t, want, noise, []int{3, 20})
	require.InDelta(t, noise, got, 0.01)
	require.InDelta(t, 0.04, q[0]+q[1], 0.01)
}

// estimated is the estimate from 200,000 users with windows and noise, who are shown random orders of one of two lengths.
func estimated(t *testing.T, windows []float64, noise float64, lengths []int) (q []float64, got float64) {
	rng := rand.New(rand.NewPCG(7, 7))
	counts, _ := NewIntervals(len(windows))
	for range 200_000 {
		n := lengths[rng.IntN(2)]
		order := make([]int32, n)
		for i, at := range rng.Perm(n) {
			order[i] = int32(at)
		}
		u, window := rng.Float64(), 1
		for ; window < len(windows) && u >= windows[window-1]; window++ {
			u -= windows[window-1]
		}
		window = min(window, n)
		at := rng.IntN(window)
		if rng.Float64() >= noise {
			at = slices.Index(order, policytest.Select(order, window))
		}
		counts.Selected(order, at)
	}
	q = make([]float64, len(windows))
	PriorWindows(q)
	passes := 0
	for range 10 {
		next, more := counts.Estimate(q, got)
		got, passes = next, passes+more
	}
	t.Logf("%.3f and %.4f after %d passes", q, got, passes)
	return q, got
}

func TestPriorWindows_IsADistribution(t *testing.T) {
	for _, n := range []int{1, 2, 100, 1000} {
		q := make([]float64, n)
		PriorWindows(q)
		var sum float64
		for w, x := range q {
			require.Positive(t, x)
			require.True(t, w == 0 || x <= q[w-1])
			sum += x
		}
		require.InDelta(t, 1, sum, 1e-12)
		require.False(t, math.IsNaN(sum))
	}
}

func BenchmarkIntervals_Estimate(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	counts, _ := NewIntervals(100)
	for high := 1; high <= 100; high++ {
		for low := 1; low <= high; low++ {
			counts.Load(Interval{low, high, 100}, rng.Int64N(1000))
		}
	}
	q := make([]float64, 100)
	b.ReportAllocs()
	var passes int
	for b.Loop() {
		PriorWindows(q)
		_, passes = counts.Estimate(q, 0)
	}
	b.ReportMetric(float64(passes), "passes")
}

func BenchmarkIntervals_Selected(b *testing.B) {
	counts, _ := NewIntervals(100)
	order := make([]int32, 20)
	for i := range order {
		order[i] = int32(i * 7 % 20)
	}
	b.ReportAllocs()
	for b.Loop() {
		counts.Selected(order, 3)
	}
}
