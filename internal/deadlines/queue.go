// Package deadlines holds a queue of future events.
package deadlines

import "container/heap"

// Queue is a queue of future events, in the order of time, then of addition. The zero value is empty. It is not safe for concurrent use.
type Queue[E any] struct {
	heap  byTime[E]
	added uint64
}

// Add adds an event at a time in milliseconds.
func (q *Queue[E]) Add(at int64, event E) {
	heap.Push(&q.heap, due[E]{at, q.added, event})
	q.added++
}

func (q *Queue[E]) Len() int { return len(q.heap) }

// Next returns the time of the first event; false if there is none.
func (q *Queue[E]) Next() (at int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Take removes and returns the first event if it is due now; otherwise ok is false.
func (q *Queue[E]) Take(now int64) (event E, at int64, ok bool) {
	if len(q.heap) == 0 || q.heap[0].at > now {
		return event, 0, false
	}
	d := heap.Pop(&q.heap).(due[E])
	return d.event, d.at, true
}

type due[E any] struct {
	at    int64
	added uint64
	event E
}

type byTime[E any] []due[E]

func (h byTime[E]) Len() int      { return len(h) }
func (h byTime[E]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h byTime[E]) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].added < h[j].added
}
func (h *byTime[E]) Push(x any) { *h = append(*h, x.(due[E])) }
func (h *byTime[E]) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = due[E]{} // let go of the event
	*h = old[:len(old)-1]
	return last
}
