package checker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// kind is what is stored under an impression id.
type kind byte

const (
	waiting kind = 1 // parked records only
	pending kind = 2
	closed  kind = 3 // a tombstone
)

// outcome is how an impression ended.
type outcome byte

const (
	paid       outcome = 1
	expired    outcome = 2
	defaulted  outcome = 3
	unselected outcome = 4
)

func (o outcome) String() string {
	return [...]string{"open", "paid", "expired", "defaulted", "unselected"}[o]
}

// entry is what is stored under an impression id.
type entry struct {
	old                   bool // of version 1
	kind                  kind
	bucket                int64
	learner               int32
	offset                int64
	payDeadline, forgetAt event.Millis
	began                 event.Millis // not known of version 1
	hasSelection          bool         // it has a selection deadline
	selDeadline           event.Millis
	outcome               outcome
	wasSelected, summed   bool // of a tombstone
	items                 []int32
	propensities          []float64
	instance              int32 // -1: none
	ranks                 []int32
	undecided             []int32
	expected              []int64 // millionths, by position; of one with a selection perhaps that of the item selected alone
	selected              int32   // position, -1: none
	sum                   float64
	count                 int64
	inParts               bool // the learner was told of sum
	events                []uint64
	parked                []parked
}

// parked is a record that waits under an id.
type parked struct {
	topic               event.Topic
	offset              int64
	effective, deadline event.Millis
	value               []byte
	form                event.Form
	plain               []byte
}

var errEntry = errors.New("the stored entry is broken")

// Flags of a stored entry.
const (
	flagSelectionDeadline = 1 << iota
	flagPropensities
	flagInstance
	flagRanks
	flagSelected
	flagSum
	flagParked
	flagUndecided
	flagWeakEvents
	flagInParts
	flagExpected
	flagForeign // and above: of later versions
)

// cursor reads a stored entry from its front; after its first error it reads zeros.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		if c.err == nil {
			c.err = fmt.Errorf("%w: cut off", errEntry)
		}
		c.b = nil
		return nil
	}
	head := c.b[:n:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) word() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) float() float64 { return math.Float64frombits(c.word()) }

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		n = len(c.b) + 1
	}
	c.take(n)
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		n = len(c.b) + 1
	}
	c.take(n)
	return v
}

// length reads a number of things that take at least a byte each.
func (c *cursor) length() int {
	n := c.uvarint()
	if n > uint64(len(c.b)) {
		c.take(-1)
		return 0
	}
	return int(n)
}

// decodeEntry reads what is stored under an impression id:
//
//	version 2, kind: a byte each; then, as uvarints unless said otherwise: flags, the bucket;
//	unless it is waiting: the learner's number, the impression's offset, the payoff deadline (varint), how much later it
//	is forgotten (varint), how much earlier it began (varint), with flag 1 how much earlier the selection deadline is (varint);
//	of a closed one a byte: its outcome; flag 16 says that there was a selection, 32 that payoffs were added up;
//	of a pending one: the items in the order shown, with their number before; with flag 2 a float64 of each; with flag 4
//	the instance; with flag 8 a utility rank of each; with flag 128 the ranks that are not certain, with their number
//	before; with flag 16 the position selected; with flag 32 the sum so far
//	(float64), the number of payoffs in it, and the 8-byte hashes of their event ids, with their number before;
//	with flag 64 the parked records, with their number before: topic (a byte, its form times 16 added), offset, timestamp (varint), effective time
//	(varint), how much later its wait ends (varint), value with its length before, and where the form is Avro the same in Protobuf likewise;
//	for each flag above 256, which says that hashes of events are those of version 1, a part with its length before: flag 512
//	says that the learner was told of the sum, and its part is empty; that of flag 1024 is what was expected of each item shown, or
//	of the one selected alone, in units of 10⁻⁶ (varints).
//
// Version 1 has one byte of flags, and does not say when the impression began.
func decodeEntry(b []byte) (*entry, error) {
	c := cursor{b: b}
	version := c.byte()
	if (version < 1 || version > 2) && c.err == nil {
		return nil, fmt.Errorf("%w: version %d", errEntry, version)
	}
	e := &entry{kind: kind(c.byte()), instance: -1, selected: -1, old: version == 1}
	var flags uint64
	if e.old {
		flags = uint64(c.byte())
	} else {
		flags = c.uvarint()
	}
	e.bucket = int64(c.uvarint())
	switch e.kind {
	case waiting:
	case pending, closed:
		c.impression(e, flags)
	default:
		return nil, fmt.Errorf("%w: kind %d", errEntry, e.kind)
	}
	if flags&flagParked != 0 {
		for n := c.length(); n > 0 && c.err == nil; n-- {
			kind := c.byte()
			p := parked{topic: event.Topic(kind & 15), form: event.Form(kind >> 4), offset: int64(c.uvarint())}
			c.varint()
			p.effective = c.varint()
			p.deadline = p.effective + c.varint()
			p.value = c.take(c.length())
			if p.form == event.Avro {
				p.plain = c.take(c.length())
			}
			e.parked = append(e.parked, p)
		}
	}
	e.inParts = flags&flagInParts != 0
	if e.inParts {
		c.take(c.length())
	}
	if flags&flagExpected != 0 {
		part := cursor{b: c.take(c.length())}
		for len(part.b) > 0 {
			e.expected = append(e.expected, part.varint())
		}
		if c.err == nil {
			c.err = part.err
		}
	}
	for range bits.OnesCount64(flags &^ (flagForeign - 1)) {
		c.take(c.length())
	}
	switch {
	case c.err != nil:
		return nil, c.err
	case len(c.b) > 0:
		return nil, fmt.Errorf("%w: %d bytes too many", errEntry, len(c.b))
	case e.kind == closed && (e.outcome < paid || e.outcome > unselected):
		return nil, fmt.Errorf("%w: outcome %d", errEntry, e.outcome)
	case e.kind == pending && int(e.selected) >= len(e.items):
		return nil, fmt.Errorf("%w: position %d selected of %d", errEntry, e.selected, len(e.items))
	}
	return e, nil
}

func (c *cursor) impression(e *entry, flags uint64) {
	e.learner = int32(c.uvarint())
	e.offset = int64(c.uvarint())
	e.payDeadline = c.varint()
	e.forgetAt = e.payDeadline + c.varint()
	if !e.old {
		e.began = e.payDeadline - c.varint()
	}
	if flags&flagSelectionDeadline != 0 {
		e.hasSelection = true
		e.selDeadline = e.payDeadline - c.varint()
	}
	if e.kind == closed {
		e.outcome = outcome(c.byte())
		e.wasSelected, e.summed = flags&flagSelected != 0, flags&flagSum != 0
		return
	}
	n := c.length()
	for range n {
		e.items = append(e.items, int32(c.uvarint()))
	}
	if flags&flagPropensities != 0 {
		for range n {
			e.propensities = append(e.propensities, c.float())
		}
	}
	if flags&flagInstance != 0 {
		e.instance = int32(c.uvarint())
	}
	if flags&flagRanks != 0 {
		for range n {
			e.ranks = append(e.ranks, int32(c.uvarint()))
		}
	}
	if flags&flagUndecided != 0 {
		for k := c.length(); k > 0 && c.err == nil; k-- {
			e.undecided = append(e.undecided, int32(c.uvarint()))
		}
	}
	if flags&flagSelected != 0 {
		e.selected = int32(c.uvarint())
	}
	if flags&flagSum != 0 {
		e.sum = c.float()
		e.count = int64(c.uvarint())
		for k := c.length(); k > 0 && c.err == nil; k-- {
			e.events = append(e.events, c.word())
		}
	}
}

// nextDeadline is when event time next changes something about the entry.
func (e *entry) nextDeadline() event.Millis {
	switch {
	case e.kind == waiting:
		next := int64(math.MaxInt64)
		for i := range e.parked {
			next = min(next, e.parked[i].deadline)
		}
		return next
	case e.kind == closed:
		return e.forgetAt
	case e.selected < 0 && e.hasSelection:
		return min(e.selDeadline, e.payDeadline)
	}
	return e.payDeadline
}
