package inflight

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// expectedOf is the expected payoff of a selection that begins at a time.
func expectedOf(time int64) int64 { return time%7 - 3 }

// grouped counts times by their blocks at a tick.
func grouped(g *Scheme, times []int64, tick int64) Intervals {
	counts := map[Bucket]Interval{}
	for _, time := range times {
		b := g.BucketOf(time, tick)
		counts[b] = Interval{Bucket: b, N: counts[b].N + 1, Expected: counts[b].Expected + expectedOf(time)}
	}
	return IntervalsOf(counts)
}

// The derived values of a block stay where it does not merge.
func TestSpans_MergeLeavesTheOthers(t *testing.T) {
	g := NewScheme(1 << 20)
	old, young := int64(1<<30), int64(1<<30+1<<19)
	var s Intervals
	for _, at := range []int64{old, young} {
		s.Begin(&g, at, g.Tick(old), 1).Above = 0.5
	}
	for now := young; len(s) == 2 && s[0].Bucket.Level == s[1].Bucket.Level; now += g.Unit() {
		s.Merge(&g, g.Tick(now))
	}
	require.Len(t, s, 2)
	require.Zero(t, s[0].Above)
	require.Equal(t, 0.5, s[1].Above)
}

// Whatever begins, ends and merges, spans are the times that are left, counted by their blocks.
func TestSpans_AreTimesByBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		now := times().Draw(t, "now")
		tick := g.Tick(now)
		spans, open := Intervals{}, []int64{}
		time := func(t *rapid.T) int64 {
			ago := rapid.OneOf(rapid.Int64Range(-5*g.Unit(), 20*g.Unit()), rapid.Int64Range(0, 2*g.Horizon()))
			return max(earliest, now-ago.Draw(t, "ago"))
		}
		begin := func(t *rapid.T) {
			at := time(t)
			x := spans.Begin(&g, at, tick, expectedOf(at))
			require.Equal(t, g.BucketOf(at, tick), x.Bucket)
			open = append(open, at)
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": begin, "begin again": begin,
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is awaited")
				}
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				_, ok := spans.End(open[k], expectedOf(open[k]))
				require.True(t, ok)
				open = slices.Delete(open, k, k+1)
			},
			"end of what did not begin": func(t *rapid.T) {
				at := time(t)
				b := g.BucketOf(at, tick)
				k := slices.IndexFunc(open, func(o int64) bool { return g.BucketOf(o, tick) == b })
				expected := int64(0)
				if k >= 0 {
					expected = expectedOf(open[k])
				}
				taken, ok := spans.End(at, expected)
				require.Equal(t, expected, taken)
				require.Equal(t, k >= 0, ok, "it stands for another of its block")
				if k >= 0 {
					open = slices.Delete(open, k, k+1)
				}
			},
			"pass": func(t *rapid.T) {
				before := slices.Clone(spans)
				now += rapid.OneOf(rapid.Int64Range(0, 10*g.Unit()), rapid.Int64Range(0, 2*g.Horizon())).Draw(t, "ms")
				tick = g.Tick(now)
				require.Equal(t, !slices.Equal(before, grouped(&g, open, tick)), spans.Merge(&g, tick))
				require.False(t, spans.Merge(&g, tick), "once is enough")
			},
			"": func(t *rapid.T) {
				require.Equal(t, append(Intervals{}, grouped(&g, open, tick)...), append(Intervals{}, spans...))
				require.EqualValues(t, len(open), spans.Count())
				text := spans.Append(nil)
				read, err := parseIntervals(text)
				require.NoError(t, err)
				require.Equal(t, append(Intervals{}, spans...), append(Intervals{}, read...))
			},
		})
	})
}

// manySpans are those of some times at a tick of their own, as another partition has them whose event time lies elsewhere.
func manySpans(t *rapid.T, g *Scheme, name string) Intervals {
	tick := g.Tick(lately + rapid.Int64Range(-g.Horizon(), g.Horizon()).Draw(t, name+" pass"))
	var s Intervals
	for _, ago := range rapid.SliceOfN(rapid.Int64Range(0, 2*g.Horizon()+40*g.Unit()), 0, 20).Draw(t, name) {
		s.Begin(g, lately-ago, tick, expectedOf(lately-ago))
	}
	return s
}

// The sum of spans has each selection in the longest block around it that any summand has, whatever the order.
func TestSpans_AddIsTheUnionInTheLongerBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		a, b, c := manySpans(t, &g, "a"), manySpans(t, &g, "b"), manySpans(t, &g, "c")
		before := [][]Interval{slices.Clone(a), slices.Clone(b)}
		sum := a.Add(b)
		require.Equal(t, before, [][]Interval{slices.Clone(a), slices.Clone(b)}, "summands stay as they are")
		counts := map[Bucket]Interval{}
		all := append(slices.Clone(a), b...)
		for _, x := range all {
			into := x.Bucket
			for _, y := range all {
				if y.Level > into.Level && y.Start() <= x.Start() && x.Start() < y.End() {
					into = y.Bucket
				}
			}
			counts[into] = Interval{Bucket: into, N: counts[into].N + x.N, Expected: counts[into].Expected + x.Expected}
		}
		require.Equal(t, len(counts), len(sum))
		require.True(t, slices.Equal(IntervalsOf(counts), sum))
		require.Equal(t, a.Count()+b.Count(), sum.Count())
		require.True(t, slices.Equal(sum, b.Add(a)))
		require.True(t, slices.Equal(sum.Add(c), a.Add(b.Add(c))))
		require.True(t, slices.Equal(a, a.Add(nil)) && slices.Equal(a, Intervals(nil).Add(a)))
	})
}

// Intervals with longer blocks than those of the tick, as another horizon leaves them, take the selections that begin within them.
func TestSpans_LongerBlocksStay(t *testing.T) {
	g := NewScheme(longest)
	var s Intervals
	long := g.BucketOf(lately, lately+longest)
	s.Begin(&g, lately, lately+longest, 5)
	short := NewScheme(day)
	require.False(t, s.Merge(&short, short.Tick(lately)))
	require.Equal(t, long, s.Begin(&short, long.Start(), short.Tick(lately), 7).Bucket)
	s.Begin(&short, long.End(), short.Tick(lately), 0)
	require.Equal(t, []int64{2, 1}, []int64{s[0].N, s[1].N})
	require.Equal(t, []int64{12, 0}, []int64{s[0].Expected, s[1].Expected})
	for _, x := range []struct {
		time, expected, taken int64
		ok                    bool
	}{{long.End() - 1, 7, 7, true}, {long.Start() - 1, 3, 0, false}, {long.Start(), 4, 5, true}} {
		taken, ok := s.End(x.time, x.expected)
		require.Equal(t, x.taken, taken)
		require.Equal(t, x.ok, ok)
	}
	require.Len(t, s, 1)
}

// Spans of two partitions, counted by bucket, are their sum: none overlaps.
func TestSpansOf_AreTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		a, b := manySpans(t, &g, "a"), manySpans(t, &g, "b")
		counts := map[Bucket]Interval{}
		for _, x := range slices.Concat(a, b) {
			counts[x.Bucket] = Interval{Bucket: x.Bucket, N: counts[x.Bucket].N + x.N, Expected: counts[x.Bucket].Expected + x.Expected}
		}
		require.True(t, slices.Equal(a.Add(b), IntervalsOf(counts)))
	})
}

// rising is a lateness of payoffs that come the more slowly the older selections are.
func rising(t *rapid.T, g *Scheme) DelayDistribution {
	steepness := rapid.Float64Range(0.01, 20).Draw(t, "steepness")
	come := make([]float64, g.Bins())
	for k := range come {
		come[k] = math.Expm1(-steepness*float64(min(g.ends[k], g.horizon))/float64(g.horizon)) / math.Expm1(-steepness)
	}
	come[len(come)-1] = 1
	return NewDelayDistribution(come)
}

// While expired weight stops growing at a moment, as another partition has no owner, blocks merge by our own ticks. The weight of
// their selections does not fall. Where payoffs come evenly it stays the same.
func TestDelayDistribution_DoesNotFallBeforeUnpaidCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewScheme(rapid.Int64Range(1, 1<<20).Draw(t, "horizon"))
		var spans Intervals
		begin := rapid.Int64Range(-3, 3).Draw(t, "begin") << 30
		now, tick := begin, int64(Never)
		forward := func(ticks int64) {
			for end := now + ticks*4*g.Unit(); now < end; now += g.Unit() {
				spans.Begin(&g, now, tick, 0)
			}
			tick = g.Tick(now)
			spans.Merge(&g, tick)
		}
		late, even := rising(t, &g), DelayDistribution{}
		weights := func(known int64) (w, evenly float64) {
			for _, x := range spans {
				w += float64(x.N) * late.Share(&g, x.Bucket, known)
				evenly += float64(x.N) * even.Share(&g, x.Bucket, known)
			}
			return w, evenly
		}
		ticks := rapid.Int64Range(1, 200)
		forward(ticks.Draw(t, "passes"))
		known := tick
		before, evenly := weights(known)
		require.Positive(t, before)
		for range rapid.IntRange(1, 5).Draw(t, "times") {
			forward(ticks.Draw(t, "more passes"))
			after, same := weights(known)
			require.GreaterOrEqual(t, after, before*(1-1e-9))
			if known-begin <= g.Horizon() { // else ages are cut
				require.InDelta(t, evenly, same, 1e-3*evenly, "ages are whole milliseconds")
			}
			before = after
		}
	})
}
