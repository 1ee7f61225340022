package checker

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// storedQueue is a stored QPM-D queue: at least one payoff, each in a field.
type storedQueue struct {
	fields  map[int64]float64 // by index
	head    int64             // the least index
	payoffs []float64         // in order
}

// complete sorts the payoffs. It returns false unless their indices have no gaps.
func (q *storedQueue) complete(out *findings, learner string, number int64, item string) bool {
	indices := slices.Sorted(maps.Keys(q.fields))
	q.head = indices[0]
	for _, k := range indices {
		q.payoffs = append(q.payoffs, q.fields[k])
	}
	last := indices[len(indices)-1]
	return out.must(qpmdQueue, last-q.head == int64(len(indices))-1, learner+": "+item, say("payoffs %d to %d, and no other", q.head, last),
		say("%d payoffs of item %d", len(indices), number))
}

// queueFold compares a stored queue with the payoffs fed. It keeps as many as wait,
// and the number of each waiting value, so its memory does not grow with the log.
type queueFold struct {
	stored *storedQueue
	values map[uint64]*valueFold // waiting ones, by the bits of the payoff
	last   []float64             // the last payoffs, a ring
	next   int
	walked bool // some came with the expiry walk, in unknown order
}

type valueFold struct{ waiting, taken int64 }

func newQueueFold(q *storedQueue) *queueFold {
	f := &queueFold{stored: q, last: make([]float64, len(q.payoffs))}
	for _, p := range q.payoffs {
		made(&f.values, math.Float64bits(p)).waiting++
	}
	return f
}

func (q *queueFold) take(p float64, walked bool) {
	if v := q.values[math.Float64bits(p)]; v != nil {
		v.taken++
	}
	q.walked = q.walked || walked
	if len(q.last) > 0 {
		q.last[q.next] = p
		q.next = (q.next + 1) % len(q.last)
	}
}

// checkQueues checks that the waiting payoffs of an item came, and came last: payoffs are fed in order of arrival.
func (lf *learnerFold) checkQueues(f *fold) {
	if !lf.determined(f, true) {
		return
	}
	for i := range lf.items {
		if it := &lf.items[i]; it.queue != nil && !it.unknown {
			it.queue.check(f, lf.name+": "+f.items.names[i])
		}
	}
}

func (q *queueFold) check(f *fold, name string) {
	for bits, v := range q.values {
		f.out.must(qpmdQueue, v.taken >= v.waiting, name, say("%d payoffs of %v taken in", v.taken, math.Float64frombits(bits)),
			say("%d waiting", v.waiting))
	}
	if q.walked {
		f.out.open(qpmdOrder)
		return
	}
	for k, p := range q.stored.payoffs {
		due := q.last[(q.next+k)%len(q.last)]
		f.out.must(qpmdOrder, due == p, say("%s, payoff %d waiting", name, q.stored.head+int64(k)), due, p)
	}
}

// checkHold checks that BASE waits for an item without waiting payoffs, since the selection of a pending impression.
func (lf *learnerFold) checkHold(f *fold) {
	if lf.stored.hold == "" {
		f.out.ok(qpmdHold, true)
		return
	}
	w := split(lf.stored.hold, " ")
	i, at := int64(w.number(0)), w.int(anyInt)
	if !f.out.must(qpmdHold, w.end() == nil && lf.stored.names[i] != "", lf.name, "<item> <offset of an impression>",
		lf.stored.hold) {
		return
	}
	name := lf.name + ": " + lf.stored.name(i)
	if q := lf.stored.queues[i]; q != nil {
		equal(f.out, qpmdHold, name+": payoffs waiting", 0, len(q.payoffs))
	}
	if !f.state.complete || !lf.always {
		f.out.open(qpmdHold)
		return
	}
	for _, e := range lf.pending.all {
		if e.offset == at {
			f.out.must(qpmdHold, e.selected >= 0 && e.item() == i, name,
				say("it was selected from the impression at offset %d", at), "it was not")
			return
		}
	}
	f.out.broken(qpmdHold, name, fmt.Sprintf("a pending impression at offset %d, where the hold began", at), "none")
}
