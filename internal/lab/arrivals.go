package lab

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// arrivals are the payoffs on their way, and the ends of waits for those that never come: a ring of the coming decisions,
// each with a list of what is told before it, in impression order. It is as long as the longest delay so far, and its memory is that of the most payoffs
// that were ever on their way at once; nothing is allocated after that.
type arrivals struct {
	slots   []slot // the payoffs before decision t are at t modulo the length, a power of two
	flights []flight
	free    int32 // the first of the unused flights; -1 for none
	// width is how many positions are kept with each payoff: nothing for learners without instances, the order shown, and
	// the candidates too where they, or the order that was found of their utilities, change.
	width int
	lists []int32 // width for each of flights
	rows  []int8  // x for each of flights
	x     int     // its length; the same for all
	shown int     // candidates per impression
	fixed []policy.Item
	// silence is what a selection that is never paid counts as; nil for nothing.
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
	before      float64 // what was told of the payoff before
	undelivered int64   // for how many impressions the payoff lay before it was told
	next        int32
	what        arrival
	inParts     bool // something was
	expects     bool // expected is known
	lost        bool // it was ranked so as to find the order
}

// arrival is what is told of a selection.
type arrival uint8

const (
	unpaid     arrival = iota // no payoff will come
	whole                     // its payoff
	partial                   // a part of it
	unselected                // nobody selected
)

const nobody = -1

// newArrivals makes the ring. A selection that is never paid counts as silence, and is dropped with nil. With fixed, candidates
// are the same in each impression; with recorded, the learner's updates need the decision.
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

// resize makes room for delays below length; decision now is the next one.
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

// send puts something on its way that is told before decision at; now is the decision that it belongs to, whose payoffs have
// been taken. A payoff may have lain undelivered for a while by then. Of candidates and order copies are kept.
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
		copy(kept[a.shown:], fb.Candidates) // nothing where they are fixed
	}
	s := &a.slots[at&int64(len(a.slots)-1)]
	if s.tail == nobody {
		s.head = f
	} else {
		a.flights[s.tail].next = f
	}
	s.tail = f
}

// pay hands over what arrives before decision now, in impression order.
func (a *arrivals) pay(now int64, l delay.Learner) {
	s := &a.slots[now&int64(len(a.slots)-1)]
	for f := s.head; f != nobody; {
		e := &a.flights[f]
		fb := delay.Feedback{Ref: e.ref, Item: e.item, Payoff: e.payoff, Propensity: e.propensity, Instance: e.instance,
			Began: a.clock.at(e.ref), Age: a.clock.at(now - e.undelivered - e.ref), Before: e.before, InParts: e.inParts,
			Expected: e.expected, HasExpected: e.expects, X: a.rows[int(f)*a.x:][:a.x], Segment: e.segment}
		if a.width > 0 && (e.instance >= 0 || e.what == unselected && !e.lost) { // those of a burn-in have none, and nothing is fed with them
			kept := a.lists[int(f)*a.width:][:a.width]
			fb.Order = kept[:a.shown]
			if fb.Candidates = a.fixed; fb.Candidates == nil {
				fb.Candidates = kept[a.shown:]
			}
		}
		a.tell(l, &fb, e.what)
		next := e.next
		e.next, a.free = a.free, f
		f = next
	}
	*s = slot{nobody, nobody}
}

// tell hands over one payoff, a part of it, or its never coming.
func (a *arrivals) tell(l delay.Learner, fb *delay.Feedback, what arrival) {
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
