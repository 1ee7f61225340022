package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// ItemRemoving is a Learner that can forget items, so that what items that have ended were known for takes no more memory, nor room in the
// store.
//
// It then decides of those that are left as a learner would that had never met the others, but for what is not kept by item: windows, and
// how late payoffs are. A policy sees the problem that is left: as many items as there are (policy.Table.Len), and the payoffs of these
// alone (Fed, Weight, and the prior that these make).
type ItemRemoving interface {
	Learner
	// Forget drops all that is known of an item, of this partition and of other sources: its sums, what is in flight of it, and what has
	// become of its selections. It may be called once an item has been loaded, and once for each. The item's number is nobody's from then
	// on: it does not come back, in calls of any kind. The next Harvest deletes what is stored, and gives the memory back.
	Forget(i policy.Item)
	// PaidForgotten takes the place of Paid where the item was forgotten: only what is not kept by item changes.
	PaidForgotten(fb Feedback)
	// Count says how many items there are, once there are fewer than Grow has told of numbers.
	Count(items int)
}

var (
	_ ItemRemoving = (*Direct)(nil)
	_ ItemRemoving = (*Robust)(nil)
)

// Forget implements Forgetting.
func (d *Direct) Forget(i policy.Item) { d.forget(i) }

// PaidForgotten implements Forgetting.
func (d *Direct) PaidForgotten(Feedback) {}

// Forget implements Forgetting. What its payoffs told of the level of all items stays.
func (r *Robust) Forget(i policy.Item) {
	if own := r.items.own.At(i); len(own.Rows) > 0 {
		own.Rows = nil
		r.changes.Note(i, recentChanged)
	}
	r.items.others.Forget(i)
	r.forget(i)
}

// forget forgets an item. The table is told last: what else changes makes the item's evidence anew.
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

// Count implements Forgetting.
func (b *base) Count(items int) {
	b.table.CountItems(items)
	if b.attraction != nil {
		b.attraction.table.CountItems(items)
	}
}

// release gives back the memory of what was forgotten, of which nothing is left to be harvested.
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

// forget forgets an item.
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
		a.silentOf.Remove(i)
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

// forget forgets an item: what is awaited of it, and what has become of its selections.
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
	a.reckon(i)
}
