package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// retention says how long a learner's items are kept.
//
// An impression keeps its items until ItemRetention after the time from which its deadlines are counted, and at least until its payoff
// deadline, rounded up to a period. An item past that is dropped from memory, and by the next seal from the store. If it comes again it
// gets a new number.
//
// Only impressions past their payoff deadline, not yet reached by the walk, then still refer to the number. They end with the walk, or
// before their next record is processed (settle). Their end does not teach about the dropped item (keepsSelected, delay.Forgetting's
// PaidForgotten): a faster walk would have made the learner forget it. So dropped items do not depend on the walk's progress.
//
// Drops are a function of the steps, so that a replay computes the same numbers: after each step, at its watermark, the first few due items
// are dropped. How the watermark rose, and where a checkpoint was cut off, makes no difference.
type retention struct {
	keep  int64 // milliseconds; 0: for ever
	width int64 // of a period, in milliseconds
	// stored is the period until which items are kept that were stored before any was dropped: as if carried when a state was first loaded
	// with retention.
	stored uint32
	// Of the last past period: all due items were dropped, or those below cursor.
	past   uint32
	swept  bool
	cursor policy.Item
}

const (
	periodsKept = 8    // an item is kept too long, and written too often, by at most this part of its retention
	leastPeriod = 1000 // ms: periods fit into 32 bits until 2106
	endedAtOnce = 256  // the most items that a step drops
)

func newRetention(keep int64) retention {
	return retention{keep: keep, width: max(keep/periodsKept, leastPeriod)}
}

// period returns the first period that is not over before a time.
func (r *retention) period(t event.Millis) uint32 {
	if t <= 0 || r.keep == 0 {
		return 0
	}
	return uint32(min((t-1)/r.width+1, math.MaxUint32))
}

// over returns the last period that is over at a watermark.
func (r *retention) over(watermark event.Millis) uint32 {
	return uint32(min(max(watermark-1, 0)/r.width, math.MaxUint32-1))
}

func (r *retention) until(period uint32) event.Millis { return int64(period) * r.width }

// carry keeps an item, given by its process-wide number, up to a period.
func (c *itemIndex) carry(process int32, until uint32) {
	if o := c.ours.Get(process); o.next > 0 && o.until < until {
		c.ours.At(process).until = until
		c.changes.Note(o.next-1, itemNamed)
	}
}

func (c *itemIndex) untilOf(i policy.Item) event.Millis {
	return c.retention.until(c.ours.Get(c.inProcess(i)).until)
}

// due appends the first items that are due at a watermark, by ascending number.
func (c *itemIndex) due(watermark event.Millis, dst []policy.Item) []policy.Item {
	r := &c.retention
	past := r.over(watermark)
	if past < r.stored || past == r.past && r.swept {
		return dst
	}
	if past > r.past {
		r.past, r.swept, r.cursor = past, false, 0
	}
	for i := range c.from(r.cursor) {
		if c.ours.Get(c.inProcess(i)).until > past {
			continue
		}
		if len(dst) == endedAtOnce {
			r.cursor = i
			return dst
		}
		dst = append(dst, i)
	}
	r.swept = true
	return dst
}

// carried keeps the items of an impression, given by process-wide numbers, that began and can be paid until payoffDeadline.
func (l *learner) carried(process []int32, began, payoffDeadline event.Millis) {
	r := &l.items.retention
	if r.keep == 0 {
		return
	}
	until := r.period(max(later(began, r.keep), payoffDeadline))
	for _, p := range process {
		l.items.carry(p, until)
	}
}

func (l *learner) endItems(items []policy.Item, g *segments) {
	f := l.delay.(delay.ItemRemoving) // retention requires it
	for _, i := range items {
		g.loose += itemWeight + int64(len(l.items.name(i)))
		f.Forget(i)
		l.observer.drops.forget(i)
		l.items.drop(i)
	}
	f.Count(l.items.len())
	l.ended += int64(len(items))
	l.changed = true
}

// keepsSelected reports whether the learner still has an entry's selected item. It is true without a selection.
func (l *learner) keepsSelected(e *entry) bool {
	return e.selected < 0 || l.items.has(e.items[e.selected])
}

// retained returns the retention of loaded items, and updates the learner's line.
func (l *learner) retained(watermark event.Millis) retention {
	r := newRetention(l.cfg.ItemRetention)
	switch {
	case r.keep == 0:
		l.changed = l.changed || l.stored.keeps
		l.stored.keeps, l.stored.kept = false, 0
	case !l.stored.keeps:
		l.changed = true
		l.stored.keeps, l.stored.kept = true, 0
		if l.stored.any {
			l.stored.kept = r.until(r.period(later(watermark, r.keep)))
		}
	}
	r.stored = r.period(l.stored.kept)
	return r
}

// storedItems is the part of a learner's line about items.
type storedItems struct {
	next  policy.Item  // least number of the next new item; 0: the items imply it
	keeps bool         // items are dropped
	kept  event.Millis // until when items are kept that were stored without retention; 0: there were none
	any   bool         // there are items; not in the line
}
