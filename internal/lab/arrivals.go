package lab

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// arrivals queues feedback by the impression before which it arrives: a ring of lists in the order of sending.
type arrivals struct {
	// slots are a power of two; feedback before impression t is in slot t modulo their number. Unused capacity keeps buffers for reuse.
	slots    [][]flight
	recorded bool     // learners' updates need candidates and order
	fixed    bool     // candidates are always the same
	silence  *float64 // payoff assumed for a selection never paid; nil drops it
	last     int64    // the last impression; later feedback is dropped
	clock    clock
}

// flight is feedback under way.
type flight struct {
	fb          delay.Feedback
	undelivered int64 // impressions between the payoff and its delivery
	what        arrival
	x           []int8 // of fb, like the following
	order       []int32
	candidates  []policy.Item
}

// arrival is a kind of feedback about a selection.
type arrival uint8

const (
	unpaid     arrival = iota // no payoff will come
	whole                     // the complete payoff
	partial                   // a partial payoff
	unselected                // no selection
)

const nobody = -1

// send queues feedback in impression now to arrive before a later one. Feedback that arrived before now has been paid. It copies slices.
func (a *arrivals) send(now, at, undelivered int64, fb *delay.Feedback, what arrival) {
	if at > a.last {
		return
	}
	if away := at - now; away >= int64(len(a.slots)) {
		a.resize(1<<bits.Len64(uint64(away)), now)
	}
	slot := &a.slots[at&int64(len(a.slots)-1)]
	if n := len(*slot); n < cap(*slot) {
		*slot = (*slot)[:n+1]
	} else {
		*slot = append(*slot, flight{})
	}
	f := &(*slot)[len(*slot)-1]
	f.fb, f.undelivered, f.what = *fb, undelivered, what
	f.x = append(f.x[:0], fb.X...)
	f.fb.X, f.fb.Order, f.fb.Candidates, f.fb.Undecided = f.x, nil, nil, nil
	f.fb.Utility, f.fb.HasUtility = 0, false
	// Impressions whose order of utilities is not certain feed nothing.
	if a.recorded && len(fb.Undecided) == 0 && (fb.Instance >= 0 || what == unselected) {
		f.order = append(f.order[:0], fb.Order...)
		f.fb.Order, f.fb.Candidates = f.order, fb.Candidates
		if !a.fixed {
			f.candidates = append(f.candidates[:0], fb.Candidates...)
			f.fb.Candidates = f.candidates
		}
	}
}

func (a *arrivals) resize(length int, now int64) {
	old := a.slots
	a.slots = make([][]flight, length)
	for t := now; t < now+int64(len(old)); t++ {
		a.slots[t&int64(length-1)] = old[t&int64(len(old)-1)]
	}
}

// pay delivers the feedback that arrives before impression now.
func (a *arrivals) pay(now int64, l delay.Learner) {
	if len(a.slots) == 0 {
		return
	}
	slot := &a.slots[now&int64(len(a.slots)-1)]
	for k := range *slot {
		f := &(*slot)[k]
		f.fb.Age = a.clock.at(now - f.undelivered - f.fb.Ref)
		a.feed(l, f)
	}
	*slot = (*slot)[:0]
}

func (a *arrivals) feed(l delay.Learner, f *flight) {
	switch {
	case f.what == unselected:
		l.Unselected(f.fb)
	case f.what == partial:
		l.Partial(f.fb)
	case f.what == whole:
		l.Paid(f.fb)
	case a.silence != nil:
		f.fb.Payoff, f.fb.Defaulted = *a.silence, true
		l.Paid(f.fb)
	default:
		l.Expired(f.fb)
	}
}
