package inflight

import "math/bits"

// Scheme divides time for one payoff horizon: event time into blocks, which are longer the longer ago they are, and ages into
// bins, four to an octave. Both are a function of integers alone, so that whoever counts again comes to the same counts.
type Scheme struct {
	horizon int64   // ms
	level   int     // of the shortest blocks; 2^level ms is the unit u
	ends    []int64 // of the bins, ms
	ages    int64   // how many times its length ago a block ended at the least
}

const (
	leastLevel = 10 // blocks are a second long at least
	// Shortest is how long a block is at the least, in milliseconds.
	Shortest   = 1 << leastLevel
	coarseness = 6
	fineness   = 12 // the unit is a 4,096th to a 2,048th of the horizon: passes cost time
)

// NewScheme makes the grid of a horizon, in milliseconds, from 1 on.
func NewScheme(horizon int64) Scheme {
	return newGrid(horizon, max(leastLevel, bits.Len64(uint64(horizon))-fineness))
}

// NewSchemeUpTo makes a grid of a horizon whose unit is the longest that is no longer than so much; both in milliseconds, the
// horizon from 1 on and the unit from Shortest on.
func NewSchemeUpTo(horizon, unit int64) Scheme { return newGrid(horizon, bits.Len64(uint64(unit))-1) }

// NewCoarseScheme makes a grid of a horizon whose unit is a 64th to a 32nd of it, in milliseconds, and whose blocks are about half as long as
// their age at most: for sums that take much room.
func NewCoarseScheme(horizon int64) Scheme {
	g := newGrid(horizon, max(leastLevel, bits.Len64(uint64(horizon))-coarseness))
	g.ages = 2
	return g
}

func newGrid(horizon int64, level int) Scheme {
	g := Scheme{horizon: horizon, level: level, ages: 4}
	for k := 0; ; k++ {
		end := g.binEnd(k)
		g.ends = append(g.ends, end)
		if end >= horizon {
			return g
		}
	}
}

// quarters are 2^(k/4) in units of 2⁻⁶².
var quarters = [4]uint64{1 << 62, 0x4c1bf828c6dc54b7, 0x5a827999fcef3242, 0x6ba27e656b4eb57a}

// binEnd is u·2^(k/4), rounded down to milliseconds.
func (g *Scheme) binEnd(k int) int64 {
	high, low := bits.Mul64(quarters[k%4], 1<<(g.level+k/4))
	return int64(high<<2 | low>>62)
}

// Horizon is the grid's, in milliseconds.
func (g *Scheme) Horizon() int64 { return g.horizon }

// Unit is the length of the shortest blocks and of the first bin, in milliseconds: a power of two.
func (g *Scheme) Unit() int64 { return 1 << g.level }

// Bins is their number K. Bin 0 is [0,u), bin k is [u·2^((k−1)/4), u·2^(k/4)), and the last holds the horizon or ends there.
func (g *Scheme) Bins() int { return len(g.ends) }

// Bin is where an age in milliseconds belongs; an age past the horizon belongs to bin K, which counts as no age.
func (g *Scheme) Bin(age int64) int {
	switch {
	case age > g.horizon:
		return len(g.ends)
	case age < g.Unit():
		return 0
	}
	octave := bits.Len64(uint64(age)) - 1 - g.level
	k := min(4*octave+1, len(g.ends)-1) // the horizon may be where the last bin ends
	for k < len(g.ends)-1 && age >= g.ends[k] {
		k++
	}
	return k
}

// Tick is the pass that a watermark has come to: a multiple of 4u. Estimates and blocks change when it does, and not between.
func (g *Scheme) Tick(watermark int64) int64 {
	step := g.TickLength()
	return watermark - (watermark%step+step)%step
}

// TickLength is the time from one pass to the next, in milliseconds.
func (g *Scheme) TickLength() int64 { return 4 * g.Unit() }

// Bucket is the event times from Index·2^Level to before (Index+1)·2^Level, in milliseconds.
type Bucket struct {
	Level int8
	Index int64
}

// BucketOf is the block of a time at a pass: the longest around it that ends four times its length before the pass or earlier,
// else the shortest around it. A block is about a quarter as long as its age at most. Of two times that share a block at one
// pass, both are in one block at all later ones: blocks only merge.
func (g *Scheme) BucketOf(time, pass int64) Bucket {
	b := Bucket{int8(g.level), time >> g.level}
	for {
		up := Bucket{b.Level + 1, b.Index >> 1}
		if up.Level > longestLevel || up.End()+g.ages<<up.Level > pass {
			return b
		}
		b = up
	}
}

// longestLevel is of blocks of 2,000 years, so that no time overflows.
const longestLevel = 46

// Never is a pass before all times: that of a watermark that is not known yet.
const Never = -(1 << 53)

// Merged is the block that a block is part of at a pass. One that is longer than blocks of its time are at that pass (another
// partition's event time is ahead, or the horizon was longer) stays as it is.
func (g *Scheme) Merged(b Bucket, pass int64) Bucket {
	if at := g.BucketOf(b.Start(), pass); at.Level > b.Level {
		return at
	}
	return b
}

// Start is the first time of the block.
func (b Bucket) Start() int64 { return b.Index << b.Level }

// End is the first time after the block.
func (b Bucket) End() int64 { return (b.Index + 1) << b.Level }

// Middle is the time in the middle of the block.
func (b Bucket) Middle() int64 { return b.Start() + (int64(1)<<b.Level)/2 }

// Age is the age, at a pass, of what began in the middle of the block, 0 at the least.
func (b Bucket) Age(pass int64) int64 {
	return max(0, pass-b.Middle())
}
