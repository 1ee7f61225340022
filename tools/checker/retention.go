package checker

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// What a worker does with items that no impression carries any more: an eighth of its retention is a period, of a second at the least; each
// impression keeps its items to the end of the period in which it has been over for the retention, and can be paid no more; and behind each
// step at most so many items are dropped that are due, those first that were met first.
const (
	periodsKept = 8
	leastPeriod = 1000
	endAtOnce   = 256
)

// keptFold is up to when the items of a learner are kept, as far as that can be told.
type keptFold struct {
	keep, width int64
	sure        bool                    // this is how it was all the time
	kept        event.Millis            // up to when those are kept that were stored before any was dropped; 0: there were none
	until       map[uint32]event.Millis // of the items that are there
	order       []uint32                // in which they were met
	next        event.Millis            // nothing is due before; it may be earlier than what is
	offset      int64                   // of the newest impression
}

// followKept begins to fold up to when items are kept, where any can end.
func (lf *learnerFold) followKept(f *fold) {
	var least int64
	same := lf.always && lf.reset == nil && lf.imported == nil
	for _, v := range lf.decided {
		keep := v.ItemRetention.Milliseconds()
		same = same && keep == lf.decided[0].ItemRetention.Milliseconds()
		if keep > 0 && (least == 0 || keep < least) {
			least = keep
		}
	}
	if least == 0 {
		return
	}
	lf.kept = &keptFold{keep: least, width: max(least/periodsKept, leastPeriod), until: map[uint32]event.Millis{}, offset: -1}
	if kept, known := f.state.kept[lf.name]; known && same && !f.partial {
		lf.kept.sure, lf.kept.kept = true, kept
	}
}

// carry notes that an impression has carried items, in the order in which the worker met them.
func (k *keptFold) carry(items []uint32, l *life, began event.Millis) {
	k.offset = max(k.offset, l.offset)
	until := max(began+k.keep, l.payDeadline)
	if over := until % k.width; over > 0 {
		until += k.width - over
	}
	for _, i := range items {
		if _, there := k.until[i]; !there {
			k.order = append(k.order, i)
		}
		k.until[i] = max(k.until[i], until)
	}
}

// endItems drops items that are due, behind a step.
func (f *fold) endItems() {
	for _, lf := range f.learners {
		if k := lf.kept; k != nil && f.watermark > k.next {
			lf.endDue(f, k)
		}
	}
}

// doubtKept ends what may have ended at the last, where it is not known behind which steps.
func (f *fold) doubtKept() {
	for _, lf := range f.learners {
		if k := lf.kept; k != nil && (!k.sure || f.unordered > 0 || f.partial) {
			k.sure = false
			lf.endDue(f, k)
		}
	}
}

func (lf *learnerFold) endDue(f *fold, k *keptFold) {
	sure := k.sure && f.unordered == 0 && !f.partial
	var due []uint32
	k.next = f.watermark + k.keep
	for _, i := range k.order {
		u := k.until[i]
		if f.watermark > u {
			if due = append(due, i); k.kept > 0 {
				sure = sure && u > k.kept+k.width // else it is not known up to when it was kept
			}
			continue
		}
		k.next = min(k.next, u)
	}
	if len(due) > endAtOnce {
		if k.next = 0; sure {
			due = due[:endAtOnce]
		}
	}
	for _, i := range due {
		delete(k.until, i)
		lf.end(i, sure, k.offset)
	}
	if len(due) > 0 {
		k.order = slices.DeleteFunc(k.order, func(i uint32) bool { _, there := k.until[i]; return !there })
	}
}

// end makes an item one that the learner has never met, as does what becomes of it of impressions up to an offset.
func (lf *learnerFold) end(i uint32, sure bool, offset int64) {
	it := lf.item(i)
	if lf.context != nil {
		lf.context.forget(i, sure)
	}
	*it = itemFold{unknown: it.unknown || !sure, ended: offset + 1}
	if lf.silence != nil {
		delete(lf.silence.settled, i)
	}
	if lf.drift != nil {
		delete(lf.drift.items, i)
	}
	if lf.lately != nil {
		delete(lf.lately.items, i)
	}
	delete(lf.attraction, i)
}

// checkKept: what has ended is not stored, and what is there is kept as long as the impressions say that have carried it.
func (lf *learnerFold) checkKept(f *fold) {
	k := lf.kept
	if k == nil || !k.sure || f.unordered > 0 || f.partial || !lf.shares() {
		f.out.open(itemsKept)
		return
	}
	for i := range lf.items {
		it, name := &lf.items[i], f.items.names[i]
		stored, there := lf.stored.items[name]
		until, live := k.until[uint32(i)]
		switch {
		case it.unknown:
			f.out.open(itemsKept)
		case !live && it.ended > 0:
			if !f.out.ok(itemsKept, !there) {
				f.out.breach(itemsKept, lf.name+": "+name, "nothing: it has ended", fmt.Sprintf("number %d", stored.number))
			}
		case live && there && until > k.kept+k.width:
			equal(f.out, itemsKept, lf.name+": "+name, until, stored.until)
		}
	}
}

// shares tells whether a learner meets items with its own impressions alone, and not from other partitions.
func (lf *learnerFold) shares() bool {
	return !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Delay != config.Direct || v.Silence == config.Waits || v.Policy.Kind() == nil || v.Policy.Kind().Rank == nil
	})
}

// hasEnded tells whether the number that an entry has for an item was dropped: the entry's payoff deadline is past then.
func (lf *learnerFold) hasEnded(f *fold, number int32, e *entry) bool {
	return lf.kept != nil && lf.number(number) == noItem && int64(number) < lf.stored.next && f.state.watermark > e.payDeadline
}

// takeEnded tells of a payoff of an item that has ended by then: what is not kept by item remains.
func (x *latelyFold) takeEnded(l *life, began event.Millis, payoff float64) {
	x.front = max(x.front, began)
	if len(l.expected) > 0 {
		b := x.grid.BucketOf(began, x.pass)
		x.levels[b] = x.levels[b].Add(surpriseRow{1, inParts(payoff) - inParts(l.expected[l.selected])})
	}
}
