package partition

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
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
	_          outcome = iota
	paid               // a payoff was fed to the learner
	expired            // the payoff never came
	defaulted          // the payoff never came, and the learner was fed the default
	unselected         // nobody selected anything
	outcomes
)

// unknownOffset is the offset of an impression that is not kept any more.
const unknownOffset int64 = -1

// entry is all that is stored under one impression id. Times are in milliseconds.
type entry struct {
	kind    kind
	bucket  int64 // in which it lies: times are stored as counted from it
	learner int32 // number in the learner table

	// Of a pending impression only. At its selection all goes that its payoff and its end do not need, see shrink.
	offset               int64 // of the impression; unknownOffset: not kept
	hasSelectionDeadline bool  // a selection is, or was, awaited before any payoff
	selectionDeadline    event.Millis
	payoffDeadline       event.Millis
	began                event.Millis  // from when the deadlines are counted
	items                []policy.Item // in the order shown; empty where the learner is gone and its items are not known
	alone                bool          // items is what was selected, alone
	propensities         []float64     // by position shown, or of what was selected alone; empty where the learner gave none
	instance             int32         // -1: none
	ranks                []int32       // the utility rank (0 is the lowest) by position shown; empty where not needed or not known
	expected             []int64       // what was expected, see event.Millionths: by position shown, or of what was selected alone
	undecided            []int32       // ascending: ranks whose item was not certain to be above the one before
	context              []int8        // in steps: the user's numbers, then each item's by position shown, or of what was selected alone; empty: none
	ofUser               int           // how many of these are the user's
	hasContext           bool          // which may have no numbers at all
	arm                  int32         // number in the table of arms; noArm: it is no unit of an experiment
	group                int32         // of users, in an experiment by user
	period               int64         // likewise: in which it began
	selected             int32         // position in items, -1: nothing yet
	ordered              bool          // of one with a selection: the order of utilities was known, and certain
	favourite            bool          // and it put first what was selected

	// Of a tombstone only.
	forgetAt    event.Millis // it goes when the watermark is past this: the end of its bucket
	wasSelected bool
	paidOnce    bool // it ended by its payoff, so that one that comes now is a second; else it is late

	// The sum of payoffs so far, where a learner adds them up.
	sum     float64 // raw units
	count   int64   // payoffs in sum
	events  []uint64
	inParts bool // the learner has been told of sum

	parked []parkedRecord // in the order of arrival
}

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
	*e = entry{arm: noArm, instance: -1, selected: -1, offset: unknownOffset, bucket: noBucket, items: e.items, propensities: e.propensities,
		ranks: e.ranks, expected: e.expected, undecided: e.undecided, events: e.events, parked: e.parked[:0],
		context: e.context}
}

// forget drops what only a pending impression needs.
func (e *entry) forget() {
	e.items, e.propensities, e.events = e.items[:0], e.propensities[:0], e.events[:0]
	e.ranks, e.undecided, e.expected = e.ranks[:0], e.undecided[:0], e.expected[:0]
	e.instance, e.sum, e.count, e.inParts = -1, 0, 0, false
	e.offset, e.selected, e.alone, e.ordered, e.favourite = unknownOffset, -1, false, false, false
	e.hasSelectionDeadline, e.selectionDeadline, e.payoffDeadline, e.began = false, 0, 0, 0
	e.arm, e.group, e.period = noArm, 0, 0
	e.context, e.ofUser, e.hasContext = e.context[:0], 0, false
}

// close makes a pending impression that has ended at a time a tombstone, which is kept until another, rounded up to the end of a bucket: the
// place of a tombstone is all that says so. What is parked stays.
func (e *entry) close(ended, keptUntil event.Millis, paidOnce bool) {
	e.kind, e.paidOnce, e.wasSelected = closed, paidOnce, e.selected >= 0
	e.forgetAt = bucketEnd(bucketOf(keptUntil, ended))
	e.forget()
}

// choose notes which position was selected. What was expected and known of the others is of no more use.
func (e *entry) choose(at int32) {
	e.selected = at
	if len(e.expected) > 0 {
		e.expected = append(e.expected[:0], e.expected[at])
	}
	if e.hasContext {
		width := (len(e.context) - e.ofUser) / len(e.items)
		copy(e.context[e.ofUser:], e.context[e.ofUser+int(at)*width:])
		e.context = e.context[:e.ofUser+width]
	}
}

// shrink leaves of an impression with a selection what its payoff and its end need: the item, how likely its selection was and
// what was expected of it; and beyond that what the learner says that it needs. Of the order of utilities it keeps whether that was
// known, and had the item first.
func (e *entry) shrink(n delay.Needs) {
	e.reduce()
	if !n.Ref {
		e.offset = unknownOffset
	}
	if !n.Candidates && !e.alone {
		e.items = append(e.items[:0], e.items[e.selected])
		e.selected, e.alone = 0, true
		e.ranks, e.undecided = e.ranks[:0], e.undecided[:0]
	}
}

// reduce leaves of an impression with a selection what no learner needs out.
func (e *entry) reduce() {
	if len(e.propensities) > 1 {
		e.propensities = append(e.propensities[:0], e.propensities[e.selected])
	}
	if n := len(e.ranks); n > 0 && len(e.propensities) > 0 {
		e.ordered = len(e.undecided) == 0
		e.favourite = e.ordered && int(e.ranks[e.selected]) == n-1
	}
	e.selectionDeadline = 0
}

// propensity is how likely it was that what was selected is; 0 where it is not known.
func (e *entry) propensity() float64 {
	switch {
	case e.selected < 0 || len(e.propensities) == 0:
		return 0
	case len(e.propensities) == 1:
		return e.propensities[0]
	}
	return e.propensities[e.selected]
}

// unranked notes that what was shown was not the ranking. So how likely the decision made the item to be selected, what it expected of
// it, and in which order items stood tell nothing of the selection and of its payoff.
func (e *entry) unranked() {
	e.propensities, e.ranks, e.undecided, e.expected = e.propensities[:0], e.ranks[:0], e.undecided[:0], e.expected[:0]
	e.ordered, e.favourite = false, false
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

// since is a time that the entry's next deadline is counted from, as far as it says: before the first records of all topics are
// read the watermark stands at 0, and is no measure of how far ahead a deadline is.
func (e *entry) since() event.Millis {
	switch e.kind {
	case waiting:
		return e.parked[0].effective
	case pending:
		return e.began
	}
	return math.MinInt64
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
