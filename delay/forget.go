package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// ItemRemoving is a Learner that can forget items, which frees their memory and their room in the store. Afterwards it decides as a
// learner that never had them, except for state that is not kept by item: windows and delay distributions. Numbers of items and
// totals of payoffs (policy.Table) are those of the remaining items.
type ItemRemoving interface {
	Learner
	// Forget drops an item's state, of this partition and of other sources. It may be called once for an item that has been loaded.
	// The number may not be used in any later call. The next Harvest deletes the stored fields and frees the memory.
	Forget(i policy.Item)
	// PaidForgotten replaces Paid for a forgotten item: only state that is not kept by item changes.
	PaidForgotten(fb Feedback)
	// Count sets the number of items, once it is below the number of item numbers that Grow has set.
	Count(items int)
}

var (
	_ ItemRemoving = (*Direct)(nil)
	_ ItemRemoving = (*Robust)(nil)
)

func (d *Direct) Forget(i policy.Item) { d.forget(i) }

func (d *Direct) PaidForgotten(Feedback) {}

// Forget implements ItemRemoving. The item's contribution to the common level of all items stays.
func (r *Robust) Forget(i policy.Item) {
	if own := r.items.own.At(i); len(own.Rows) > 0 {
		own.Rows = nil
		r.changes.Note(i, recentChanged)
	}
	r.items.others.Forget(i)
	r.forget(i)
}

// forget drops an item. The table comes last, since the other steps recompute the item's evidence.
func (b *base) forget(i policy.Item) {
	b.flights.forget(i)
	if b.attraction != nil {
		b.attraction.forget(i)
	}
	if b.users != nil {
		b.users.forget(i)
	}
	b.table.Forget(i)
	if b.users != nil {
		b.users.forgotten(b.table, i)
	}
	b.forgotten = append(b.forgotten, i)
}

func (b *base) Count(items int) {
	b.table.CountItems(items)
	if b.attraction != nil {
		b.attraction.table.CountItems(items)
	}
}

// release frees the memory of forgotten items after their last harvest.
func (b *base) release() {
	for _, i := range b.forgotten {
		b.releaseItem(i)
	}
	b.forgotten = b.forgotten[:0]
}

func (b *base) releaseItem(i policy.Item) {
	b.flights.release(i)
	if b.users != nil {
		b.users.settle(b.table)
		b.users.release(i)
	}
	if b.attraction != nil {
		b.attraction.table.Release(i)
	}
	b.table.Release(i)
}

func (f *flights) forget(i policy.Item) {
	f.total -= f.Own(i)
	if f.awaiting != nil {
		f.awaiting.forget(i)
	}
	if f.parts != nil {
		f.parts.Forget(i)
		if f.parts.stored.Get(i).N != 0 {
			f.parts.Changes().Note(i, 1)
		}
	}
	if f.drift != nil {
		if len(f.drift.Own(i)) > 0 {
			f.drift.Changes().Note(i, 1)
		}
		f.drift.Forget(i)
	}
	f.Forget(i)
	if f.stored.Get(i) != 0 {
		f.Changes().Note(i, 1)
	}
}

func (f *flights) release(i policy.Item) {
	if a := f.awaiting; a != nil {
		a.own.Remove(i)
		a.others.Release(i)
		a.settled.Release(i)
		a.worth.Remove(i)
		a.ownWeight.Remove(i)
		a.shares.Remove(i)
	}
	if f.parts != nil {
		f.parts.Release(i)
	}
	if f.drift != nil {
		f.drift.Release(i)
	}
	f.Release(i)
}

func (a *awaiting) forget(i policy.Item) {
	a.every.Remove(a.own.Get(i))
	a.own.Remove(i)
	for _, source := range slices.Collect(a.others.Sources(i)) {
		a.setSpans(source, i, nil)
	}
	if a.settled.Own(i) != (inflight.Outcomes{}) {
		a.settled.Changes().Note(i, 1)
	}
	a.settled.Forget(i)
	a.reweigh(i)
}
