package inflight

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	day      = 86_400_000               // ms
	longest  = 3650 * day               // the longest horizon that can be configured
	earliest = int64(-62135596800000)   // 0001-01-01T00:00:00.000Z
	latest   = int64(253402300799999)   // 9999-12-31T23:59:59.999Z
	lately   = int64(1_784_000_000_000) // in 2026
)

// grids are of any horizon, those at which a bin ends included, and of data that cover some of it.
func grids() *rapid.Generator[Scheme] {
	return rapid.Custom(func(t *rapid.T) Scheme {
		g := NewScheme(rapid.OneOf(
			rapid.SampledFrom([]int64{1, 1000, 1023, 1024, 1025, 1217, 1218, 2048, 1 << 24, 1 << 31, 3600_000, day, 30 * day, longest}),
			rapid.Int64Range(1, 10_000), rapid.Int64Range(1, longest)).Draw(t, "horizon"))
		g.Cover(rapid.OneOf(rapid.Just(g.Horizon()), rapid.Int64Range(0, g.Horizon())).Draw(t, "covered"))
		return g
	})
}

// times are any that an event can have, and more often those around some tick.
func times() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(earliest, latest), rapid.Int64Range(lately, lately+30*day), rapid.Int64Range(-100_000, 100_000),
		rapid.SampledFrom([]int64{earliest, latest, -1, 0, 1}))
}

// slowEdge is ⌊2^(level+k/4)⌋, from roots of 300 bits.
func slowEdge(level, k int) int64 {
	x := new(big.Float).SetPrec(300).SetMantExp(big.NewFloat(1), level+k/4)
	root := new(big.Float).SetPrec(300).SetInt64(2)
	root.Sqrt(root.Sqrt(root))
	for range k % 4 {
		x.Mul(x, root)
	}
	edge, _ := x.Int64()
	return edge
}

// slowBins are the ends of bins, up to the first that is not before the horizon.
func slowBins(horizon int64) (ends []int64) {
	for k := 0; len(ends) == 0 || ends[k-1] < horizon; k++ {
		ends = append(ends, slowEdge(leastLevel, k))
	}
	return ends
}

// The unit is a 4,096th to a 2,048th of the time covered, but at least Shortest, and at most that of the horizon. It grows with the time,
// and bins stay as they are.
func TestScheme_CoverIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		bins := slices.Clone(g.ends)
		span := rapid.OneOf(rapid.Int64Range(-100, 10*day), rapid.Int64Range(0, 2*longest), rapid.SampledFrom([]int64{Never, 0, 1 << 22, 1<<22 - 1})).Draw(t, "span")
		level := leastLevel
		for 1<<(level+fineness) <= min(span, g.Horizon()) {
			level++
		}
		g.Cover(span)
		require.Equal(t, int64(1)<<level, g.Unit())
		require.Equal(t, bins, g.ends)
		if unit := g.Unit(); unit > Shortest {
			require.True(t, min(span, g.Horizon()) >= 2048*unit && min(span, g.Horizon()) < 4096*unit)
		}
		g.Cover(g.Horizon())
		require.Equal(t, NewScheme(g.Horizon()), g)
	})
}

// A bin is that of the definition, at all edges and around them, and the last one has the horizon.
func TestGrid_BinIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		ends := slowBins(g.Horizon())
		require.Equal(t, len(ends), g.Bins())
		require.GreaterOrEqual(t, ends[len(ends)-1], g.Horizon())
		slow := func(age int64) int {
			if age > g.Horizon() {
				return len(ends)
			}
			k := slices.IndexFunc(ends, func(end int64) bool { return age < end })
			if k < 0 { // the horizon itself
				k = len(ends) - 1
			}
			return k
		}
		ages := []int64{0, 1, g.Horizon(), g.Horizon() + 1, math.MaxInt64, rapid.Int64Range(0, g.Horizon()).Draw(t, "age")}
		for _, end := range ends {
			ages = append(ages, end-1, end, end+1)
		}
		for _, age := range ages {
			require.Equal(t, slow(age), g.Bin(age), "age %d of horizon %d", age, g.Horizon())
		}
	})
}

// slowFloor is ⌊x/unit⌋, of a negative x too.
func slowFloor(x, unit int64) int64 { return new(big.Int).Div(big.NewInt(x), big.NewInt(unit)).Int64() } // Euclid's division

func TestGrid_PassIsAMultipleOfFourUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, w := grids().Draw(t, "grid"), times().Draw(t, "watermark")
		require.Equal(t, slowFloor(w, 4*g.Unit())*4*g.Unit(), g.Tick(w))
	})
}

// slowBlock looks through all levels from the top.
func slowBlock(g *Scheme, time, tick int64) Bucket {
	for level := longestLevel; ; level-- {
		length := int64(1) << level
		b := Bucket{int8(level), slowFloor(time, length)}
		if length == g.Unit() || (b.Index+1)*length <= tick-4*length {
			return b
		}
	}
}

// Each time is in one block, the same for all times between its start and its end. Blocks of a tick lie in those of later ticks,
// and are short for their age.
func TestGrid_BlockOfIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		tick := g.Tick(times().Draw(t, "pass"))
		back := rapid.OneOf(rapid.Int64Range(-8*g.Unit(), 100*g.Unit()), rapid.Int64Range(0, 3*longest), rapid.Just(tick-earliest))
		time := min(latest, max(earliest, tick-back.Draw(t, "ago")))
		b := g.BucketOf(time, tick)
		require.Equal(t, slowBlock(&g, time, tick), b)
		require.True(t, b.Start() <= time && time < b.End())
		require.Equal(t, int64(1)<<b.Level, b.End()-b.Start())
		inside := rapid.Int64Range(b.Start(), b.End()-1).Draw(t, "inside")
		for _, other := range []int64{b.Start(), inside, b.End() - 1} {
			require.Equal(t, b, g.BucketOf(other, tick))
		}
		require.NotEqual(t, b, g.BucketOf(b.End(), tick))
		require.NotEqual(t, b, g.BucketOf(b.Start()-1, tick))
		if length := b.End() - b.Start(); length > g.Unit() {
			require.LessOrEqual(t, 4*length, tick-b.End(), "a quarter of the age of its youngest")
		}
		require.Equal(t, max(0, tick-(b.Start()+b.End())/2), b.Age(tick))

		later := g.Tick(rapid.Int64Range(tick, max(tick, latest)).Draw(t, "later"))
		after := g.BucketOf(time, later)
		require.True(t, after.Start() <= b.Start() && b.End() <= after.End())
		require.Equal(t, after, g.BucketOf(inside, later), "it is not split")
		require.Equal(t, after, g.Merged(b, later))
		require.Equal(t, after, g.Merged(after, tick), "nor by an earlier pass")
		require.Equal(t, b, g.Merged(b, Never))
		require.Equal(t, int8(g.level), g.BucketOf(time, Never).Level)
	})
}

// There are six blocks to an octave of age at most, so that an item has no more than grow with the logarithm of its age.
func TestGrid_BlocksAreFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, tick := grids().Draw(t, "grid"), times().Draw(t, "pass")
		tick = g.Tick(tick)
		begin := g.Unit() * rapid.Int64Range(4, 20).Draw(t, "units")
		counts := map[int]int{}
		for time := tick - begin; time > earliest && tick-time < 1<<40; {
			b := g.BucketOf(time, tick)
			counts[int(math.Log2(float64(tick-b.Start())/float64(begin)))]++
			time = b.Start() - 1
		}
		for octave, n := range counts {
			require.LessOrEqual(t, n, 6, "octave %d", octave)
		}
	})
}
