package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// retention says how long the items of a learner are kept.
//
// Each impression keeps its items until LearnerConfig.ItemRetention after the time from which its own deadlines are counted, and at least
// until its payoff deadline, to the next full period. An item whose time is over, because the watermark is past it, is dropped: from memory,
// and by the next seal from the store. If it comes again it gets a new number.
//
// Nothing refers to an item by its number then, but for impressions whose payoff deadline is past (the last that carried it kept it until
// then, at least) and that the walk has not come by yet. All of these end with the walk, or before the next record of theirs is looked at
// (settle): nothing can join them any more. What their end would tell of the item would have been forgotten with it, had the walk been
// faster, and is not told (tells, delay.Forgetting's PaidForgotten). So what becomes of items does not depend on how far the walk has come, as nothing does.
//
// Which items are dropped when is a function of the steps, for a replay has to come to the same numbers: behind each step, at its
// watermark, the first few that are due. That watermark may have risen in one go or in many is the same then, and so is where a checkpoint
// was cut off.
type retention struct {
	keep  int64 // milliseconds; 0: for ever
	width int64 // of a period, in milliseconds
	// stored is the period up to which all stored items are kept at least: those that were stored before any was dropped count as carried
	// when the first state was loaded that drops them, for nobody knows when they were.
	stored uint32
	// Of the period that was past last: whether all items that were due have been dropped, and else, below which number.
	past   uint32
	swept  bool
	cursor policy.Item
}

const (
	periodsKept = 8    // an item is kept by so much of its retention too long, at the most; and written as often, at the most
	leastPeriod = 1000 // ms: then periods are numbers of 32 bits until 2106
	endedAtOnce = 256  // items that a step drops at the most, so that none takes long
)

func newRetention(keep int64) retention {
	return retention{keep: keep, width: max(keep/periodsKept, leastPeriod)}
}

// period is the first that is not over before a time.
func (r *retention) period(t event.Millis) uint32 {
	if t <= 0 || r.keep == 0 {
		return 0
	}
	return uint32(min((t-1)/r.width+1, math.MaxUint32))
}

// over is the last period that is over at a watermark.
func (r *retention) over(watermark event.Millis) uint32 {
	return uint32(min(max(watermark-1, 0)/r.width, math.MaxUint32-1))
}

// until is up to when an item of a period is kept.
func (r *retention) until(period uint32) event.Millis { return int64(period) * r.width }

// carry notes that an item, which the process knows by this number, is to be kept up to a period.
func (c *itemIndex) carry(process int32, until uint32) {
	if o := c.ours.Get(process); o.next > 0 && o.until < until {
		c.ours.At(process).until = until
		c.changes.Note(o.next-1, itemNamed)
	}
}

// untilOf is up to when an item is kept, as it is stored.
func (c *itemIndex) untilOf(i policy.Item) event.Millis {
	return c.retention.until(c.ours.Get(c.inProcess(i)).until)
}

// due appends to dst the first items that are due at a watermark, those of the lowest numbers.
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

// carried notes that an impression has carried items, which the process knows by these numbers: one that began, and can be paid until then.
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

// endItems drops items whose time is over, a few at a time.
func (m *Machine) endItems() {
	for _, l := range m.learners {
		if l.gone || l.items.retention.keep == 0 {
			continue
		}
		if m.scratch.due = l.items.due(m.time.watermark, m.scratch.due[:0]); len(m.scratch.due) > 0 {
			m.endThese(l, m.scratch.due)
		}
	}
}

func (m *Machine) endThese(l *learner, items []policy.Item) {
	f := l.delay.(delay.ItemRemoving) // or there is no retention
	for _, i := range items {
		m.segments.loose += itemWeight + int64(len(l.items.name(i)))
		f.Forget(i)
		l.drops.forget(i)
		l.items.drop(i)
	}
	f.Count(l.items.len())
	l.ended += int64(len(items))
	l.changed = true
}

// tells tells whether the learner still knows the item that was selected from the current entry, if one was.
func (m *Machine) tells(l *learner) bool {
	e := &m.cur.entry
	return e.selected < 0 || l.items.has(e.items[e.selected])
}

// retained says how long items are kept that are stored, and what of that the learner's line says.
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

// storedItems is what a learner's line says of its items.
type storedItems struct {
	next  policy.Item  // the number that the next new item gets at least; 0: it is that of the items themselves
	keeps bool         // items are dropped
	kept  event.Millis // up to when those are kept at least that were stored before they were; 0: there were none
	any   bool         // there are items, not of the line
}
