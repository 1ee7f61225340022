package checker

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// kind is the kind of a stored entry.
type kind byte

const (
	parkedOnly kind = 1 // parked records only
	pending    kind = 2
	tombstone  kind = 3 // a tombstone
)

// entry is the stored value of an impression id.
type entry struct {
	kind         kind
	id           string // of its impression
	page         string // its page
	bucket       int64  // of the page
	learner      int32
	offset       int64 // -1: not kept
	payDeadline  event.Millis
	began        event.Millis
	hasSelection bool         // it has a selection deadline, or had one
	selDeadline  event.Millis // until a selection
	forgetAt     event.Millis // of a tombstone
	wasSelected  bool         // of a tombstone
	paidOnce     bool         // of a tombstone: its payoff ended it
	items        []int32
	alone        bool // items holds the selected item only
	propensities []float64
	instance     int32 // -1: none
	ranks        []int32
	undecided    []int32
	expected     []int64 // millionths, by position, or of the selected item only
	selected     int32   // position in items, -1: none
	ordered      bool    // after a selection: the order of utilities was known
	favourite    bool    // and the selected item was first in it
	sum          float64
	count        int64
	inParts      bool // sum was fed to the learner
	events       []uint64
	parked       []parked
	storedUnit
	hasContext bool
	context    []int8 // the user's steps, then each item's, or the selected item's only
	ofUser     int    // the number of the user's steps
}

// storedUnit is an entry's part in an experiment.
type storedUnit struct {
	inExperiment bool
	arm          int32 // its place in the stored table of arms
	covariate    int32 // in units of 10⁻⁶
}

// parked is a record parked under an id.
type parked struct {
	topic               event.Topic
	offset              int64
	effective, deadline event.Millis
	value               []byte
	form                event.Form
	plain               []byte
}

var errEntry = errors.New("the stored entry is broken")

const (
	flagSelectionDeadline = 1 << iota
	flagSelected
	flagOffset
	flagFromBegan
	flagPropensities
	flagLeaders
	flagParked
	flagExpected
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
	flagRefused
	flagUnknown // this bit and above
)

// cursor reads a stored entry. After its first error it returns zeros.
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

// fixed reads n bytes; zeros after an error.
func (c *cursor) fixed(n int) []byte {
	if b := c.take(n); b != nil {
		return b
	}
	return make([]byte, n)
}

func (c *cursor) byte() byte { return c.fixed(1)[0] }

func (c *cursor) word() uint64 { return binary.LittleEndian.Uint64(c.fixed(8)) }

func (c *cursor) half() uint32 { return binary.LittleEndian.Uint32(c.fixed(4)) }

func (c *cursor) float() float64 { return math.Float64frombits(c.word()) }

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	c.take(cmp.Or(max(n, 0), -1))
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	c.take(cmp.Or(max(n, 0), -1))
	return v
}

// length reads a count of things that take at least a byte each.
func (c *cursor) length() int {
	n := c.uvarint()
	if n > uint64(len(c.b)) {
		c.take(-1)
		return 0
	}
	return int(n)
}

// decodeEntry decodes a stored entry. The first byte has the version, 1, in three bits, the kind in two, and
// for a tombstone whether there was a selection and whether a payoff ended it. Its highest bit says that
// flags follow, a uvarint. All numbers are uvarints unless said otherwise. The learner's number comes next,
// unless the entry is waiting. A tombstone ends here: it is dropped at the end of its page's bucket. Pending:
//
//	a time from the bucket's beginning (varint): with flagFromBegan its own beginning, else the next deadline; the span from its
//	beginning to the payoff deadline and, before a selection, to the selection deadline;
//	with flagOffset the offset; the selected item, or the items shown (count, packed) and with flagWhole the position selected;
//	with flagPropensities a float64 each, with flagNarrow a float32, after a selection one; with flagInstance the instance;
//	with flagLeaders the positions that lead (see leaders); with flagRanks a utility rank each (packed); with flagUndecided the
//	uncertain ranks (count before); with flagExpected the expected payoffs in units of 10⁻⁶ (varints),
//	after a selection one; with flagSum the sum (float64), the number of payoffs, and the 8-byte hashes of their event ids (count before).
//	With flagRefused a selection or payoff was refused with learner_gone.
//
// With flagParked, all but tombstones continue with the parked records (count before). Of each: topic (a byte, plus 16 times the form),
// offset, timestamp (varint), effective time (varint), length of the wait (varint), value (length before). For Avro its Protobuf form
// follows (length before). With flagArm the arm's place in the stored table, the covariate and, by user, group and period
// (varint) follow (length before). With flagContext follow the number of the user's steps (a byte) and all steps (signed bytes), length before.
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
	case e.kind < parkedOnly || e.kind > tombstone:
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
	if e.kind != parkedOnly {
		e.learner = int32(c.uvarint())
	}
	if e.kind == tombstone {
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
		e.inExperiment, e.arm, e.covariate = true, int32(part.uvarint()), int32(part.uvarint())
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

// span reads a span: the lowest two bits name its unit: milliseconds (zigzag), seconds, minutes, hours.
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

// packed reads n numbers; the first byte is their width in bits, the lowest bits come first.
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

// leaders reads which of n positions lead, from the second on: a bit each, seven in a byte. Its highest bit says that a further one follows. It
// returns the order that is kept.
func (c *cursor) leaders(n int) []int32 {
	lead := []int{0}
	for first, more := 1, true; more && c.err == nil; first += 7 {
		b := c.byte()
		more = b&128 != 0
		for bit := range 7 {
			if b>>bit&1 != 0 {
				lead = append(lead, first+bit)
			}
		}
	}
	if lead[len(lead)-1] >= n {
		c.take(-1)
		return nil
	}
	return keptOrder(lead, n)
}

// keptOrder returns the utility ranks that an entry keeps where only the leaders count. The items between two leaders are those just below the
// first, in the order shown.
func keptOrder(leaders []int, n int) []int32 {
	ranks := make([]int32, n)
	for k, from := range leaders {
		next := n
		if k+1 < len(leaders) {
			next = leaders[k+1]
		}
		ranks[from] = int32(next - 1)
		for at := from + 1; at < next; at++ {
			ranks[at] = int32(at - 1)
		}
	}
	return ranks
}

// leadersOf returns the positions whose rank is above all before them.
func leadersOf(ranks []int32) (leaders []int) {
	top := int32(-1)
	for at, rank := range ranks {
		if rank > top {
			leaders, top = append(leaders, at), rank
		}
	}
	return leaders
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
			e.propensities = append(e.propensities, float64(math.Float32frombits(c.half())))
		} else {
			e.propensities = append(e.propensities, c.float())
		}
	}
	if has(flagInstance) {
		e.instance = int32(c.uvarint())
	}
	if has(flagLeaders) {
		e.ranks = c.leaders(len(e.items))
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

// item returns the number of the selected item.
func (e *entry) item() int64 { return int64(e.items[e.selected]) }

// nextDeadline returns the watermark above which the entry changes next.
func (e *entry) nextDeadline() event.Millis {
	switch {
	case e.kind == parkedOnly:
		next := int64(math.MaxInt64)
		for i := range e.parked {
			next = min(next, e.parked[i].deadline)
		}
		return next
	case e.kind == tombstone:
		return e.forgetAt
	case e.selected < 0 && e.hasSelection:
		return min(e.selDeadline, e.payDeadline)
	}
	return e.payDeadline
}

// storedID returns the stored form of an impression id. A lower-case UUID of RFC 9562's variant is stored by its bytes. Any other id is
// stored by the first 16 bytes of its SHA-256, with the first two bits of the ninth set.
func storedID(text string) string {
	if uuid.MatchString(text) {
		if b, err := hex.DecodeString(strings.ReplaceAll(text, "-", "")); err == nil {
			return string(b)
		}
	}
	sum := sha256.Sum256([]byte(text))
	sum[8] |= 0xc0
	return string(sum[:16])
}

// bucketWidth is the width of the narrowest bucket.
const bucketWidth event.Millis = 10_000

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
