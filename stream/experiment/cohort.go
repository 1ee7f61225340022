package experiment

import (
	"math"
	"slices"
)

// perPayoff is the number of units of a payoff of 1 in cohorts' sums.
const perPayoff = 1 << 30

// inUnits rounds a payoff, or its square.
func inUnits(x float64) int64 { return int64(math.Round(x * perPayoff)) }

// Counts are sums over an arm's units in a cohort, of at most 2³² units. All but N are in units of 2⁻³⁰, each unit's rounded.
type Counts struct {
	N int64 // units
	X int64 // their payoffs
	Q int64 // squares of payoffs
	Z int64 // covariates
	S int64 // squares of covariates
	M int64 // products of covariate and payoff
}

// Unit returns the counts of n units with a covariate in [0,1], without their payoffs: at their ranking, or negative to withdraw them.
func Unit(n int64, z float64) Counts {
	return Counts{N: n, Z: n * inUnits(z), S: n * inUnits(float64(z*z))}
}

// Of returns the counts of a payoff, clamped to [0,1], of a unit with covariate z. The unit itself is counted at its ranking.
func Of(x, z float64) Counts {
	x = min(max(x, 0), 1)
	return Counts{X: inUnits(x), Q: inUnits(float64(x * x)), M: inUnits(float64(x * z))}
}

func (c Counts) Add(o Counts) Counts {
	return Counts{c.N + o.N, c.X + o.X, c.Q + o.Q, c.Z + o.Z, c.S + o.S, c.M + o.M}
}

// Width returns the length of cohorts for a horizon of payoffs, both in milliseconds: 1/256 of it, at least a minute.
func Width(horizon int64) int64 { return max(60_000, (horizon+255)/256) }

// Cohorts holds an experiment's open cohorts in one partition: those with deadlines that expiry has not passed. A cohort's number is its
// start in widths since 1970.
type Cohorts struct {
	arms  int
	width int64
	open  []cohort // by number
	free  []cohort // closed, for their memory
}

type cohort struct {
	number int64
	by     []Counts
}

// NewCohorts returns empty cohorts of width milliseconds.
func NewCohorts(arms int, width int64) *Cohorts { return &Cohorts{arms: arms, width: width} }

// Number returns the number of a deadline's cohort.
func (c *Cohorts) Number(deadline int64) int64 { return PeriodOf(deadline, c.width) }

// Ends returns the time at which expiry closes a cohort: all its deadlines have passed.
func (c *Cohorts) Ends(number int64) int64 { return (number + 1) * c.width }

// Add adds to an arm's sums in a cohort, and opens it if necessary: Unit at a ranking, and Of its payoff when a unit ends.
func (c *Cohorts) Add(number int64, arm int, x Counts) {
	k, found := c.find(number)
	if !found {
		c.open = slices.Insert(c.open, k, c.make(number))
	}
	c.open[k].by[arm] = c.open[k].by[arm].Add(x)
}

// Set replaces a cohort's sums by stored ones; nil closes it.
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

// Get returns an open cohort's sums by arm, valid until the next change, or nil.
func (c *Cohorts) Get(number int64) []Counts {
	if k, found := c.find(number); found {
		return c.open[k].by
	}
	return nil
}

// First returns the number of the earliest open cohort.
func (c *Cohorts) First() (number int64, ok bool) {
	if len(c.open) == 0 {
		return 0, false
	}
	return c.open[0].number, true
}

// Len returns the number of open cohorts.
func (c *Cohorts) Len() int { return len(c.open) }

// Close removes the earliest cohort, if expiry has reached its end. Its sums are valid until the next change.
func (c *Cohorts) Close(walked int64) (number int64, by []Counts, ok bool) {
	if len(c.open) == 0 || c.Ends(c.open[0].number) > walked {
		return 0, nil, false
	}
	x := c.open[0]
	c.Set(x.number, nil)
	return x.number, x.by, true
}

// find returns the position of a cohort, or where to insert it. It is mostly among the last.
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

func (c *Cohorts) make(number int64) cohort {
	if last := len(c.free) - 1; last >= 0 {
		x := c.free[last]
		c.free = c.free[:last]
		clear(x.by)
		return cohort{number, x.by}
	}
	return cohort{number, make([]Counts, c.arms)}
}
