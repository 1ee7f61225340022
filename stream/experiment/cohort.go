package experiment

import (
	"math"
	"slices"
)

// perPayoff is how many units a payoff of 1 has, in the sums of cohorts.
const perPayoff = 1 << 30

// inUnits rounds a payoff, or its square.
func inUnits(x float64) int64 { return int64(math.Round(x * perPayoff)) }

// Counts are sums over the units of an arm in a cohort. They hold up to 2³² units.
type Counts struct {
	N int64 // units
	X int64 // their payoffs, in units of 2⁻³⁰
	Q int64 // the squares of these, likewise; each is rounded
}

// Of returns the counts of a payoff within [0,1]; the unit itself is counted at its ranking. A payoff outside is
// clamped.
func Of(x float64) Counts {
	x = min(max(x, 0), 1)
	return Counts{0, inUnits(x), inUnits(float64(x * x))}
}

// Unit is a single one without its payoff.
var Unit = Counts{N: 1}

// Add is the sums of both.
func (c Counts) Add(o Counts) Counts { return Counts{c.N + o.N, c.X + o.X, c.Q + o.Q} }

// Width is how long cohorts are, for a horizon of payoffs, both in milliseconds: 1/256 of it, and a minute at the least.
func Width(horizon int64) int64 { return max(60_000, (horizon+255)/256) }

// Cohorts are the open ones of an experiment in one partition: those with deadlines that the walk over deadlines has not passed. A
// cohort's number is how many of its width have passed since 1970 when it begins. The zero value is of none.
type Cohorts struct {
	arms  int
	width int64
	open  []cohort // by number
	free  []cohort // closed ones, for their memory
}

// cohort is one of them. by has a place for each arm.
type cohort struct {
	number int64
	by     []Counts
}

// NewCohorts returns empty cohorts of width milliseconds, for units of arms arms.
func NewCohorts(arms int, width int64) *Cohorts { return &Cohorts{arms: arms, width: width} }

// Number is that of the cohort of a deadline.
func (c *Cohorts) Number(deadline int64) int64 { return PeriodOf(deadline, c.width) }

// Ends is when a cohort closes: once the walk over deadlines has come so far, all its units have theirs behind them.
func (c *Cohorts) Ends(number int64) int64 { return (number + 1) * c.width }

// Add adds to an arm's sums in a cohort, which it opens if necessary: Unit at a ranking, and Of its payoff when a
// unit ends.
func (c *Cohorts) Add(number int64, arm int, x Counts) {
	k, found := c.find(number)
	if !found {
		c.open = slices.Insert(c.open, k, c.make(number))
	}
	c.open[k].by[arm] = c.open[k].by[arm].Add(x)
}

// Set puts stored sums in place of a cohort's; without any it is open no longer.
func (c *Cohorts) Set(number int64, by []Counts) {
	k, found := c.find(number)
	switch {
	case len(by) == 0 && found:
		c.free = append(c.free, c.open[k])
		c.open = slices.Delete(c.open, k, k+1)
	case len(by) != 0 && !found:
		c.open = slices.Insert(c.open, k, c.make(number))
		fallthrough
	case len(by) != 0:
		copy(c.open[k].by, by)
	}
}

// Get is a cohort's sums by arm; nil where it is not open. They are valid until the next change.
func (c *Cohorts) Get(number int64) []Counts {
	if k, found := c.find(number); found {
		return c.open[k].by
	}
	return nil
}

// First is the number of the earliest cohort that is open.
func (c *Cohorts) First() (number int64, ok bool) {
	if len(c.open) == 0 {
		return 0, false
	}
	return c.open[0].number, true
}

// Len is how many are open.
func (c *Cohorts) Len() int { return len(c.open) }

// Close takes out the earliest cohort, if the walk over deadlines has come to walked, behind its end. Its sums are valid until the next
// change.
func (c *Cohorts) Close(walked int64) (number int64, by []Counts, ok bool) {
	if len(c.open) == 0 || c.Ends(c.open[0].number) > walked {
		return 0, nil, false
	}
	x := c.open[0]
	c.Set(x.number, nil)
	return x.number, x.by, true
}

// find says where a cohort stands, or belongs. It is mostly among the last.
func (c *Cohorts) find(number int64) (at int, found bool) {
	return slices.BinarySearchFunc(c.open, number, func(x cohort, number int64) int {
		switch {
		case x.number < number:
			return -1
		case x.number > number:
			return 1
		}
		return 0
	})
}

// make is an empty cohort.
func (c *Cohorts) make(number int64) cohort {
	if last := len(c.free) - 1; last >= 0 {
		x := c.free[last]
		c.free = c.free[:last]
		clear(x.by)
		return cohort{number, x.by}
	}
	return cohort{number, make([]Counts, c.arms)}
}
