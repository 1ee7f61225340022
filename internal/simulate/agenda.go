package simulate

import "container/heap"

// Agenda is a queue of future events, in the order of time, then of addition. The zero value is empty. It is not safe for concurrent use.
type Agenda[E any] struct {
	queue queue[E]
	added uint64
}

// Add adds an event at a time in milliseconds.
func (a *Agenda[E]) Add(at int64, event E) {
	heap.Push(&a.queue, due[E]{at, a.added, event})
	a.added++
}

func (a *Agenda[E]) Len() int { return len(a.queue) }

// Next returns the time of the first event; false if there is none.
func (a *Agenda[E]) Next() (at int64, ok bool) {
	if len(a.queue) == 0 {
		return 0, false
	}
	return a.queue[0].at, true
}

// Take removes and returns the first event if it is due now; otherwise ok is false.
func (a *Agenda[E]) Take(now int64) (event E, at int64, ok bool) {
	if len(a.queue) == 0 || a.queue[0].at > now {
		return event, 0, false
	}
	d := heap.Pop(&a.queue).(due[E])
	return d.event, d.at, true
}

type due[E any] struct {
	at    int64
	added uint64
	event E
}

type queue[E any] []due[E]

func (q queue[E]) Len() int      { return len(q) }
func (q queue[E]) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue[E]) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].added < q[j].added
}
func (q *queue[E]) Push(x any) { *q = append(*q, x.(due[E])) }
func (q *queue[E]) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = due[E]{} // let go of the event
	*q = old[:len(old)-1]
	return last
}
