package checker

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// A worker's retention: a period is 1/8 of the retention, and has up to 1024 ticks of a second or more. Each page of names is due at one tick of a
// period, by its number and the partition's. An impression keeps an item until its page is first due after its retention is over and it can
// no longer be paid. Each step drops at most endAtOnce due items, those met first.
const (
	periodsKept = 8
	phases      = 1024
	leastTick   = 1000
	endAtOnce   = 256
)

// keptFold holds until when a learner's items are kept, as far as that can be computed.
type keptFold struct {
	keep, tick int64
	period     int64                   // in ticks
	partition  int64                   // its number
	sure       bool                    // it was so all the time
	kept       event.Millis            // until when items are kept that were stored before any was dropped; 0: there were none
	until      map[uint32]event.Millis // by item
	number     map[uint32]int64        // likewise
	met        int64                   // the next item's number
	order      []uint32                // in which they were first met
	next       event.Millis            // nothing is due before; may be earlier than the first due time
	offset     int64                   // of the newest impression
}

// due returns the first time from t on at which the page of an item's number is due.
func (k *keptFold) due(number int64, t event.Millis) event.Millis {
	tick := (t + k.tick - 1) / k.tick
	phase := (number/namesInPage + k.partition - tick) % k.period
	return (tick + (phase+k.period)%k.period) * k.tick
}

func (k *keptFold) width() event.Millis { return k.period * k.tick }

// followKept begins to fold retention, if items can end.
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
	tick := max(least/(periodsKept*phases), leastTick)
	lf.kept = &keptFold{keep: least, tick: tick, period: max(least/periodsKept/tick, 1), partition: int64(f.out.partition),
		until: map[uint32]event.Millis{}, number: map[uint32]int64{}, offset: -1}
	if kept, known := f.state.kept[lf.name]; known && same && !f.partial {
		lf.kept.sure, lf.kept.kept = true, kept
	}
}

// carry notes an impression's items, in the worker's order.
func (k *keptFold) carry(items []uint32, l *life, began event.Millis) {
	k.offset = max(k.offset, l.offset)
	least := max(began+k.keep, l.payDeadline)
	for _, i := range items {
		if _, there := k.until[i]; !there {
			k.order = append(k.order, i)
			k.number[i] = k.met
			k.met++
		}
		k.until[i] = max(k.until[i], k.due(k.number[i], least))
	}
}

// endItems drops due items after a step.
func (f *fold) endItems() {
	for _, lf := range f.learners {
		if k := lf.kept; k != nil && f.watermark > k.next {
			lf.endDue(f, k)
		}
	}
}

// doubtKept ends items that may have ended, if it is not known after which steps.
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
		if !sure { // nor is its number
			u -= k.width()
		}
		if f.watermark > u {
			if due = append(due, i); k.kept > 0 && u <= k.kept+k.width() {
				sure, k.sure = false, false // it is not known until when it was kept
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
		delete(k.number, i)
		lf.end(i, sure, k.offset)
	}
	if len(due) > 0 {
		k.order = slices.DeleteFunc(k.order, func(i uint32) bool { _, there := k.until[i]; return !there })
	}
}

// end drops an item, and its outcomes from impressions up to an offset.
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
	if lf.recency != nil {
		delete(lf.recency.items, i)
	}
	delete(lf.attraction, i)
}

// checkKept checks that ended items are not stored, and that others are kept as long as their impressions say.
func (lf *learnerFold) checkKept(f *fold) {
	k := lf.kept
	if k == nil || !k.sure || f.unordered > 0 || f.partial {
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
			f.out.must(itemsKept, !there, lf.name+": "+name, "nothing: it has ended", say("number %d", stored.number))
		case live && there && until > k.kept+k.width():
			equal(f.out, itemsKept, lf.name+": "+name, until, stored.until)
		}
	}
}
