package partition

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// kind is what is stored under an impression id.
type kind uint8

const (
	nothing kind = iota // nothing is stored
	waiting             // only parked records: the impression has not been read yet
	pending             // a ranked impression
	closed              // a tombstone: an impression that has ended, remembered so that what comes again is recognised
)

// outcome is how an impression ended.
type outcome uint8

const (
	open       outcome = iota
	paid               // a payoff was fed to the learner
	expired            // the payoff never came
	defaulted          // the payoff never came, and the learner was fed the default
	unselected         // nobody selected anything
	outcomes
)

// entry is all that is stored under one impression id. Times are in milliseconds.
type entry struct {
	kind    kind
	bucket  int64 // of the expiry index, in which the id stands
	learner int32 // number in the learner table
	offset  int64 // of the impression

	hasSelectionDeadline bool // a selection is awaited before any payoff
	selectionDeadline    event.Millis
	payoffDeadline       event.Millis
	began                event.Millis // from when the deadlines are counted
	forgetAt             event.Millis // the tombstone goes when the watermark is past this

	// Of a pending impression only.
	items        []policy.Item // in the order shown; empty where the learner is gone and its items are not known
	propensities []float64     // by position shown; empty where the learner gave none
	instance     int32         // -1: none
	ranks        []int32       // the utility rank (0 is the lowest) by position shown; empty where not needed or not known
	expected     []int64       // what was expected, see event.Millionths: by position shown, or of what was selected alone
	undecided    []int32       // ascending: ranks whose item was not certain to be above the one before
	selected     int32         // position shown, -1: nothing yet

	wasSelected bool // of a tombstone
	summed      bool // of a tombstone: all payoffs up to the deadline counted, so that one that comes now is late
	outcome     outcome

	// The sum of payoffs so far, where a learner adds them up.
	sum     float64 // raw units
	count   int64   // payoffs in sum
	events  []uint64
	inParts bool // the learner has been told of sum
	// weakEvents says that events are hashes as layout 1 made them.
	weakEvents bool

	parked []parkedRecord // in the order of arrival

	// foreign are the parts that a later version has added and this one does not know: their flags, and the bytes behind all
	// others. They are kept as they are.
	foreign      uint64
	foreignBytes []byte
}

// unknownBegin is the began of an entry that was stored by a version that did not keep it, until fits works it out.
const unknownBegin event.Millis = math.MinInt64

// parkedRecord is a selection or payoff that waits for its impression or its selection. Its key is the entry's id.
type parkedRecord struct {
	topic     event.Topic
	offset    int64
	timestamp event.Millis
	effective event.Millis
	deadline  event.Millis // while the impression is not known
	value     []byte
	// form and plain are what it needs to be read again, whatever is configured by then; see Record.Plain.
	form  event.Form
	plain []byte
}

// reset makes e say that nothing is stored, and keeps its memory.
func (e *entry) reset() {
	e.forget()
	clear(e.parked)
	*e = entry{instance: -1, selected: -1, bucket: noBucket, items: e.items, propensities: e.propensities, ranks: e.ranks,
		expected: e.expected, undecided: e.undecided, events: e.events, parked: e.parked[:0], foreignBytes: e.foreignBytes[:0]}
}

// forget drops what only a pending impression needs.
func (e *entry) forget() {
	e.items, e.propensities, e.events = e.items[:0], e.propensities[:0], e.events[:0]
	e.ranks, e.undecided, e.expected = e.ranks[:0], e.undecided[:0], e.expected[:0]
	e.instance, e.sum, e.count, e.inParts, e.weakEvents = -1, 0, 0, false, false
}

// close makes a pending impression a tombstone. What is parked stays.
func (e *entry) close(o outcome, summed bool) {
	e.kind, e.outcome, e.summed = closed, o, summed
	e.wasSelected = e.selected >= 0
	e.selected = -1
	e.hasSelectionDeadline, e.selectionDeadline = false, 0
	e.forget()
}

// choose notes which position was selected. What was expected of the others is of no more use.
func (e *entry) choose(at int32) {
	e.selected = at
	if len(e.expected) > 0 {
		e.expected = append(e.expected[:0], e.expected[at])
	}
}

// unranked notes that what was shown was not the ranking. So how likely the decision made the item to be selected, what it expected of
// it, and in which order items stood tell nothing of the selection and of its payoff.
func (e *entry) unranked() {
	e.propensities, e.ranks, e.undecided, e.expected = e.propensities[:0], e.ranks[:0], e.undecided[:0], e.expected[:0]
}

// expectedOf is what was expected of the selected item, where something was selected and it is known.
func (e *entry) expectedOf() (x float64, ok bool) {
	if e.selected < 0 || len(e.expected) == 0 {
		return 0, false
	}
	return event.FromMillionths(e.expected[0]), true
}

// position is where an item was shown, -1 where it was not.
func (e *entry) position(i policy.Item) int32 {
	return int32(slices.Index(e.items, i))
}

// nextDeadline is when the watermark's passing next changes something about the entry.
func (e *entry) nextDeadline() event.Millis {
	switch {
	case e.kind == waiting:
		next := e.parked[0].deadline
		for i := range e.parked[1:] {
			next = min(next, e.parked[i+1].deadline)
		}
		return next
	case e.kind == closed:
		return e.forgetAt
	case e.selected < 0 && e.hasSelectionDeadline:
		return min(e.selectionDeadline, e.payoffDeadline)
	}
	return e.payoffDeadline
}
