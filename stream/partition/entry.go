package partition

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type kind uint8

const (
	nothing    kind = iota // nothing is stored
	parkedOnly             // parked records only: the impression has not been read yet
	pending                // a ranked impression
	tombstone              // a tombstone: an impression that has ended, kept to recognise duplicates
)

type outcome uint8

const (
	_          outcome = iota
	paid               // its payoff was fed to the learner
	expired            // no payoff came
	defaulted          // no payoff came, and the learner was fed the default
	unselected         // no selection came
	outcomes
)

// unknownOffset stands for an offset that is not kept any more.
const unknownOffset int64 = -1

// entry is the state under one impression id. Times are in milliseconds.
type entry struct {
	kind    kind
	bucket  int64 // its bucket; stored times are counted from it
	learner int32 // number in the learner table

	// Of a pending impression. Its selection drops the fields that its payoff and its end do not need; see shrink.
	offset               int64 // of the impression; unknownOffset: not kept
	hasSelectionDeadline bool  // a selection is, or was, awaited before any payoff
	selectionDeadline    event.Millis
	payoffDeadline       event.Millis
	began                event.Millis  // deadlines are counted from here
	items                []policy.Item // in the order shown; empty if the learner is gone and its items are not known
	alone                bool          // items holds the selected item only
	propensities         []float64     // by position shown, or of the selected item only; empty if not recorded
	instance             int32         // -1: none
	ranks                []int32       // utility ranks (0 is the lowest) by position shown; empty if not needed or not known
	expected             []int64       // expected payoffs (event.Millionths) by position shown, or of the selected item only
	undecided            []int32       // ascending: ranks whose item was not certain to be above the one before; 0 alone for a guess
	keptContext
	unit
	selected  int32 // position in items, -1: none yet
	ordered   bool  // after a selection: the order of utilities was known and certain
	favourite bool  // and its first item was selected

	// Of a tombstone.
	forgetAt    event.Millis // it is dropped when the watermark is past this time, the end of its bucket
	wasSelected bool
	paidOnce    bool // its payoff ended it: a further payoff is a duplicate, else it is late

	partialSum
	parked []parkedRecord // in the order of arrival
}

// keptContext is the context of an impression.
type keptContext struct {
	context    []int8 // in steps: the user's, then each item's by position shown, or the selected item's only
	ofUser     int    // the number of the user's steps
	hasContext bool   // true also for a context without numbers
}

// unit is the part of an impression in an experiment.
type unit struct {
	arm    int32 // number in the table of arms; noArm: not a unit of an experiment
	group  int32 // of users, in an experiment by user
	period int64 // in which it began, likewise
	// covariate is a number known before the ranking, from 0 to 1, in units of 10⁻⁶; see covariateOf. It is 0 by user.
	covariate int32
}

// z returns the covariate.
func (u *unit) z() float64 { return event.FromMillionths(int64(u.covariate)) }

// noArm marks an entry that is not a unit of an experiment.
const noArm int32 = -1

// partialSum is the sum of payoffs so far, if the learner adds them up.
type partialSum struct {
	sum     float64 // raw units
	count   int64   // payoffs in sum
	events  []uint64
	inParts bool // sum was fed to the learner
	refused bool // a selection or payoff was refused, since the learner was gone
}

// parkedRecord is a selection or payoff that waits for its impression or selection. Its key is the entry's id.
type parkedRecord struct {
	topic     event.Topic
	offset    int64
	timestamp event.Millis
	effective event.Millis
	deadline  event.Millis // while the impression is not known
	value     []byte
	// form and plain decode the value under any configuration; see Record.Plain.
	form  event.Form
	plain []byte
}

func (e *entry) reset() {
	e.forget()
	clear(e.parked)
	e.parked = e.parked[:0]
	e.kind, e.bucket, e.learner = nothing, noBucket, 0
	e.forgetAt, e.wasSelected, e.paidOnce = 0, false, false
}

// forget drops the fields that only a pending impression needs.
func (e *entry) forget() {
	e.items, e.propensities, e.events = e.items[:0], e.propensities[:0], e.events[:0]
	e.ranks, e.undecided, e.expected = e.ranks[:0], e.undecided[:0], e.expected[:0]
	e.instance, e.sum, e.count, e.inParts, e.refused = -1, 0, 0, false, false
	e.offset, e.selected, e.alone, e.ordered, e.favourite = unknownOffset, -1, false, false, false
	e.hasSelectionDeadline, e.selectionDeadline, e.payoffDeadline, e.began = false, 0, 0, 0
	e.unit = unit{arm: noArm}
	e.context, e.ofUser, e.hasContext = e.context[:0], 0, false
}

// close makes a pending impression a tombstone until keptUntil, rounded up to its bucket's end: only the bucket stores that time. Parked
// records stay.
func (e *entry) close(ended, keptUntil event.Millis, paidOnce bool) {
	e.kind, e.paidOnce, e.wasSelected = tombstone, paidOnce, e.selected >= 0
	e.forgetAt = bucketEnd(bucketOf(keptUntil, ended))
	e.forget()
}

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

// shrink drops the fields of a selected impression that its payoff and its end do not need. The item, its propensity and its expected
// payoff stay, and the fields that the learner asks for. Of the order of utilities it keeps ordered and favourite.
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

// reduce drops the fields of a selected impression that no learner needs.
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

func (e *entry) propensity() float64 {
	switch {
	case e.selected < 0 || len(e.propensities) == 0:
		return 0
	case len(e.propensities) == 1:
		return e.propensities[0]
	}
	return e.propensities[e.selected]
}

// unranked drops propensities, ranks and expected payoffs of an impression that was shown in another order than its ranking: they say
// nothing about its selection and payoff.
func (e *entry) unranked() {
	e.propensities, e.ranks, e.undecided, e.expected = e.propensities[:0], e.ranks[:0], e.undecided[:0], e.expected[:0]
	e.ordered, e.favourite = false, false
}

func (e *entry) expectedOf() (x float64, ok bool) {
	if e.selected < 0 || len(e.expected) == 0 {
		return 0, false
	}
	return event.FromMillionths(e.expected[0]), true
}

func (e *entry) position(i policy.Item) int32 {
	return int32(slices.Index(e.items, i))
}

// since returns a time from which the entry's next deadline is counted. The watermark would not do: it is 0 until all topics were read.
func (e *entry) since() event.Millis {
	switch e.kind {
	case parkedOnly:
		return e.parked[0].effective
	case pending:
		return e.began
	}
	return math.MinInt64
}

// nextDeadline returns the watermark above which the entry changes next.
func (e *entry) nextDeadline() event.Millis {
	switch {
	case e.kind == parkedOnly:
		next := e.parked[0].deadline
		for i := range e.parked[1:] {
			next = min(next, e.parked[i+1].deadline)
		}
		return next
	case e.kind == tombstone:
		return e.forgetAt
	case e.selected < 0 && e.hasSelectionDeadline:
		return min(e.selectionDeadline, e.payoffDeadline)
	}
	return e.payoffDeadline
}
