package partition

const rareBelow = 0.001

// UserModel holds diagnostics of a learner's assumptions about users and payoffs, since its state was loaded.
type UserModel struct {
	// Blocked counts selections of an item behind one with a higher utility, which no window explains. It needs a known and certain order
	// of utilities.
	Blocked int64
	// Rare counts selections of an item with a propensity below rareBelow. RareExpected sums all such propensities of impressions with a
	// selection: about as many, if users behave as assumed.
	Rare         int64
	RareExpected float64
	// Payoffs counts fed payoffs, defaults included. Least and Most are their extremes, in payoff ranges.
	Payoffs     int64
	Least, Most float64
}

const (
	manyPayoffs = 1000
	narrow      = 0.1
)

// RangeUsed returns the share of the payoff range that payoffs span; false before there are many.
func (c *UserModel) RangeUsed() (share float64, ok bool) {
	return c.Most - c.Least, c.Payoffs >= manyPayoffs
}

// RangeTooWide reports whether payoffs span a tenth of the payoff range or less: then estimates hardly differ, and learning takes up to a
// hundred times as many payoffs.
func (c *UserModel) RangeTooWide() bool {
	used, ok := c.RangeUsed()
	return ok && used <= narrow
}

// expects widens the span to the default of selections that are never paid: on the first days none has ended yet.
func (c *UserModel) expects(r float64) {
	if c.Payoffs > 0 {
		c.Least, c.Most = min(c.Least, r), max(c.Most, r)
	}
}

func (c *UserModel) Span(o *UserModel) {
	switch {
	case o.Payoffs == 0:
	case c.Payoffs == 0:
		c.Payoffs, c.Least, c.Most = o.Payoffs, o.Least, o.Most
	default:
		c.Payoffs, c.Least, c.Most = c.Payoffs+o.Payoffs, min(c.Least, o.Least), max(c.Most, o.Most)
	}
}

func (c *UserModel) selected(e *entry) {
	if len(e.ranks) > 0 && len(e.undecided) == 0 {
		for _, rank := range e.ranks[:e.selected] {
			if rank > e.ranks[e.selected] {
				c.Blocked++
				break
			}
		}
	}
	for k, p := range e.propensities {
		if p >= rareBelow {
			continue
		}
		c.RareExpected += p
		if int32(k) == e.selected {
			c.Rare++
		}
	}
}

func (c *UserModel) paid(r float64) {
	if c.Payoffs++; c.Payoffs == 1 {
		c.Least, c.Most = r, r
	}
	c.Least, c.Most = min(c.Least, r), max(c.Most, r)
}
