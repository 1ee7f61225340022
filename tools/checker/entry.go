package checker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// kind is what is stored under an impression id.
type kind byte

const (
	waiting kind = 1 // parked records only
	pending kind = 2
	closed  kind = 3 // a tombstone
)

// entry is what is stored under an impression id.
type entry struct {
	kind         kind
	page         string // that it lies in
	bucket       int64  // that of the page
	learner      int32
	offset       int64 // -1: not kept
	payDeadline  event.Millis
	began        event.Millis
	hasSelection bool         // it has a selection deadline, or had one
	selDeadline  event.Millis // as long as nothing is selected
	forgetAt     event.Millis // of a tombstone
	wasSelected  bool         // of a tombstone
	paidOnce     bool         // of a tombstone: it ended by a payoff
	items        []int32
	alone        bool // items is what was selected, alone
	propensities []float64
	instance     int32 // -1: none
	ranks        []int32
	undecided    []int32
	expected     []int64 // millionths, by position; of one with a selection that of the item selected alone
	selected     int32   // position in items, -1: none
	ordered      bool    // of one with a selection: the order of utilities was known,
	favourite    bool    // and the item selected was first in it
	sum          float64
	count        int64
	inParts      bool // the learner was told of sum
	events       []uint64
	parked       []parked
	inExperiment bool
	arm          int32 // then: its place in the stored table of arms
	hasContext   bool
	context      []int8 // steps of the user's numbers, then of each item's, or of that alone which was selected
	ofUser       int    // how many are the user's
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
	flagSelected
	flagOffset
	flagFromBegan
	flagPropensities
	flagExpected
	flagParked
	flagRanks
	flagInstance
	flagUndecided
	flagWhole
	flagNarrow
	flagOrdered
	flagFavourite
	flagSum
	flagInParts
	flagArm
	flagContext
	flagUnknown // and above
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

// decodeEntry reads what is stored under an impression id. The first byte has the version, 1, in three bits, the kind in two, and of a
// tombstone whether there was a selection and whether it ended by a payoff. Its highest bit says that flags follow, a uvarint. Then, as
// uvarints unless said otherwise: unless it is waiting, the learner's number. That is all of a tombstone, which goes at the
// end of its bucket, that of its page. Of a pending one:
//
//	a time, from the beginning of the bucket on (varint): when it began, with flagFromBegan, else its next deadline; after what time from
//	its beginning on its payoff deadline is, and that of the selection as long as nothing is selected (spans, see span);
//	with flagOffset the impression's offset;
//	where something is selected, and flagWhole is not there, its item; else the items in the order shown (packed, their number before),
//	and with flagWhole the position selected;
//	with flagPropensities a float64 of each, with flagNarrow a float32; where something is selected of that alone;
//	with flagInstance the instance; with flagRanks a utility rank of each (packed); with flagUndecided the ranks that are not certain, with
//	their number before; with flagExpected what was expected of each, where something is selected of that alone, in units of 10⁻⁶
//	(varints); with flagSum the sum so far (float64), the number of payoffs in it, and the 8-byte hashes of their event ids, with their
//	number before.
//
// Of all but tombstones follow with flagParked the parked records, with their number before: topic (a byte, its form times 16 added),
// offset, timestamp (varint), effective time (varint), how much later its wait ends (varint), value with its length before, and where
// the form is Avro the same in Protobuf likewise. With flagArm follows the place of its arm in the stored table, and of an experiment by user
// the group and the period (varint), all with their length before. With flagContext follows how many steps of its context are the user's (a byte), and
// all of them (a byte each, signed), with their length before.
func decodeEntry(b []byte, bucket int64) (*entry, error) {
	c := cursor{b: b}
	head := c.byte()
	e := &entry{instance: -1, selected: -1, offset: -1, bucket: bucket}
	if c.err == nil && head&7 != 1 {
		return nil, fmt.Errorf("%w: version %d", errEntry, head&7)
	}
	c.entry(e, head)
	switch {
	case c.err != nil:
		return nil, c.err
	case len(c.b) > 0:
		return nil, fmt.Errorf("%w: %d bytes too many", errEntry, len(c.b))
	case e.kind < waiting || e.kind > closed:
		return nil, fmt.Errorf("%w: kind %d", errEntry, e.kind)
	case e.kind == pending && int(e.selected) >= len(e.items):
		return nil, fmt.Errorf("%w: position %d selected of %d", errEntry, e.selected, len(e.items))
	}
	return e, nil
}

func (c *cursor) entry(e *entry, head byte) {
	e.kind = kind(head >> 3 & 3)
	var flags uint64
	if head&128 != 0 {
		flags = c.uvarint()
	}
	if c.err == nil && flags >= flagUnknown {
		c.err = fmt.Errorf("%w: flags %#x", errEntry, flags)
	}
	if e.kind != waiting {
		e.learner = int32(c.uvarint())
	}
	if e.kind == closed {
		e.wasSelected, e.paidOnce = head&32 != 0, head&64 != 0
		e.forgetAt = (e.bucket+1)*bucketWidth - 1
	}
	if e.kind == pending {
		c.impression(e, flags)
	}
	if flags&flagParked != 0 {
		c.parked(e)
	}
	if flags&flagArm != 0 {
		part := cursor{b: c.take(c.length()), err: c.err}
		e.inExperiment, e.arm = true, int32(part.uvarint())
		if len(part.b) > 0 { // group and period, of an experiment by user
			part.uvarint()
			part.varint()
		}
		if c.err == nil && (part.err != nil || len(part.b) > 0) {
			c.err = fmt.Errorf("%w: its arm", errEntry)
		}
	}
	if flags&flagContext != 0 {
		part := cursor{b: c.take(c.length()), err: c.err}
		e.hasContext, e.ofUser = true, int(part.byte())
		for _, b := range part.b {
			e.context = append(e.context, int8(b))
		}
		if c.err == nil && (part.err != nil || e.ofUser > len(e.context)) {
			c.err = fmt.Errorf("%w: its context", errEntry)
		}
	}
}

func (c *cursor) parked(e *entry) {
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

// span reads a time between two moments: a number in units that its lowest two bits tell, milliseconds (zigzag), seconds, minutes, hours.
func (c *cursor) span() event.Millis {
	x := c.uvarint()
	n := int64(x >> 2)
	switch x & 3 {
	case 1:
		return n * 1000
	case 2:
		return n * 60_000
	case 3:
		return n * 3_600_000
	}
	return n>>1 ^ -(n & 1)
}

// packed reads n numbers of as many bits each as its first byte says, the lowest bits first.
func (c *cursor) packed(n int) (all []int32) {
	width := int(c.byte())
	if width < 1 || width > 31 || n > 8*len(c.b)/width {
		c.take(-1)
		return nil
	}
	packed := c.take((n*width + 7) / 8)
	for k := range n {
		x := int32(0)
		for bit := range width {
			at := k*width + bit
			x |= int32(packed[at/8]>>(at%8)&1) << bit
		}
		all = append(all, x)
	}
	return all
}

func (c *cursor) impression(e *entry, flags uint64) {
	has := func(flag uint64) bool { return flags&flag != 0 }
	e.hasSelection, e.alone = has(flagSelectionDeadline), has(flagSelected) && !has(flagWhole)
	at := e.bucket*bucketWidth + c.varint()
	horizon, timeout := c.span(), event.Millis(0)
	e.began = at - horizon
	if e.hasSelection && !has(flagSelected) {
		timeout = c.span()
		e.began = at - timeout
	}
	if has(flagFromBegan) {
		e.began = at
	}
	e.payDeadline = e.began + horizon
	if e.hasSelection && !has(flagSelected) {
		e.selDeadline = e.began + timeout
	}
	if has(flagOffset) {
		e.offset = int64(c.uvarint())
	}
	if e.alone {
		e.items, e.selected = []int32{int32(c.uvarint())}, 0
	} else if n := c.uvarint(); n > uint64(8*len(c.b)) {
		c.take(-1)
	} else if n > 0 {
		e.items = c.packed(int(n))
	}
	if has(flagWhole) {
		e.selected = int32(c.uvarint())
	}
	each := len(e.items)
	if has(flagSelected) {
		each = 1
	}
	for k := 0; has(flagPropensities) && k < each && c.err == nil; k++ {
		if has(flagNarrow) {
			if b := c.take(4); b != nil {
				e.propensities = append(e.propensities, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
			}
			continue
		}
		e.propensities = append(e.propensities, c.float())
	}
	if has(flagInstance) {
		e.instance = int32(c.uvarint())
	}
	if has(flagRanks) {
		e.ranks = c.packed(len(e.items))
	}
	if has(flagUndecided) {
		for k := c.length(); k > 0 && c.err == nil; k-- {
			e.undecided = append(e.undecided, int32(c.uvarint()))
		}
	}
	for k := 0; has(flagExpected) && k < each && c.err == nil; k++ {
		e.expected = append(e.expected, c.varint())
	}
	if has(flagSum) {
		c.payoffs(e)
	}
	e.inParts, e.ordered, e.favourite = has(flagInParts), has(flagOrdered), has(flagFavourite)
}

func (c *cursor) payoffs(e *entry) {
	e.sum = c.float()
	e.count = int64(c.uvarint())
	for k := c.length(); k > 0 && c.err == nil; k-- {
		e.events = append(e.events, c.word())
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
