package policy

import (
	"fmt"
	"math"
	"slices"
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

// imported is what one source has of one item.
type imported struct {
	source int32
	sums   Sums
}

// Table holds the statistics of a learner's items: this partition's own sums and those imported from other sources
// (partitions), pooled. Pooling adds in a fixed order (the sources ascending, then one's own to their total) and anew
// at every change, so that the pooled sums are a function of what the parts are now and not of how they came about.
//
// No NaN and no infinity may enter: sums and payoffs are the caller's promise, kept by rejecting such records where
// they are decoded and such stored state where it is loaded (Sums.Check). A table is not safe for concurrent use.
type Table struct {
	pooled []Sums // what policies read; kept dense for their sake
	own    []Sums
	others []Sums       // the sources' total, as far as pooled
	from   [][]imported // per item, in ascending order of source; includes what is staged
	staged Changes      // items whose others is older than from
	fed    int64

	moments *moments // of pooled; nil until somebody asks
}

// NewTable makes a table of the given number of items, with nothing known of any of them.
func NewTable(items int) *Table {
	t := &Table{}
	t.Grow(items)
	return t
}

// Grow makes the table hold items 0..items-1. It never shrinks.
func (t *Table) Grow(items int) {
	more := items - len(t.pooled)
	if more <= 0 {
		return
	}
	t.pooled = extend(t.pooled, more)
	t.own = extend(t.own, more)
	t.others = extend(t.others, more)
	t.from = extend(t.from, more)
	t.staged.Grow(more)
}

// extend appends more zero elements.
func extend[T any](s []T, more int) []T {
	n := len(s)
	s = slices.Grow(s, more)[:n+more]
	clear(s[n:])
	return s
}

// Len is the number of items: the n of the confidence radius.
func (t *Table) Len() int { return len(t.pooled) }

// Fed is the number of payoffs fed, pooled over all sources: ΣN.
func (t *Table) Fed() int64 { return t.fed }

// Pooled are the sums of item i over this partition and all sources.
func (t *Table) Pooled(i Item) Sums { return t.pooled[i] }

// Own are this partition's own sums of item i.
func (t *Table) Own(i Item) Sums { return t.own[i] }

// Add feeds one payoff r, which must be finite, for item i.
func (t *Table) Add(i Item, r float64) {
	o := &t.own[i]
	o.N++
	o.R += r
	o.Q += r * r
	t.pool(i)
}

// Set replaces this partition's own sums of item i, which must pass Sums.Check.
func (t *Table) Set(i Item, s Sums) {
	t.own[i] = s
	t.pool(i)
}

// Import sets what source has of item i, in place of what it had before, and takes in whatever is staged.
func (t *Table) Import(source int32, i Item, s Sums) {
	t.Stage(source, i, s)
	t.TakeStaged()
}

// Stage notes what source has of item i, in place of what it had before, but leaves the pooled sums as they are until
// TakeStaged. It keeps only the newest sums of each source and item, so what is staged is bounded by what is pooled.
func (t *Table) Stage(source int32, i Item, s Sums) {
	from := t.from[i]
	at, found := find(from, source)
	if found {
		from[at].sums = s
	} else {
		t.from[i] = slices.Insert(from, at, imported{source, s})
	}
	t.staged.Note(i, 1)
}

// Has tells whether source has been heard of for item i, staged or pooled.
func (t *Table) Has(source int32, i Item) bool {
	_, found := find(t.from[i], source)
	return found
}

// find is where source stands, or belongs, in a list ascending by source. Sources of one item are few, and often asked
// for in order.
func find(from []imported, source int32) (at int, found bool) {
	return slices.BinarySearchFunc(from, source, func(f imported, source int32) int {
		return int(int64(f.source) - int64(source))
	})
}

// TakeStaged pools all that is staged.
func (t *Table) TakeStaged() {
	for i := range t.staged.All() {
		var sum Sums
		for _, f := range t.from[i] {
			sum = plus(sum, f.sums)
		}
		t.others[i] = sum
		t.pool(i)
	}
	t.staged.Clear()
}

// pool recomputes the pooled sums of item i, and what hangs on them.
func (t *Table) pool(i Item) {
	before, after := t.pooled[i], plus(t.own[i], t.others[i])
	t.pooled[i] = after
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

func plus(a, b Sums) Sums { return Sums{N: a.N + b.N, R: a.R + b.R, Q: a.Q + b.Q} }
