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
// other sources, pooled. What policies look at is the evidence that they amount to.
//
// No NaN and no infinity may enter: sums and payoffs are the caller's promise, kept by rejecting such records where
// they are decoded and such stored state where it is loaded (Sums.Check). A table is not safe for concurrent use.
type Table struct {
	Totals[Sums]
	fed      int64
	evidence Pages[Evidence]     // what policies read
	known    func(Item) Evidence // nil: the sums are all that is known
	weight   int64               // ΣW, in units
	payoffs  wide                // ΣR
	moments  *moments            // of evidence; nil until somebody asks
	shared   *pooled             // nil: what there is of all sources is here
	items    int                 // of the things 0..n-1, if they are counted; else all of them
	counted  bool
}

// SumsChanged is the bit of Table.Changes that says that an item's own sums have changed.
const SumsChanged uint8 = 1

// NewTable makes a table of the given number of items, with nothing known of any of them.
func NewTable(items int) *Table {
	t := &Table{}
	t.Totals = NewTotals(func(i Item, before, after Sums) {
		t.fed += after.N - before.N
		t.Weigh(i)
	})
	t.Grow(items)
	return t
}

// Len is the number of items, those included that only other sources have.
func (t *Table) Len() int {
	n := t.Totals.Len()
	if t.counted {
		n = t.items
	}
	if t.shared != nil {
		n = max(n, t.shared.whole.Len())
	}
	return n
}

// CountItems says that of all numbers only so many are items': those of a whole need not be, and those of items that were forgotten are not.
func (t *Table) CountItems(n int) { t.items, t.counted = n, true }

// BeWhole readies t to be shared: parts only read it.
func (t *Table) BeWhole() {
	t.CountItems(0)
	t.keepMoments()
}

// Forget makes all that there is of an item nothing, as though it had never been there; what the table counts over all items is without
// it. The number stays below Len of Totals; CountItems says how many are left. What a whole was told of the item stays there until it is
// told otherwise.
func (t *Table) Forget(i Item) {
	t.Totals.Forget(i)
	if t.shared != nil {
		t.shared.forget(t, i)
	}
}

// Release gives back the memory of an item that was forgotten, and of which no change is noted.
func (t *Table) Release(i Item) {
	t.Totals.Release(i)
	t.evidence.Remove(i)
}

// Fed is the number of payoffs fed, pooled over all sources: ΣN.
func (t *Table) Fed() int64 {
	if t.shared != nil {
		return t.shared.fed + t.shared.whole.fed
	}
	return t.fed
}

// Add feeds one payoff r, which must be finite, for item i.
func (t *Table) Add(i Item, r float64) { t.AddOwn(i, Sums{N: 1, R: r, Q: float64(r * r)}, SumsChanged) }

// EvidenceBy says who tells what is known of an item, where that is more than its sums: of payoffs that are still awaited, here
// and at all sources, or of how long ago those were that were fed. Whenever it changes otherwise than with the sums, Weigh is to be
// called. It is for payoffs that are fed as they arrive: a table whose sums are frozen for one payoff at a time (QPM-D) has nobody
// to tell.
func (t *Table) EvidenceBy(known func(Item) Evidence) { t.known = known }

// Evidence is what is known of the payoffs of item i.
func (t *Table) Evidence(i Item) Evidence {
	if t.shared == nil {
		return t.evidence.Get(i)
	}
	if e, fresh := t.shared.fresh.Get(i); fresh {
		return e.Evidence
	}
	return t.shared.whole.evidence.Get(t.number(i))
}

// Weight is what all evidence is worth, in payoffs: ΣW. It is Fed where nothing awaited counts.
func (t *Table) Weight() float64 { return float64(t.weightUnits()) / weightUnits }

func (t *Table) weightUnits() int64 {
	if t.shared != nil {
		return t.shared.weight + t.shared.whole.weight
	}
	return t.weight
}

// Mean is the mean of all payoffs; 0 where there is none.
func (t *Table) Mean() float64 {
	if t.weightUnits() <= 0 {
		return 0
	}
	payoffs := t.payoffs
	if t.shared != nil {
		payoffs = t.shared.payoffs
		payoffs.add(t.shared.whole.payoffs)
	}
	return payoffs.float() / t.Weight()
}

// Weigh makes the evidence of item i anew, and keeps up what hangs on it.
func (t *Table) Weigh(i Item) {
	if t.shared != nil {
		t.shared.weigh(t, i)
		return
	}
	after := t.made(i)
	at := t.evidence.At(i)
	before := *at
	*at = after
	t.weight += inUnits(after.W) - inUnits(before.W)
	t.payoffs.sub(wideOf(before.R))
	t.payoffs.add(wideOf(after.R))
	if t.moments != nil {
		t.moments.replace(&before, &after)
	}
}

// made is the evidence of item i, made anew.
func (t *Table) made(i Item) Evidence {
	if t.known != nil {
		return t.known(i)
	}
	return t.Pooled(i).Evidence()
}

// keepMoments gives the moments of the evidence. The first call goes through all items, and from then on they are kept
// up; they are the same either way.
func (t *Table) keepMoments() *moments {
	if t.shared != nil {
		return t.shared.all()
	}
	if t.moments == nil {
		t.moments = &moments{}
		for _, e := range t.evidence.All() {
			t.moments.replace(&Evidence{}, e)
		}
	}
	return t.moments
}
