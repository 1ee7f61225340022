package policy

import (
	"fmt"
	"math"
)

// Check tells why s cannot be anybody's sums: a negative count, something that is not finite, or payoffs without a
// count. It is for sums that come from outside, such as a store.
func (s Sums) Check() error {
	switch {
	case s.N < 0:
		return fmt.Errorf("policy: sums with a negative count of payoffs: N = %d", s.N)
	case math.IsNaN(s.R) || math.IsInf(s.R, 0) || math.IsNaN(s.Q) || math.IsInf(s.Q, 0):
		return fmt.Errorf("policy: sums that are not finite: R = %v, Q = %v", s.R, s.Q)
	case s.Q < 0:
		return fmt.Errorf("policy: sums with a negative sum of squares: Q = %v", s.Q)
	case s.N == 0 && (s.R != 0 || s.Q != 0):
		return fmt.Errorf("policy: sums of no payoffs that are not 0: R = %v, Q = %v", s.R, s.Q)
	}
	return nil
}

// Add is the sums of both. They round, so that the order of several additions matters.
func (s Sums) Add(o Sums) Sums { return Sums{N: s.N + o.N, R: s.R + o.R, Q: s.Q + o.Q} }

// Table holds the statistics of a learner's items, as Totals by item: this partition's own sums and those imported from
// other sources, pooled.
//
// No NaN and no infinity may enter: sums and payoffs are the caller's promise, kept by rejecting such records where
// they are decoded and such stored state where it is loaded (Sums.Check). A table is not safe for concurrent use.
type Table struct {
	Totals[Sums]
	fed     int64
	moments *moments // of pooled; nil until somebody asks
}

// SumsChanged is the bit of Table.Changes that says that an item's own sums have changed.
const SumsChanged uint8 = 1

// NewTable makes a table of the given number of items, with nothing known of any of them.
func NewTable(items int) *Table {
	t := &Table{}
	t.Totals = NewTotals(t.keepUp)
	t.Grow(items)
	return t
}

// Fed is the number of payoffs fed, pooled over all sources: ΣN.
func (t *Table) Fed() int64 { return t.fed }


// Add feeds one payoff r, which must be finite, for item i.
func (t *Table) Add(i Item, r float64) { t.AddOwn(i, Sums{N: 1, R: r, Q: float64(r * r)}, SumsChanged) }

// keepUp keeps up what hangs on the pooled sums.
func (t *Table) keepUp(_ Item, before, after Sums) {
	t.fed += after.N - before.N
	if t.moments != nil {
		t.moments.replace(&before, &after)
	}
}

// keepMoments gives the moments of the pooled sums. The first call goes through all items, and from then on they are kept
// up; they are the same either way.
func (t *Table) keepMoments() *moments {
	if t.moments == nil {
		t.moments = &moments{}
		for i := range t.pooled {
			t.moments.replace(&Sums{}, &t.pooled[i])
		}
	}
	return t.moments
}
