package partition

import (
	"math"
)

// Versions 1 and 2 of a stored entry are: version and kind (one byte each), flags, bucket; of a pending or closed impression:
// learner, offset, payoff deadline, how much later it is forgotten, how much earlier it began and, as the flags say, how much earlier
// than the payoff deadline the selection deadline is. Then of a pending one: its items and, as the flags say, propensities,
// instance, ranks, which ranks are undecided, selected position, sum; of a closed one: its outcome. Then, if any, the parked records.
// Last, for each flag from oldInParts on a length and so many bytes: that of oldExpected is integers. Integers are varints (zigzag
// where they may be negative), floats and event hashes 8 bytes, little endian.
//
// Version 1 had one byte of flags and did not say when the impression began.
const (
	oldSelectionDeadline = 1 << iota
	oldPropensities
	oldInstance
	oldRanks
	oldSelected
	oldSum
	oldParked
	oldUndecided // the last of version 1
	oldWeakEvents
	oldInParts // its part is empty
	oldExpected
	oldUnknown // and above
)

// old reads an entry of version 1 or 2. What its selection has made needless is left out.
func (d *entryReader) old(e *entry) {
	e.kind = kind(d.byte())
	var flags uint64
	if d.version == 1 {
		flags = uint64(d.byte())
	} else {
		flags = uint64(d.count(math.MaxInt64, "flags"))
	}
	d.count(math.MaxInt64, "bucket") // of an index that is no more
	switch {
	case d.err != nil:
		return
	case e.kind < waiting || e.kind > closed || flags >= oldUnknown:
		d.fail("kind %d, flags %#x", e.kind, flags)
	case e.kind == waiting && flags != oldParked:
		d.fail("parked records only, but flags %#x", flags)
	case e.kind != waiting:
		d.oldImpression(e, flags)
	}
	if flags&oldParked != 0 && d.err == nil {
		d.parked(e)
	}
	if flags&oldInParts != 0 && d.count(0, "length of an empty part") == 0 {
		e.inParts = e.count > 0
	}
	if flags&oldExpected != 0 {
		d.oldExpected(e)
	}
	if d.err == nil && e.kind == pending && e.selected >= 0 {
		e.reduce()
	}
}

func (d *entryReader) oldImpression(e *entry, flags uint64) {
	e.learner = int32(d.count(math.MaxInt32, "learner"))
	offset := d.count(math.MaxInt64, "offset")
	payoffDeadline := d.varint()
	forgetAt := payoffDeadline + d.varint()
	began := unknownBegin
	if d.version > 1 {
		began = payoffDeadline - d.varint()
	}
	if e.kind == closed {
		how := outcome(d.byte())
		if d.err == nil && (how < paid || how >= outcomes || flags&^(oldSelected|oldSum|oldInParts|oldExpected|oldParked) != 0) {
			d.fail("outcome %d, flags %#x of a closed impression", how, flags)
		}
		e.forgetAt, e.wasSelected, e.paidOnce = forgetAt, flags&oldSelected != 0, how == paid && flags&oldSum == 0
		return
	}
	e.offset, e.payoffDeadline, e.began = offset, payoffDeadline, began
	if flags&oldSelectionDeadline != 0 {
		e.hasSelectionDeadline = true
		e.selectionDeadline = e.payoffDeadline - d.varint()
	}
	d.oldDecision(e, flags)
	if flags&oldSelected != 0 {
		e.selected = int32(d.count(math.MaxInt32, "selected position"))
		if d.err == nil && int(e.selected) >= len(e.items) {
			d.fail("position %d selected of %d", e.selected, len(e.items))
		}
	}
	if flags&oldSum != 0 {
		d.payoffs(e)
		e.weakEvents = len(e.events) > 0 && (d.version == 1 || flags&oldWeakEvents != 0)
	}
}

// oldDecision reads what was decided: items, propensities, instance, ranks, which of them are undecided.
func (d *entryReader) oldDecision(e *entry, flags uint64) {
	n := d.count(uint64(len(d.rest)), "items")
	for range n {
		e.items = append(e.items, int32(d.count(math.MaxInt32, "item")))
	}
	if flags&oldPropensities != 0 {
		for i := int64(0); i < n && d.err == nil; i++ {
			e.propensities = append(e.propensities, d.float())
		}
	}
	if flags&oldInstance != 0 {
		e.instance = int32(d.count(math.MaxInt32, "instance"))
	}
	if flags&oldRanks != 0 {
		for range n {
			e.ranks = append(e.ranks, int32(d.count(uint64(n-1), "rank")))
		}
	}
	if d.err == nil && n == 0 && flags&(oldPropensities|oldRanks) != 0 {
		d.fail("flags %#x without items", flags)
	}
	if flags&oldUndecided != 0 {
		d.undecided(e, n)
	}
}

// oldExpected reads what was expected of each item, or of the selected one. A version that does not know of it leaves it as it was
// when an item is selected, and when the impression ends.
func (d *entryReader) oldExpected(e *entry) {
	r := entryReader{rest: d.part()}
	if e.kind == closed {
		return
	}
	for len(r.rest) > 0 {
		e.expected = append(e.expected, r.millionths())
	}
	selected, n := e.selected >= 0, len(e.expected)
	switch {
	case d.err != nil:
	case r.err != nil:
		d.err = r.err
	case selected && n == len(e.items):
		e.choose(e.selected)
	case selected && n == 1, !selected && n == len(e.items) && n > 0:
	default:
		d.fail("%d are expected of %d items", n, len(e.items))
	}
}
