package inflight

import (
	"math/bits"
	"slices"
)

// Scheme divides time for one payoff horizon: event time into buckets, which are longer the older they are, and ages into bins,
// four to an octave. Both depend on integers alone, so that every process computes the same.
type Scheme struct {
	horizon int64   // ms
	level   int     // of the shortest buckets; 2^level ms is the unit u
	ends    []int64 // of the bins, ms
	ages    int64   // a bucket ended at least so many times its length ago
}

const (
	leastLevel = 10
	// Shortest is the least length of a bucket and the length of the first bin, in milliseconds.
	Shortest   = 1 << leastLevel
	coarseness = 6
	fineness   = 12
)

// NewScheme returns the scheme of a horizon in milliseconds, at least 1, as of data that cover all of it (see Cover).
func NewScheme(horizon int64) Scheme {
	g := newScheme(horizon, 0)
	g.Cover(horizon)
	return g
}

// NewSchemeUpTo returns a scheme with the longest unit up to a bound; both in milliseconds, at least 1 and Shortest.
func NewSchemeUpTo(horizon, unit int64) Scheme { return newScheme(horizon, bits.Len64(uint64(unit))-1) }

// NewCoarseScheme is for large sums: its unit is a 64th to a 32nd of the horizon, and buckets are at most about half as long as old.
func NewCoarseScheme(horizon int64) Scheme {
	g := newScheme(horizon, levelOf(horizon, coarseness))
	g.ages = 2
	return g
}

// Cover sets the unit to a 4,096th to a 2,048th of the time that the data cover, in milliseconds, or of the horizon if that is less.
// So the first minutes have ticks of seconds whatever the horizon is, and a year's data have no more ticks than they need. Bins do not
// change.
func (g *Scheme) Cover(span int64) { g.level = levelOf(min(span, g.horizon), fineness) }

// levelOf returns the level whose buckets are a span's 2^(−finer) to 2^(1−finer) in length.
func levelOf(span int64, finer int) int {
	return max(leastLevel, bits.Len64(uint64(max(0, span)))-finer)
}

func newScheme(horizon int64, level int) Scheme {
	g := Scheme{horizon: horizon, level: level, ages: 4}
	for k := 0; ; k++ {
		end := binEnd(k)
		g.ends = append(g.ends, end)
		if end >= horizon {
			return g
		}
	}
}

var quarters = [4]uint64{1 << 62, 0x4c1bf828c6dc54b7, 0x5a827999fcef3242, 0x6ba27e656b4eb57a}

func binEnd(k int) int64 {
	high, low := bits.Mul64(quarters[k%4], 1<<(leastLevel+k/4))
	return int64(high<<2 | low>>62)
}

// Horizon returns the horizon, in milliseconds.
func (g *Scheme) Horizon() int64 { return g.horizon }

// Unit returns the length of the shortest buckets, in milliseconds: a power of two.
func (g *Scheme) Unit() int64 { return 1 << g.level }

// Bins returns the number K of bins. With s = Shortest, bin 0 is [0,s), bin k is [s·2^((k−1)/4), s·2^(k/4)); the last contains the horizon.
func (g *Scheme) Bins() int { return len(g.ends) }

// Bin returns the bin of an age in milliseconds; K for one past the horizon.
func (g *Scheme) Bin(age int64) int {
	switch {
	case age > g.horizon:
		return len(g.ends)
	case age < Shortest:
		return 0
	}
	octave := bits.Len64(uint64(age)) - 1 - leastLevel
	k := min(4*octave+1, len(g.ends)-1) // the horizon may be the end of the last bin
	for k < len(g.ends)-1 && age >= g.ends[k] {
		k++
	}
	return k
}

// seen returns how many bins end by an age, the last with the horizon.
func (g *Scheme) seen(age int64) int {
	if age >= g.horizon {
		return len(g.ends)
	}
	n, _ := slices.BinarySearch(g.ends, age+1)
	return n
}

// Tick returns the last multiple of 4u up to a watermark. Estimates and buckets change only from tick to tick.
func (g *Scheme) Tick(watermark int64) int64 {
	step := g.TickLength()
	return watermark - (watermark%step+step)%step
}

// TickLength returns the time between ticks, in milliseconds.
func (g *Scheme) TickLength() int64 { return 4 * g.Unit() }

// Bucket is the event times in [Index·2^Level, (Index+1)·2^Level), in milliseconds.
type Bucket struct {
	Level int8
	Index int64
}

// BucketOf returns the bucket of a time as of a tick: the longest that ended at least four of its lengths before (see ages), else
// the shortest. It is at most about a quarter as long as its age. Buckets only merge: two times in one bucket stay in one.
func (g *Scheme) BucketOf(time, tick int64) Bucket {
	b := Bucket{int8(g.level), time >> g.level}
	for {
		up := Bucket{b.Level + 1, b.Index >> 1}
		if up.Level > longestLevel || up.End()+g.ages<<up.Level > tick {
			return b
		}
		b = up
	}
}

// longestLevel is a bucket of 2,000 years, so that no time overflows.
const longestLevel = 46

// Never is a tick before all times: that of an unknown watermark.
const Never = -(1 << 53)

// Merged returns the bucket of b as of a tick. A longer one, of a partition ahead or of a longer horizon, stays.
func (g *Scheme) Merged(b Bucket, tick int64) Bucket {
	if at := g.BucketOf(b.Start(), tick); at.Level > b.Level {
		return at
	}
	return b
}

func (b Bucket) Start() int64 { return b.Index << b.Level }

// End is the first time after the bucket.
func (b Bucket) End() int64 { return (b.Index + 1) << b.Level }

func (b Bucket) Middle() int64 { return b.Start() + (int64(1)<<b.Level)/2 }

// Age returns the age of the bucket's middle at a tick, at least 0.
func (b Bucket) Age(tick int64) int64 {
	return max(0, tick-b.Middle())
}
