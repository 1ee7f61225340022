package delay

import "github.com/ranker-worker/ranker-worker/policy"

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

// Forget implements ItemRemoving. The item's contribution to the effects of features stays.
func (d *Direct) Forget(i policy.Item) { d.forget(i) }

func (d *Direct) PaidForgotten(Feedback) {}

// Forget implements ItemRemoving. The item's contribution to the common level of all items stays.
func (r *Robust) Forget(i policy.Item) { r.forget(i) }

// forget drops an item. The table comes last, since the other steps recompute the item's evidence.
func (b *base) forget(i policy.Item) {
	for _, c := range b.columns {
		c.forget(i)
	}
	b.table.Forget(i)
	if b.contexts != nil {
		b.contexts.forgotten(b.table, i)
	}
	b.forgotten = append(b.forgotten, i)
}

func (b *base) Count(items int) {
	b.eachTable(func(t *policy.Table, _ func(policy.Item) bool) { t.CountItems(items) })
}

// release frees the memory of forgotten items after their last harvest.
func (b *base) release() {
	for _, i := range b.forgotten {
		b.Release(i)
	}
	b.forgotten = b.forgotten[:0]
}

// Release implements Pooling.
func (b *base) Release(i policy.Item) {
	for _, c := range b.columns {
		c.Release(i)
	}
	b.table.Release(i)
}
