package lab

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// arrivals queues payoffs, and the ends of waits for payoffs that never come, by the decision before which they arrive: a ring of
// lists in impression order. It is as long as the longest delay, and its memory that of the most payoffs in flight at once.
type arrivals struct {
	slots   []slot // payoffs that arrive before decision t are at t modulo the length, a power of two
	flights []flight
	free    int32 // first unused flight; -1 if there is none
	// width is the number of positions kept with each payoff: 0 for learners without instances, else the order shown, and the
	// candidates if they or their found order change.
	width int
	lists []int32 // width per flight
	rows  []int8  // x per flight
	x     int     // length of a feature vector, the same for all
	shown int     // candidates per impression
	fixed []policy.Item
	// silence is the payoff assumed for a selection never paid; nil drops it.
	silence *float64
	clock   clock
}

type slot struct{ head, tail int32 }

type flight struct {
	ref         int64
	payoff      float64
	propensity  float64
	expected    float64
	item        policy.Item
	instance    int32
	segment     int32
	before      float64 // previous partial payoff
	undelivered int64   // impressions between the payoff and its delivery
	next        int32
	what        arrival
	inParts     bool // there was a partial payoff
	expects     bool // expected is known
	lost        bool // ranked to find the order of utilities
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

// newArrivals returns an empty ring. silence is the payoff assumed for a selection never paid; nil drops it. fixed are the
// candidates if they are always the same. recorded says that updates need the decision.
func newArrivals(candidates int, fixed []policy.Item, recorded bool, silence *float64, c clock) *arrivals {
	a := &arrivals{free: nobody, shown: candidates, fixed: fixed, silence: silence, clock: c}
	if recorded {
		a.width = candidates
		if fixed == nil {
			a.width = 2 * candidates
		}
	}
	a.resize(1, 0)
	return a
}

func (a *arrivals) resize(length int, now int64) {
	old := a.slots
	a.slots = make([]slot, length)
	for k := range a.slots {
		a.slots[k] = slot{nobody, nobody}
	}
	for k := range int64(len(old)) {
		t := now + k
		a.slots[t&int64(length-1)] = old[t&int64(len(old)-1)]
	}
}

// send queues feedback on decision now before decision at; the payoffs before now have been taken. It copies candidates and order.
func (a *arrivals) send(now, at, undelivered int64, fb *delay.Feedback, what arrival) {
	if away := at - now; away >= int64(len(a.slots)) {
		a.resize(1<<bits.Len64(uint64(away)), now)
	}
	f := a.free
	if f == nobody {
		f = int32(len(a.flights))
		a.flights = append(a.flights, flight{next: nobody})
		a.lists = append(a.lists, make([]int32, a.width)...)
		a.x = len(fb.X)
		a.rows = append(a.rows, fb.X...)
	}
	e := &a.flights[f]
	a.free = e.next
	*e = flight{ref: fb.Ref, payoff: fb.Payoff, propensity: fb.Propensity, item: fb.Item, instance: fb.Instance, before: fb.Before,
		next: nobody, what: what, inParts: fb.InParts, expected: fb.Expected, expects: fb.HasExpected, segment: fb.Segment,
		lost: len(fb.Undecided) > 0, undelivered: undelivered}
	copy(a.rows[int(f)*a.x:], fb.X)
	if a.width > 0 {
		kept := a.lists[int(f)*a.width:][:a.width]
		copy(kept, fb.Order)
		copy(kept[a.shown:], fb.Candidates) // nothing if they are fixed
	}
	s := &a.slots[at&int64(len(a.slots)-1)]
	if s.tail == nobody {
		s.head = f
	} else {
		a.flights[s.tail].next = f
	}
	s.tail = f
}

// pay delivers the feedback that arrives before decision now, in impression order.
func (a *arrivals) pay(now int64, l delay.Learner) {
	s := &a.slots[now&int64(len(a.slots)-1)]
	for f := s.head; f != nobody; {
		e := &a.flights[f]
		fb := delay.Feedback{Ref: e.ref, Item: e.item, Payoff: e.payoff, Propensity: e.propensity, Instance: e.instance,
			Began: a.clock.at(e.ref), Age: a.clock.at(now - e.undelivered - e.ref), Before: e.before, InParts: e.inParts,
			Expected: e.expected, HasExpected: e.expects, X: a.rows[int(f)*a.x:][:a.x], Segment: e.segment}
		if a.width > 0 && (e.instance >= 0 || e.what == unselected && !e.lost) { // burn-in decisions have no instance, and feed nothing
			kept := a.lists[int(f)*a.width:][:a.width]
			fb.Order = kept[:a.shown]
			if fb.Candidates = a.fixed; fb.Candidates == nil {
				fb.Candidates = kept[a.shown:]
			}
		}
		a.feed(l, &fb, e.what)
		next := e.next
		e.next, a.free = a.free, f
		f = next
	}
	*s = slot{nobody, nobody}
}

func (a *arrivals) feed(l delay.Learner, fb *delay.Feedback, what arrival) {
	switch {
	case what == unselected:
		l.Unselected(*fb)
	case what == partial:
		l.Partial(*fb)
	case what == whole:
		l.Paid(*fb)
	case a.silence != nil:
		fb.Payoff, fb.Defaulted = *a.silence, true
		l.Paid(*fb)
	default:
		l.Expired(*fb)
	}
}
