package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// errEntry is what every fault of stored bytes wraps.
var errEntry = errors.New("partition: stored entry is broken")

// entryVersion is the first byte of a stored entry.
//
// An entry is: version and kind (one byte each), flags, bucket; of a pending or closed impression: learner, offset, payoff
// deadline, how much later it is forgotten, how much earlier it began and, as the flags say, how much earlier than the payoff
// deadline the selection deadline is. Then of a pending one: its items and, as the flags say, propensities, instance, ranks,
// which ranks are undecided, selected position, sum; of a closed one: its outcome. Then, if any, the parked records. Last, for
// each flag from flagInParts on, those that later versions have added, in ascending order, a length and so many bytes: so versions
// before them pass these parts on as they are. That of flagExpected is integers. Integers are varints (zigzag where
// they may be negative), floats and event hashes 8 bytes, little endian. A pending impression of 20 items takes about 65 bytes.
//
// Version 1 had one byte of flags and did not say when the impression began. It is read, and written again as version 2.
const entryVersion = 2

const (
	flagSelectionDeadline = 1 << iota
	flagPropensities
	flagInstance
	flagRanks
	flagSelected
	flagSum
	flagParked
	flagUndecided  // the last of version 1
	flagWeakEvents // the sum's event hashes are those of version 1
	flagInParts    // the learner has been told of the sum; its part is empty
	flagExpected   // what was expected of each item, or of the selected one alone
	flagForeign    // and above: added by later versions
)

// Bounds of what may wait under one id: an entry is read and written as a whole. One record alone may be larger.
const (
	maxParkedPerID      = 256
	maxParkedBytesPerID = 256 << 10
)

// maxEventsPerID bounds the payoffs with an event id of one impression. The decoder holds stored bytes to it too.
const maxEventsPerID = 1000

func (e *entry) flags() uint64 {
	f := e.foreign
	set := func(bit uint64, on bool) {
		if on {
			f |= bit
		}
	}
	set(flagSelectionDeadline, e.hasSelectionDeadline)
	set(flagPropensities, len(e.propensities) > 0)
	set(flagInstance, e.instance >= 0)
	set(flagRanks, len(e.ranks) > 0)
	set(flagSelected, e.selected >= 0 || e.wasSelected)
	set(flagSum, e.count > 0 || e.summed)
	set(flagParked, len(e.parked) > 0)
	set(flagUndecided, len(e.undecided) > 0)
	set(flagInParts, e.inParts)
	set(flagExpected, len(e.expected) > 0)
	set(flagWeakEvents, e.weakEvents && len(e.events) > 0)
	return f
}

// appendEntry appends the stored form of e, which must not be nothing.
func appendEntry(dst []byte, e *entry) []byte {
	dst = append(dst, entryVersion, byte(e.kind))
	dst = binary.AppendUvarint(dst, e.flags())
	dst = binary.AppendUvarint(dst, uint64(e.bucket))
	if e.kind != waiting {
		dst = appendImpression(dst, e)
	}
	if len(e.parked) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.parked)))
		for i := range e.parked {
			dst = appendParked(dst, &e.parked[i])
		}
	}
	if e.inParts {
		dst = append(dst, 0)
	}
	if len(e.expected) > 0 {
		dst = appendExpected(dst, e.expected)
	}
	return append(dst, e.foreignBytes...)
}

func appendImpression(dst []byte, e *entry) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.learner))
	dst = binary.AppendUvarint(dst, uint64(e.offset))
	dst = binary.AppendVarint(dst, e.payoffDeadline)
	dst = binary.AppendVarint(dst, e.forgetAt-e.payoffDeadline)
	dst = binary.AppendVarint(dst, e.payoffDeadline-e.began)
	if e.hasSelectionDeadline {
		dst = binary.AppendVarint(dst, e.payoffDeadline-e.selectionDeadline)
	}
	if e.kind == closed {
		return append(dst, byte(e.outcome))
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.items)))
	for _, i := range e.items {
		dst = binary.AppendUvarint(dst, uint64(i))
	}
	for _, p := range e.propensities {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p))
	}
	if e.instance >= 0 {
		dst = binary.AppendUvarint(dst, uint64(e.instance))
	}
	for _, r := range e.ranks {
		dst = binary.AppendUvarint(dst, uint64(r))
	}
	if len(e.undecided) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.undecided)))
		for _, r := range e.undecided {
			dst = binary.AppendUvarint(dst, uint64(r))
		}
	}
	if e.selected >= 0 {
		dst = binary.AppendUvarint(dst, uint64(e.selected))
	}
	if e.count > 0 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(e.sum))
		dst = binary.AppendUvarint(dst, uint64(e.count))
		dst = binary.AppendUvarint(dst, uint64(len(e.events)))
		for _, h := range e.events {
			dst = binary.LittleEndian.AppendUint64(dst, h)
		}
	}
	return dst
}

func appendExpected(dst []byte, expected []int64) []byte {
	var one [binary.MaxVarintLen64]byte
	size := 0
	for _, x := range expected {
		size += binary.PutVarint(one[:], x)
	}
	dst = binary.AppendUvarint(dst, uint64(size))
	for _, x := range expected {
		dst = binary.AppendVarint(dst, x)
	}
	return dst
}

func appendParked(dst []byte, p *parkedRecord) []byte {
	dst = append(dst, byte(p.topic)|byte(p.form)<<formShift)
	dst = binary.AppendUvarint(dst, uint64(p.offset))
	dst = binary.AppendVarint(dst, p.timestamp)
	dst = binary.AppendVarint(dst, p.effective)
	dst = binary.AppendVarint(dst, p.deadline-p.effective)
	dst = binary.AppendUvarint(dst, uint64(len(p.value)))
	dst = append(dst, p.value...)
	if p.form == event.Avro {
		dst = binary.AppendUvarint(dst, uint64(len(p.plain)))
		dst = append(dst, p.plain...)
	}
	return dst
}

// formShift is where the byte of a parked record's topic has its form: 0, JSON, in all that versions wrote that knew no other.
const formShift = 4

// decodeEntry reads the stored form of an entry into e. Parked values alias b.
func decodeEntry(b []byte, e *entry) error {
	e.reset()
	d := entryReader{rest: b}
	if d.version = d.byte(); (d.version < 1 || d.version > entryVersion) && d.err == nil {
		return fmt.Errorf("%w: version %d, this program reads up to %d", errEntry, d.version, entryVersion)
	}
	e.kind = kind(d.byte())
	flags := d.flags()
	e.bucket = d.count(math.MaxInt64, "bucket")
	switch {
	case d.err != nil:
	case e.kind < waiting || e.kind > closed:
		d.fail("kind %d", e.kind)
	case e.kind == waiting:
		if flags&(flagForeign-1) != flagParked {
			d.fail("parked records only, but flags %#x", flags)
		}
	default:
		d.impression(e, flags)
	}
	if flags&flagParked != 0 && d.err == nil {
		d.parked(e)
	}
	if flags&flagInParts != 0 && d.count(0, "length of an empty part") == 0 {
		e.inParts = e.count > 0
	}
	if flags&flagExpected != 0 {
		d.expected(e)
	}
	d.foreign(e, flags)
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	if d.err != nil {
		e.reset()
	}
	return d.err
}

// entryReader reads the parts of a stored entry; after its first error it reads zeros.
type entryReader struct {
	version byte
	rest    []byte
	err     error
}

func (d *entryReader) flags() uint64 {
	if d.version == 1 {
		return uint64(d.byte())
	}
	return uint64(d.count(math.MaxInt64, "flags"))
}

// foreign keeps the parts of flags that this version does not know.
func (d *entryReader) foreign(e *entry, flags uint64) {
	whole := d.rest
	e.foreign = flags &^ (flagForeign - 1)
	for range bits.OnesCount64(e.foreign) {
		d.part()
	}
	if d.err == nil {
		e.foreignBytes = append(e.foreignBytes, whole[:len(whole)-len(d.rest)]...)
	}
}

// part reads a part that has its length before it.
func (d *entryReader) part() []byte {
	n := d.count(uint64(len(d.rest)), "length of a part")
	if d.err == nil && n > int64(len(d.rest)) {
		d.fail("a part is cut off")
	}
	if d.err != nil {
		return nil
	}
	part := d.rest[:n]
	d.rest = d.rest[n:]
	return part
}

// expected reads what was expected of each item, or of the selected one. A version that does not know of it leaves it as it was
// when an item is selected, and when the impression ends.
func (d *entryReader) expected(e *entry) {
	r := entryReader{rest: d.part()}
	if e.kind == closed {
		return
	}
	for len(r.rest) > 0 {
		x := r.varint()
		if limit := event.Millionths(event.MaxExpected); x < -limit || x > limit {
			r.fail("%d millionths are expected", x)
		}
		e.expected = append(e.expected, x)
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

func (d *entryReader) impression(e *entry, flags uint64) {
	e.learner = int32(d.count(math.MaxInt32, "learner"))
	e.offset = d.count(math.MaxInt64, "offset")
	e.payoffDeadline = d.varint()
	e.forgetAt = e.payoffDeadline + d.varint()
	if e.began = unknownBegin; d.version > 1 {
		e.began = e.payoffDeadline - d.varint()
	}
	if flags&flagSelectionDeadline != 0 {
		e.hasSelectionDeadline = true
		e.selectionDeadline = e.payoffDeadline - d.varint()
	}
	if e.kind == closed {
		e.outcome = outcome(d.byte())
		e.wasSelected, e.summed = flags&flagSelected != 0, flags&flagSum != 0
		if d.err == nil && (e.outcome == open || e.outcome >= outcomes || flags&(flagForeign-1)&^(flagSelected|flagSum|flagInParts|flagExpected) != 0) {
			d.fail("outcome %d, flags %#x of a closed impression", e.outcome, flags)
		}
		return
	}
	d.decision(e, flags)
	if flags&flagSelected != 0 {
		e.selected = int32(d.count(uint64(math.MaxInt32), "selected position"))
		if d.err == nil && int(e.selected) >= len(e.items) {
			d.fail("position %d selected of %d", e.selected, len(e.items))
		}
	}
	if flags&flagSum != 0 {
		e.sum = d.float()
		e.count = d.count(math.MaxInt64, "payoffs")
		if d.err == nil && e.count == 0 {
			d.fail("a sum of no payoffs")
		}
		for n := d.count(maxEventsPerID, "events"); n > 0 && d.err == nil; n-- {
			e.events = append(e.events, d.word())
		}
		e.weakEvents = len(e.events) > 0 && (d.version == 1 || flags&flagWeakEvents != 0)
	}
}

// decision reads what was decided: items, propensities, instance, ranks, which of them are undecided.
func (d *entryReader) decision(e *entry, flags uint64) {
	n := d.count(uint64(len(d.rest)), "items")
	for range n {
		e.items = append(e.items, int32(d.count(math.MaxInt32, "item")))
	}
	if flags&flagPropensities != 0 {
		for i := int64(0); i < n && d.err == nil; i++ {
			e.propensities = append(e.propensities, d.float())
		}
	}
	if flags&flagInstance != 0 {
		e.instance = int32(d.count(math.MaxInt32, "instance"))
	}
	if flags&flagRanks != 0 {
		for range n {
			e.ranks = append(e.ranks, int32(d.count(uint64(n-1), "rank")))
		}
	}
	if d.err == nil && n == 0 && flags&(flagPropensities|flagRanks) != 0 {
		d.fail("flags %#x without items", flags)
	}
	if flags&flagUndecided != 0 {
		d.undecided(e, n)
	}
}

func (d *entryReader) undecided(e *entry, items int64) {
	if d.err == nil && len(e.ranks) == 0 {
		d.fail("undecided ranks without ranks")
		return
	}
	last := int32(0)
	n := d.count(uint64(max(items-1, 0)), "undecided ranks")
	for range n {
		r := int32(d.count(uint64(items-1), "undecided rank"))
		if d.err == nil && r <= last {
			d.fail("undecided rank %d after %d", r, last)
			return
		}
		e.undecided, last = append(e.undecided, r), r
	}
	if d.err == nil && n == 0 {
		d.fail("no undecided ranks")
	}
}

func (d *entryReader) parked(e *entry) {
	n := d.count(uint64(len(d.rest)), "parked records")
	if n == 0 && d.err == nil {
		d.fail("no parked records")
	}
	for ; n > 0 && d.err == nil; n-- {
		kind := d.byte()
		p := parkedRecord{topic: event.Topic(kind & (1<<formShift - 1)), form: event.Form(kind >> formShift), offset: d.count(math.MaxInt64, "offset"),
			timestamp: d.varint(), effective: d.varint()}
		p.deadline = p.effective + d.varint()
		if p.value = d.content(); d.err == nil && p.form == event.Avro {
			p.plain = d.content()
		}
		if d.err == nil && (p.topic != event.Selections && p.topic != event.Payoffs || p.form >= event.Forms) {
			d.fail("a parked record of topic %d in %s", p.topic, p.form)
		}
		if d.err != nil {
			return
		}
		e.parked = append(e.parked, p)
	}
}

// content reads bytes with their length before them.
func (d *entryReader) content() []byte {
	length := d.count(uint64(len(d.rest)), "length of a parked record")
	if d.err == nil && int(length) > len(d.rest) {
		d.fail("a parked record is cut off")
	}
	if d.err != nil {
		return nil
	}
	b := d.rest[:length:length]
	d.rest = d.rest[length:]
	return b
}

func (d *entryReader) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errEntry, fmt.Sprintf(format, args...))
		d.rest = nil
	}
}

func (d *entryReader) byte() byte {
	if len(d.rest) == 0 {
		d.fail("cut off")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// count reads a number that is not negative and at most limit.
func (d *entryReader) count(limit uint64, what string) int64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("%s is cut off", what)
		return 0
	}
	if v > limit {
		d.fail("%s is %d, at most %d can be", what, v, limit)
		return 0
	}
	d.rest = d.rest[n:]
	return int64(v)
}

func (d *entryReader) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *entryReader) word() uint64 {
	if len(d.rest) < 8 {
		d.fail("cut off")
		return 0
	}
	w := binary.LittleEndian.Uint64(d.rest)
	d.rest = d.rest[8:]
	return w
}

func (d *entryReader) float() float64 {
	f := math.Float64frombits(d.word())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.fail("a number that is not finite")
		return 0
	}
	return f
}
