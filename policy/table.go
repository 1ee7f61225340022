package policy

import (
	"fmt"
	"math"
)

// Check returns an error if s cannot be sums: a negative count, a number that is not finite, or payoffs without a count. It is for
// sums from outside, such as a store.
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

// Add returns both sums. It rounds, so the order of additions matters.
func (s Sums) Add(o Sums) Sums { return Sums{N: s.N + o.N, R: s.R + o.R, Q: s.Q + o.Q} }

// Table holds the statistics of a learner's items (Totals): this partition's own sums and other sources', pooled, and the evidence
// that policies read.
//
// NaN and infinity must not enter: callers check records and stored state (Sums.Check). A table is not safe for concurrent use.
type Table struct {
	Totals[Sums]
	reading
	known    func(Item) Evidence // nil: the sums' own evidence
	shared   *pooled             // nil without a global table
	snapshot *reading            // of a global table, see Snapshot
	items    int                 // number of items in use, if counted; else all numbers
	counted  bool
}

// reading is the part of a table that policies read.
type reading struct {
	evidence Pages[Evidence]
	fed      int64
	weight   int64    // ΣW, in units
	payoffs  wide     // ΣR
	moments  *moments // of evidence; nil until first needed
}

// SumsChanged is the bit in Table.Changes of an item whose own sums have changed.
const SumsChanged uint8 = 1

// NewTable returns a table of so many items without payoffs.
func NewTable(items int) *Table {
	t := &Table{}
	t.Totals = NewTotals(func(i Item, before, after Sums) {
		t.fed += after.N - before.N
		t.Weigh(i)
	})
	t.PackBy(packedSums())
	t.Grow(items)
	return t
}

// Len returns the number of items, those of other sources included.
func (t *Table) Len() int {
	n := t.Totals.Len()
	if t.counted {
		n = t.items
	}
	if t.shared != nil {
		n = max(n, t.shared.global.Len())
	}
	return n
}

// CountItems sets the number of items in use: global tables have unused numbers, and forgotten items leave some.
func (t *Table) CountItems(n int) { t.items, t.counted = n, true }

// BeGlobal prepares t as a global table, which others only read.
func (t *Table) BeGlobal() {
	t.CountItems(0)
	t.keepMoments()
}

// Forget drops an item's sums and evidence, and its part of sums over all items. Its number stays below Totals' Len; CountItems
// sets how many are left. A global table keeps its values until they are changed there.
func (t *Table) Forget(i Item) {
	t.Totals.Forget(i)
	if t.shared != nil {
		t.shared.forget(t, i)
	}
}

// Release frees the memory of a forgotten item without changes.
func (t *Table) Release(i Item) {
	t.Totals.Release(i)
	t.evidence.Remove(i)
}

// Fed returns the number of payoffs fed, over all sources: ΣN.
func (t *Table) Fed() int64 {
	if t.shared != nil {
		return t.shared.fed + t.shared.at.fed
	}
	return t.fed
}

// Add feeds one payoff r, which must be finite.
func (t *Table) Add(i Item, r float64) { t.AddOwn(i, Sums{N: 1, R: r, Q: float64(r * r)}, SumsChanged) }

// EvidenceBy sets the function that computes an item's evidence where it is more than its sums: with selections in flight, or with
// decay. Weigh must be called when it changes for other reasons than the sums. It is for payoffs fed on arrival, not for QPM-D,
// which freezes sums during a hold.
func (t *Table) EvidenceBy(known func(Item) Evidence) { t.known = known }

// Evidence returns the evidence of item i.
func (t *Table) Evidence(i Item) Evidence {
	if t.shared == nil {
		return t.evidence.Get(i)
	}
	if now := t.shared.fresh.find(i); now != nil {
		return now.Evidence
	}
	return t.shared.at.evidence.Get(t.number(i))
}

// Weight returns the weight of all evidence in payoffs, ΣW; it equals Fed if no selection in flight counts.
func (t *Table) Weight() float64 { return float64(t.weightUnits()) / weightUnits }

func (t *Table) weightUnits() int64 {
	if t.shared != nil {
		return t.shared.weight + t.shared.at.weight
	}
	return t.weight
}

// Mean returns the mean of all payoffs; 0 without any.
func (t *Table) Mean() float64 {
	if t.weightUnits() <= 0 {
		return 0
	}
	payoffs := t.payoffs
	if t.shared != nil {
		payoffs = t.shared.payoffs
		payoffs.add(t.shared.at.payoffs)
	}
	return payoffs.float() / t.Weight()
}

// Weigh recomputes the evidence of item i and the sums that contain it.
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

func (t *Table) made(i Item) Evidence {
	if t.known != nil {
		return t.known(i)
	}
	return t.Pooled(i).Evidence()
}

// keepMoments returns the moments of the evidence. The first call scans all items; afterwards they are updated, with the same result.
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
