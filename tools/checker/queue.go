package checker

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// storedQueue is a stored QPM-D queue: payoffs from head to tail, each in a field.
type storedQueue struct {
	head, tail int64
	known      bool // head and tail are stored
	fields     map[int64]float64
	payoffs    []float64 // in order
}

func (s *storedLearner) queue(item int64) *storedQueue {
	if s.queues == nil {
		s.queues = map[int64]*storedQueue{}
	}
	q := s.queues[item]
	if q == nil {
		q = &storedQueue{fields: map[int64]float64{}}
		s.queues[item] = q
	}
	return q
}

func (s *storedLearner) loadPayoff(field, value string) error {
	item, index, found := strings.Cut(field, ":")
	i, err := strconv.ParseInt(item, 10, 32)
	if err != nil || !found {
		return fmt.Errorf("field is not <item>:<index>: %w", err)
	}
	k, err := strconv.ParseInt(index, 10, 64)
	if err != nil {
		return fmt.Errorf("field is not <item>:<index>: %w", err)
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("value is no payoff within 0 and 1: %w", err)
	}
	s.queue(i).fields[k] = v
	return nil
}

func (s *storedLearner) loadQueue(item int64, value string) error {
	at, err := numbers(value, " ", 2, 0)
	if err != nil || at[0] > at[1] {
		return fmt.Errorf("value is not <head> <tail>: %w", err)
	}
	q := s.queue(item)
	q.head, q.tail, q.known = at[0], at[1], true
	return nil
}

// complete sorts the payoffs. It returns false unless each index from head to tail has exactly one.
func (q *storedQueue) complete(out *findings, learner string, number int64, item string) bool {
	ok := q.known && int64(len(q.fields)) == q.tail-q.head
	for k := q.head; ok && k < q.tail; k++ {
		v, there := q.fields[k]
		ok = there
		q.payoffs = append(q.payoffs, v)
	}
	out.must(qpmdQueue, ok, learner+": "+item, say("payoffs %d to %d, and no other", q.head, q.tail),
		say("%d payoffs of item %d", len(q.fields), number))
	return ok
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
	f := &queueFold{stored: q, values: map[uint64]*valueFold{}, last: make([]float64, len(q.payoffs))}
	for _, p := range q.payoffs {
		v := f.values[math.Float64bits(p)]
		if v == nil {
			v = &valueFold{}
			f.values[math.Float64bits(p)] = v
		}
		v.waiting++
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
	if f.partial || lf.unknown {
		return
	}
	for i := range lf.items {
		it := &lf.items[i]
		if it.queue == nil || it.unknown {
			continue
		}
		it.queue.check(f, lf.name+": "+f.items.names[i])
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
	item, ref, found := strings.Cut(lf.stored.hold, " ")
	i, err := strconv.ParseInt(item, 10, 32)
	at, errRef := strconv.ParseInt(ref, 10, 64)
	if !f.out.must(qpmdHold, found && err == nil && errRef == nil && lf.stored.names[i] != "", lf.name, "<item> <offset of an impression>",
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
	for _, e := range f.state.entries {
		if e.kind == pending && e.offset == at && f.state.learners[e.learner] == lf.name {
			f.out.must(qpmdHold, e.selected >= 0 && int64(e.items[e.selected]) == i, name,
				say("it was selected from the impression at offset %d", at), "it was not")
			return
		}
	}
	f.out.broken(qpmdHold, name, fmt.Sprintf("a pending impression at offset %d, where the hold began", at), "none")
}
