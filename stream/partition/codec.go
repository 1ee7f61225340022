package partition

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// errEntry is wrapped by every error of decoding stored bytes.
var errEntry = errors.New("partition: stored entry is broken")

// entryVersion is the version of a stored entry. Another version is refused.
//
// The lowest three bits of the first byte hold the version, the next two the kind. For a tombstone two more bits say whether there was a
// selection, and whether a payoff ended it. The highest bit says that flags follow.
//
// A tombstone continues with its learner's number. Its bucket alone says when it is dropped.
//
// A pending impression continues with its learner and its times. The first is counted in milliseconds from the start of its bucket: the
// next deadline, or the time from which deadlines are counted if that is nearer (flagFromBegan). Then come the spans from that time to the
// payoff deadline and, before a selection, to the selection deadline (appendSpan). As the flags say, these follow: offset, items
// (appendPacked), propensities, instance, leaders or ranks, undecided ranks, expected payoffs, sum, parked records, arm and context (appendUnit,
// appendSteps). Integers are varints, zigzag if they may be negative. Floats and event hashes are little endian.
//
// A pending impression of 20 items takes about 50 bytes, 12 after its selection, and a tombstone 2.
const entryVersion = 1

const (
	versionMask  = 7
	kindShift    = 3
	kindMask     = 3
	headSelected = 1 << 5 // of a tombstone
	headPaid     = 1 << 6 // of a tombstone: its payoff ended it
	headFlags    = 1 << 7
)

const (
	flagSelectionDeadline = 1 << iota
	flagSelected
	flagOffset
	flagFromBegan // times are counted from its beginning, not from its next deadline
	flagPropensities
	flagLeaders // ranks are those of leaders alone
	flagParked  // the last flag that fits into the first byte
	flagExpected
	flagRanks
	flagInstance
	flagUndecided
	flagWhole  // all items are kept, although one is selected
	flagNarrow // propensities have 32 bits
	flagOrdered
	flagFavourite
	flagSum
	flagInParts // the sum was fed to the learner
	flagArm     // it is a unit of an experiment
	flagContext // it has a context
	flagRefused // a selection or payoff was refused, since the learner was gone
	flagUnknown // this bit and above
)

// Bounds of the records parked under one id, since an entry is read and written as a whole. A single record may be larger.
const (
	MaxParkedPerID      = 256
	maxParkedBytesPerID = 256 << 10
)

// MaxEventsPerID bounds the payoffs with an event id of one impression, in memory and in stored bytes.
const MaxEventsPerID = 1000

func (e *entry) flags() uint64 {
	var f uint64
	set := func(bit uint64, on bool) {
		if on {
			f |= bit
		}
	}
	set(flagParked, len(e.parked) > 0)
	if e.kind != pending {
		return f
	}
	selected := e.selected >= 0
	set(flagSelectionDeadline, e.hasSelectionDeadline)
	set(flagSelected, selected)
	set(flagOffset, e.offset != unknownOffset)
	set(flagFromBegan, magnitude(e.began-bucketStart(e.bucket)) < magnitude(e.anchor()-bucketStart(e.bucket)))
	set(flagPropensities, len(e.propensities) > 0)
	set(flagNarrow, len(e.propensities) > 0 && narrow32(e.propensities))
	set(flagExpected, len(e.expected) > 0)
	leaders := len(e.ranks) > 0 && ofLeaders(e.ranks)
	set(flagLeaders, leaders)
	set(flagRanks, len(e.ranks) > 0 && !leaders)
	set(flagInstance, e.instance >= 0)
	set(flagUndecided, len(e.undecided) > 0)
	set(flagWhole, selected && !e.alone)
	set(flagOrdered, e.ordered)
	set(flagFavourite, e.favourite)
	set(flagSum, e.count > 0)
	set(flagInParts, e.inParts)
	set(flagArm, e.arm != noArm)
	set(flagContext, e.hasContext)
	set(flagRefused, e.refused)
	return f
}

func magnitude(x int64) uint64 { return uint64(max(x, -x)) }

func narrow32(all []float64) bool {
	return !slices.ContainsFunc(all, func(x float64) bool { return float64(float32(x)) != x })
}

// anchor returns the deadline that sets a pending impression's bucket.
func (e *entry) anchor() event.Millis {
	if e.selected < 0 && e.hasSelectionDeadline {
		return e.selectionDeadline
	}
	return e.payoffDeadline
}

// appendEntry appends the stored form of e, whose kind is not nothing.
func appendEntry(dst []byte, e *entry) []byte {
	flags, head := e.flags(), byte(entryVersion|e.kind<<kindShift)
	if flags != 0 {
		head |= headFlags
	}
	if e.kind == tombstone && e.wasSelected {
		head |= headSelected
	}
	if e.kind == tombstone && e.paidOnce {
		head |= headPaid
	}
	dst = append(dst, head)
	if flags != 0 {
		dst = binary.AppendUvarint(dst, flags)
	}
	if e.kind != parkedOnly {
		dst = binary.AppendUvarint(dst, uint64(e.learner))
	}
	if e.kind == pending {
		dst = appendImpression(dst, e, flags)
	}
	if len(e.parked) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.parked)))
		for i := range e.parked {
			dst = appendParked(dst, &e.parked[i])
		}
	}
	if flags&flagArm != 0 {
		dst = appendUnit(dst, e)
	}
	if flags&flagContext != 0 {
		dst = appendSteps(dst, e)
	}
	return dst
}

// appendUnit appends an entry's arm, its covariate and, for a group of users, the group and the period, preceded by their length.
func appendUnit(dst []byte, e *entry) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(binary.AppendUvarint(append(dst, 0), uint64(e.arm)), uint64(e.covariate))
	if e.group != 0 || e.period != 0 {
		dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(e.group)), e.period)
	}
	dst[start] = byte(len(dst) - start - 1) // at most 21
	return dst
}

// appendSteps appends an entry's context, preceded by its length: the number of the user's steps, then all steps.
func appendSteps(dst []byte, e *entry) []byte {
	dst = binary.AppendUvarint(dst, uint64(1+len(e.context)))
	dst = append(dst, byte(e.ofUser)) // below features.MaxDim
	for _, k := range e.context {
		dst = append(dst, byte(k))
	}
	return dst
}

func appendImpression(dst []byte, e *entry, flags uint64) []byte {
	if flags&flagFromBegan != 0 {
		dst = binary.AppendVarint(dst, e.began-bucketStart(e.bucket))
	} else {
		dst = binary.AppendVarint(dst, e.anchor()-bucketStart(e.bucket))
	}
	dst = appendSpan(dst, e.payoffDeadline-e.began)
	if e.hasSelectionDeadline && e.selected < 0 {
		dst = appendSpan(dst, e.selectionDeadline-e.began)
	}
	if e.offset != unknownOffset {
		dst = binary.AppendUvarint(dst, uint64(e.offset))
	}
	if e.alone {
		dst = binary.AppendUvarint(dst, uint64(e.items[0]))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(e.items)))
		dst = appendPacked(dst, e.items)
	}
	if e.selected >= 0 && !e.alone {
		dst = binary.AppendUvarint(dst, uint64(e.selected))
	}
	for _, p := range e.propensities {
		if flags&flagNarrow != 0 {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(p)))
		} else {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p))
		}
	}
	if e.instance >= 0 {
		dst = binary.AppendUvarint(dst, uint64(e.instance))
	}
	switch {
	case flags&flagLeaders != 0:
		dst = appendLeaders(dst, e.ranks)
	case flags&flagRanks != 0:
		dst = appendPacked(dst, e.ranks)
	}
	if len(e.undecided) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.undecided)))
		for _, r := range e.undecided {
			dst = binary.AppendUvarint(dst, uint64(r))
		}
	}
	for _, x := range e.expected {
		dst = binary.AppendVarint(dst, x)
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

// units are the units in which spans are stored, in milliseconds: timeouts and horizons are mostly round.
var units = [...]event.Millis{1, 1000, 60_000, 3_600_000}

// appendSpan appends a span in the largest unit that divides it, with the unit's number in the lowest two bits. In milliseconds the span is
// zigzag-coded, since it may be negative.
func appendSpan(dst []byte, span event.Millis) []byte {
	if span > 0 {
		for unit := len(units) - 1; unit > 0; unit-- {
			if span%units[unit] == 0 {
				return binary.AppendUvarint(dst, uint64(span/units[unit])<<2|uint64(unit))
			}
		}
	}
	return binary.AppendUvarint(dst, uint64(span<<1^span>>63)<<2)
}

// appendPacked appends numbers ≥ 0: the bit width of the largest, then each number in that width, from the lowest bit of each byte on.
func appendPacked(dst []byte, numbers []int32) []byte {
	if len(numbers) == 0 {
		return dst
	}
	all := uint32(1)
	for _, x := range numbers {
		all |= uint32(x)
	}
	width := bits.Len32(all)
	dst = append(dst, byte(width))
	var have int
	var word uint64
	for _, x := range numbers {
		word |= uint64(x) << have
		for have += width; have >= 8; have -= 8 {
			dst = append(dst, byte(word))
			word >>= 8
		}
	}
	if have > 0 {
		dst = append(dst, byte(word))
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

const formShift = 4
