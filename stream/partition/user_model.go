package partition

// RareBelow is the propensity below which the selection of an item is rare.
const RareBelow = 0.001

// UserModel is what a learner's users and payoffs have been like since its state was loaded: whether they are as its algorithms
// take them to be.
type UserModel struct {
	// Blocked is how many selected an item that was shown behind one they like better: no window explains that. It is counted
	// where the ranking has the candidates' order of utilities, and that is certain.
	Blocked int64
	// Rare is how many selected an item whose recorded propensity was below RareBelow, and RareExpected the sum of all such
	// propensities of the impressions in which something was selected: about as many, if users choose as is assumed.
	Rare         int64
	RareExpected float64
	// Payoffs is how many have been fed, those that stand for silence among them, Sum is their sum, and Least and Most are the
	// smallest and the largest, in payoff ranges.
	Payoffs     int64
	Sum         float64
	Least, Most float64
}

const (
	manyPayoffs = 1000
	narrow      = 0.1
)

// RangeUsed is the share of the payoff range that payoffs have spanned; false before there are many.
func (c *UserModel) RangeUsed() (share float64, ok bool) {
	return c.Most - c.Least, c.Payoffs >= manyPayoffs
}

// RangeTooWide tells whether payoffs span a tenth of the payoff range or less: then all that is learned is about numbers that
// hardly differ, and takes up to a hundred times as many payoffs.
func (c *UserModel) RangeTooWide() bool {
	used, ok := c.RangeUsed()
	return ok && used <= narrow
}

// Span takes in the payoffs of another partition.
func (c *UserModel) Span(o *UserModel) {
	switch {
	case o.Payoffs == 0:
	case c.Payoffs == 0:
		c.Payoffs, c.Least, c.Most = o.Payoffs, o.Least, o.Most
	default:
		c.Payoffs, c.Least, c.Most = c.Payoffs+o.Payoffs, min(c.Least, o.Least), max(c.Most, o.Most)
	}
}

// selected takes in the selection of a pending impression.
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
		if p >= RareBelow {
			continue
		}
		c.RareExpected += p
		if int32(k) == e.selected {
			c.Rare++
		}
	}
}

// paid takes in a payoff, within 0 and 1.
func (c *UserModel) paid(r float64) {
	if c.Payoffs++; c.Payoffs == 1 {
		c.Least, c.Most = r, r
	}
	c.Sum += r
	c.Least, c.Most = min(c.Least, r), max(c.Most, r)
}
