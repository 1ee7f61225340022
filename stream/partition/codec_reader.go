package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// decodeEntry reads the stored form of an entry of a bucket into e. Parked values alias b.
func decodeEntry(b []byte, bucket int64, e *entry) error {
	e.reset()
	e.bucket = bucket
	d := entryReader{binaryReader{rest: b}}
	head := d.byte()
	if version := head & versionMask; d.err == nil && version != entryVersion {
		d.fail("version %d, this program reads %d", version, entryVersion)
	}
	if d.err == nil {
		d.entry(e, head)
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	if d.err != nil {
		e.reset()
	}
	return d.failure(errEntry)
}

// entryReader reads the parts of a stored entry.
type entryReader struct{ binaryReader }

func (d *entryReader) entry(e *entry, head byte) {
	e.kind = kind(head >> kindShift & kindMask)
	var flags uint64
	if head&headFlags != 0 {
		if flags = uint64(d.count(math.MaxInt64, "flags")); flags == 0 {
			d.fail("no flags")
		}
	}
	switch {
	case d.err != nil:
		return
	case flags >= flagUnknown:
		d.fail("flags %#x", flags)
	case e.kind == nothing || e.kind != tombstone && head&(headSelected|headPaid) != 0:
		d.fail("first byte %#x", head)
	case e.kind == parkedOnly && flags != flagParked, e.kind == tombstone && flags&^flagParked != 0:
		d.fail("kind %d, but flags %#x", e.kind, flags)
	}
	if e.kind != parkedOnly {
		e.learner = int32(d.count(math.MaxInt32, "learner"))
	}
	switch e.kind {
	case tombstone:
		e.wasSelected, e.paidOnce, e.forgetAt = head&headSelected != 0, head&headPaid != 0, bucketEnd(e.bucket)
	case pending:
		d.impression(e, flags)
	}
	if flags&flagParked != 0 && d.err == nil {
		d.parked(e)
	}
	if flags&flagArm != 0 && d.err == nil {
		d.unit(e)
	}
	if flags&flagContext != 0 && d.err == nil {
		d.steps(e)
	}
}

func (d *entryReader) unit(e *entry) {
	r := binaryReader{rest: d.part("length of a part")}
	e.arm, e.covariate = int32(r.count(math.MaxInt32, "arm")), int32(r.count(1_000_000, "covariate"))
	if len(r.rest) > 0 {
		e.group, e.period = int32(r.count(experiment.GroupCount-1, "group")), r.varint()
	}
	if n := len(r.rest); n > 0 {
		r.fail("%d bytes too many", n)
	}
	if r.err != nil {
		d.fail("an arm of an experiment: %w", r.err)
	}
}

func (d *entryReader) steps(e *entry) {
	part := d.part("length of a part")
	if d.err != nil {
		return
	}
	if len(part) == 0 || int(part[0]) > len(part)-1 {
		d.fail("a context of %d bytes", len(part))
		return
	}
	e.hasContext, e.ofUser = true, int(part[0])
	for _, k := range part[1:] {
		e.context = append(e.context, int8(k))
	}
	if rest, n := len(e.context)-e.ofUser, len(e.items); e.selected < 0 && (n == 0 || rest%n != 0) {
		d.fail("a context of %d steps for %d items", rest, n)
	}
}

func (d *entryReader) impression(e *entry, flags uint64) {
	e.hasSelectionDeadline = flags&flagSelectionDeadline != 0
	selected, whole := flags&flagSelected != 0, flags&flagWhole != 0
	d.times(e, flags)
	if flags&flagOffset != 0 {
		e.offset = d.count(math.MaxInt64, "offset")
	}
	if e.alone = selected && !whole; e.alone {
		e.items, e.selected = append(e.items, int32(d.count(math.MaxInt32, "item"))), 0
	} else if n := d.count(math.MaxInt32, "items"); n > 0 {
		e.items = d.packed(e.items, n, math.MaxInt32, "item")
	}
	if whole && (!selected || len(e.items) == 0) {
		d.fail("flags %#x of %d items", flags, len(e.items))
	}
	if whole && d.err == nil {
		e.selected = int32(d.count(uint64(len(e.items)-1), "selected position"))
	}
	d.decision(e, flags)
	e.ordered, e.favourite, e.refused = flags&flagOrdered != 0, flags&flagFavourite != 0, flags&flagRefused != 0
	if d.err == nil && (e.ordered && !selected || e.favourite && !e.ordered) {
		d.fail("flags %#x", flags)
	}
	if flags&flagSum != 0 {
		d.payoffs(e)
	}
	e.inParts = flags&flagInParts != 0
	if d.err == nil && e.inParts && e.count == 0 {
		d.fail("flags %#x of %d payoffs", flags, e.count)
	}
}

func (d *entryReader) times(e *entry, flags uint64) {
	at := bucketStart(e.bucket) + d.varint()
	horizon, timeout, awaited := d.span(), event.Millis(0), e.hasSelectionDeadline && flags&flagSelected == 0
	if awaited {
		timeout = d.span()
	}
	switch {
	case flags&flagFromBegan != 0:
		e.began = at
	case awaited:
		e.began = at - timeout
	default:
		e.began = at - horizon
	}
	e.payoffDeadline = e.began + horizon
	if awaited {
		e.selectionDeadline = e.began + timeout
	}
}

func (d *entryReader) span() event.Millis {
	v := uint64(d.count(math.MaxUint64, "a span of time"))
	unit, v := v&3, v>>2
	if unit == 0 {
		return event.Millis(v>>1) ^ -event.Millis(v&1)
	}
	return event.Millis(v) * units[unit]
}

func (d *entryReader) packed(dst []int32, n int64, limit int64, what string) []int32 {
	width := int64(d.byte())
	if width < 1 || width > 31 || n > 8*int64(len(d.rest))/width {
		d.fail("%d numbers of %d bits in %d bytes", n, width, len(d.rest))
		return dst
	}
	var have int64
	var word uint64
	at := 0
	for range n {
		for ; have < width; have += 8 {
			word |= uint64(d.rest[at]) << have
			at++
		}
		x := int64(word & (1<<width - 1))
		if x > limit {
			d.fail("%s is %d, at most %d can be", what, x, limit)
			return dst
		}
		dst = append(dst, int32(x))
		word >>= width
		have -= width
	}
	d.rest = d.rest[at:]
	return dst
}

func (d *entryReader) decision(e *entry, flags uint64) {
	n := int64(len(e.items))
	each := n // values kept for the selected item alone
	if e.selected >= 0 {
		each = 1
	}
	if d.err == nil && (n == 0 && flags&(flagPropensities|flagLeaders|flagRanks|flagExpected) != 0 || e.alone && flags&(flagLeaders|flagRanks|flagUndecided) != 0) {
		d.fail("flags %#x of %d items", flags, n)
	}
	if flags&flagPropensities != 0 {
		for i := int64(0); i < each && d.err == nil; i++ {
			e.propensities = append(e.propensities, d.propensity(flags&flagNarrow != 0))
		}
	}
	if flags&flagInstance != 0 {
		e.instance = int32(d.count(math.MaxInt32, "instance"))
	}
	switch {
	case d.err != nil:
	case flags&flagLeaders != 0:
		e.ranks = d.leaders(e.ranks, int(n))
	case flags&flagRanks != 0:
		e.ranks = d.packed(e.ranks, n, n-1, "rank")
	}
	if flags&flagUndecided != 0 {
		d.undecided(e, n)
	}
	if flags&flagExpected != 0 {
		for i := int64(0); i < each && d.err == nil; i++ {
			e.expected = append(e.expected, d.millionths())
		}
	}
}

func (d *entryReader) propensity(narrow bool) float64 {
	if narrow {
		return d.finite(float64(math.Float32frombits(d.fixed32())))
	}
	return d.finite(math.Float64frombits(d.fixed64()))
}

func (d *entryReader) finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.fail("a number that is not finite")
		return 0
	}
	return f
}

func (d *entryReader) millionths() int64 {
	x := d.varint()
	if limit := event.Millionths(event.MaxExpected); x < -limit || x > limit {
		d.fail("%d millionths are expected", x)
	}
	return x
}

func (d *entryReader) payoffs(e *entry) {
	e.sum = d.finite(math.Float64frombits(d.fixed64()))
	e.count = d.count(math.MaxInt64, "payoffs")
	if d.err == nil && e.count == 0 {
		d.fail("a sum of no payoffs")
	}
	for n := d.count(MaxEventsPerID, "events"); n > 0 && d.err == nil; n-- {
		e.events = append(e.events, d.fixed64())
	}
}

func (d *entryReader) undecided(e *entry, items int64) {
	if d.err == nil && len(e.ranks) == 0 {
		d.fail("undecided ranks without ranks")
		return
	}
	last := int32(0)
	n := d.count(uint64(max(items-1, 0)), "undecided ranks")
	if n == 1 {
		last = -1
	}
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
		if p.value = d.part("length of a parked record"); d.err == nil && p.form == event.Avro {
			p.plain = d.part("length of a parked record")
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

// leaders reads n ranks that appendLeaders wrote.
func (d *entryReader) leaders(dst []int32, n int) []int32 {
	from := 0
	for i := range n {
		dst = append(dst, int32(i))
	}
	for first := 1; d.err == nil; first += leaderBits {
		group := d.byte()
		for bit := range leaderBits {
			if group>>bit&1 == 0 {
				continue
			}
			next := first + bit
			if next >= n {
				d.fail("position %d of %d leads", next, n)
				return dst
			}
			fillBehind(dst, from, next)
			from = next
		}
		if group>>leaderBits == 0 {
			if group == 0 && first > 1 {
				d.fail("no leader in the last byte")
			}
			break
		}
	}
	fillBehind(dst, from, n)
	return dst
}
