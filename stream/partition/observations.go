package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// What a partition has seen, besides the records that its steps tell of, is all else that its decisions depend on and the topics do not
// hold: which statistics of other partitions were taken in when, which deadlines the walk over them came by when, when event time was
// acted upon between two records, and which of its own changes made up which checkpoint. Rankings carry it in a header beside that of
// the steps. With both a replay does what the owner did, call for call, and so comes to the same rankings bit for bit.
//
// The header holds tokens of one byte, the kind in the high three bits and a number in the low five, some with varints behind. Between
// tokens stands how many records were stepped: those of the steps, ranked impressions among them. What is seen is told for the life of a
// machine, from Seen on, ranked or adopted: so that a new owner tells what it saw while it adopted decisions of an earlier one.
const (
	seenRecords   = 0 // so many records were stepped; 0: uvarint
	seenWatermark = 1 // uvarint: event time had come further by so many ms since it was acted upon last, and was acted upon
	seenVisits    = 2 // so many impressions ended since their deadlines were past: zigzag varints, offsets from the last
	seenEnds      = 3 // likewise, of which the offset is not kept: the id of each
	seenSent      = 4 // so many of the oldest sealed segments were sent to the store as one checkpoint; 0: uvarint
	seenEpoch     = 5 // the process's knowledge was at another epoch, with so many estimates made; 31: uvarint. Changes of sources, and the estimates' numbers
	seenImport    = 6 // what a source published was taken in by learners that do not share; the source, 31: uvarint
	seenNote      = 7 // one of the following
)

// The notes that a token of the kind seenNote makes.
const (
	seenBegin = 1 // a machine began: absolute values
	seenGap   = 2 // uvarint: what was seen up to here is not told, but for the machine's beginning; so many segments were sealed by then
	seenSeal  = 4 // a segment was sealed
	seenWalk  = 5 // uvarint: the walk closed so many buckets more
	seenStand = 6 // how far the process's knowledge was told of all sources, and what it has estimated
)

const (
	maxSeen     = 16 << 10 // bounds what an owner keeps while it adopts; see tellAt for later
	seenVersion = 1
	// standsEvery is after how many seals at most it is told anew how far all sources are known, which a replay that begins with a base
	// needs. It is told more often while a machine is young, and ever less often while nothing is decided.
	standsEvery = 128
)

// ObservationBegin says of a machine what a replay needs to begin it.
type ObservationBegin struct {
	// Writer tells owners apart: a hash of the token that the store gave, see WriterOf.
	Writer uint32
	// Seq is that of the checkpoint that was loaded. LoadedWriter and LoadedSeal name the seal that was the last of it: by whom, and
	// how many there were before. Fresh says that nothing was stored, and Unknown that what was stored does not say.
	Seq            int64
	LoadedWriter   uint32
	LoadedSeal     uint64
	Fresh, Unknown bool
	Inputs         [event.Inputs]int64 // from where on records are stepped
	Watermark      event.Millis
	Salt           uint64
	// Program names the program and the kind of processor, and Settings those settings on which decisions depend.
	Program, Settings string
}

// WriterOf tells owners apart by the tokens that the store gives them.
func WriterOf(token string) uint32 { return uint32(xxhash.Sum64String(token)) }

// MadeBy tells programs, kinds of processors and settings apart: a hash of SeenBegin's Program and Settings.
func MadeBy(program, settings string) uint32 {
	return uint32(xxhash.Sum64String(program + "\x00" + settings))
}

// SourceAt is how far a source is known: up to a checkpoint, whole, or where it is told anew, so many parts of what there is.
type SourceAt struct {
	Known  bool
	Writer uint32
	Seq    int64
	Whole  bool
	Parts  int
	// Over says of one that is told anew that it is known from before, whole up to a checkpoint.
	Over       bool
	OverWriter uint32
	OverSeq    int64
}

// ImportMode says what of a source an import has taken in.
type ImportMode uint8

// The modes of imports.
const (
	ImportDelta       ImportMode = iota // what one checkpoint published
	ImportAll                           // all that is published as of a checkpoint
	ImportInformative                   // likewise, without what PublishedReader.Informative leaves out
)

// Import is a part of what a source has published. Parts are of PublishedAtOnce each.
type Import struct {
	Source int32
	Mode   ImportMode
	Writer uint32
	Seq    int64
	Part   int  // from 0 on
	Last   bool // there are no more
}

// PublishedAtOnce is how much of what a source has published a machine, or a PooledState, is told at a time.
const PublishedAtOnce = 2000

// observationLog collects tokens. The zero value collects none.
type observationLog struct {
	on           bool
	gaps         int64 // how often something was left out
	writer       uint32
	madeBy       uint32 // see MadeBy
	loadedWriter uint32
	sealed       uint64 // segments, by all owners
	unsent       uint64 // of these, that have not been sent
	known        bool   // the stored ones are those of the loaded state
	tokens       []byte
	standing     int          // seals since it was told how far all sources are known
	nextStand    int          // after how many it is told again
	records      int64        // stepped since the last token
	watermark    event.Millis // acted upon last
	visited      int64        // offset of the last impression that a token says was visited
	visits       int          // where the last token stands, if it is of visits; else -1

	epoch   []SourceAt // by source, as the tokens say
	imports struct {
		at    []SourceAt // by source
		chain int        // where the number of deltas of the last token stands; -1: it is not of deltas
		of    int32
	}
}

// begin writes how many records were stepped since the last token. It is false where nothing is told.
func (s *observationLog) begin() bool {
	if !s.on {
		return false
	}
	if len(s.tokens) > maxSeen {
		s.lose()
	}
	if n := s.records; n > 0 {
		s.records = 0
		if n <= 31 {
			s.tokens = append(s.tokens, byte(n))
		} else {
			s.tokens = binary.AppendUvarint(append(s.tokens, 0), uint64(n))
		}
	}
	s.visits, s.imports.chain = -1, -1
	return true
}

// stepped counts a record, for which event time was acted upon.
func (s *observationLog) stepped(w event.Millis) {
	s.records++
	s.watermark = w
}

// decided counts a decision: how far all sources are known is told soon.
func (s *observationLog) decided() { s.nextStand = min(s.nextStand, standsEvery) }

// lose leaves out what was seen since the last record that carried it, and notes that. The machine's beginning stays, if it is among that: a
// replay needs to know whose decisions this machine adopts.
func (s *observationLog) lose() {
	s.gaps++
	s.standing, s.nextStand = 0, 1
	var begun *ObservationBegin
	for r := NewSeenReader(s.tokens); ; {
		sight, more, err := r.Next()
		if !more || err != nil {
			break
		}
		if sight.Kind == SeenBegun {
			begun = &sight.Begin
		}
	}
	if s.tokens = s.tokens[:0]; begun != nil {
		s.tokens = appendBegin(s.tokens, begun)
	}
	s.tokens = binary.AppendUvarint(append(s.tokens, seenNote<<5|seenGap), s.sealed)
	s.visits, s.imports.chain = -1, -1
}

// acted notes that event time was acted upon between two records.
func (s *observationLog) acted(w event.Millis) {
	if w == s.watermark || !s.begin() {
		return
	}
	s.tokens = binary.AppendUvarint(append(s.tokens, seenWatermark<<5), uint64(w-s.watermark))
	s.watermark = w
}

// visit notes that an impression ended between two records, since its deadline was past.
func (s *observationLog) visit(id state.ID, offset int64) {
	if !s.on {
		return
	}
	kind := byte(seenVisits << 5)
	if offset == unknownOffset {
		kind = seenEnds << 5
	}
	if s.visits < 0 || s.records > 0 || s.tokens[s.visits]&^31 != kind || s.tokens[s.visits]&31 == 31 {
		if !s.begin() {
			return
		}
		s.visits = len(s.tokens)
		s.tokens = append(s.tokens, kind)
	}
	s.tokens[s.visits]++
	if offset == unknownOffset {
		s.tokens = append(s.tokens, id[:]...)
		return
	}
	s.tokens = binary.AppendVarint(s.tokens, offset-s.visited)
	s.visited = offset
}

// seal notes that a segment is sealed.
func (s *observationLog) seal() {
	if s.begin() {
		s.tokens = append(s.tokens, seenNote<<5|seenSeal)
	}
	s.sealed++
	s.unsent++
}

// standsNext tells whether the next seal is one behind which it may be told how far all sources are known.
func (s *observationLog) standsNext() bool { return s.on && s.standing+1 >= s.nextStand }

// stands tells how far all sources are known, and what was estimated of them, now and then: behind a seal, where nothing is told of a
// source in part.
func (s *observationLog) stands(k *PooledState) {
	due := s.standsNext()
	s.standing++
	if !due || slices.ContainsFunc(s.epoch, partly) || !s.begin() {
		return
	}
	s.standing, s.nextStand = 0, 2*s.nextStand
	s.tokens = append(s.tokens, seenNote<<5|seenStand)
	n := 0
	for p := range s.epoch {
		if s.epoch[p].Known {
			n++
		}
	}
	s.tokens = binary.AppendUvarint(s.tokens, uint64(n))
	last := -1
	for p := range s.epoch {
		if s.epoch[p].Known {
			s.tokens = appendSource(s.tokens, p-last-1, &SourceAt{}, &s.epoch[p])
			last = p
		}
	}
	if k == nil {
		s.tokens = append(s.tokens, 0)
		return
	}
	all := k.estimating()
	s.tokens = binary.AppendUvarint(s.tokens, uint64(len(all)))
	for _, w := range all {
		text := w.AppendEstimate(nil)
		s.tokens = append(binary.AppendUvarint(s.tokens, uint64(len(text))), text...)
	}
}

// partly tells whether a source is known in part.
func partly(at SourceAt) bool { return at.Known && !at.Whole }

// walked notes that the walk closed so many buckets.
func (s *observationLog) walked(by int64) {
	if by > 0 && s.begin() {
		s.tokens = binary.AppendUvarint(append(s.tokens, seenNote<<5|seenWalk), uint64(by))
	}
}

// sent notes that so many segments are sent as one checkpoint.
func (s *observationLog) sent(n int) {
	s.unsent -= min(s.unsent, uint64(n))
	if !s.begin() {
		return
	}
	if n <= 31 {
		s.tokens = append(s.tokens, seenSent<<5|byte(n))
		return
	}
	s.tokens = binary.AppendUvarint(append(s.tokens, seenSent<<5), uint64(n))
}

// turn notes that knowledge was at an epoch, and which estimates it made that hold still.
func (s *observationLog) turn(at []SourceAt, made []int) {
	if !s.begin() {
		return
	}
	for len(s.epoch) < len(at) {
		s.epoch = append(s.epoch, SourceAt{})
	}
	if n := len(made); n < 31 {
		s.tokens = append(s.tokens, seenEpoch<<5|byte(n))
	} else {
		s.tokens = binary.AppendUvarint(append(s.tokens, seenEpoch<<5|31), uint64(n))
	}
	changes := 0
	for p := range at {
		if s.epoch[p] != at[p] {
			changes++
		}
	}
	s.tokens = binary.AppendUvarint(s.tokens, uint64(changes))
	last := -1
	for p := range at {
		if s.epoch[p] != at[p] {
			s.tokens = appendSource(s.tokens, p-last-1, &s.epoch[p], &at[p])
			last, s.epoch[p] = p, at[p]
		}
	}
	last = -1
	for _, n := range made {
		s.tokens = binary.AppendUvarint(s.tokens, uint64(n-last-1))
		last = n
	}
}

// appendSource appends that a source, so many behind the last, has come from before to at.
func appendSource(dst []byte, gap int, before, at *SourceAt) []byte {
	var by int64
	if before.Known && at.Known && before.Whole && at.Whole && before.Writer == at.Writer && at.Seq > before.Seq {
		by = at.Seq - before.Seq
	}
	dst = binary.AppendUvarint(dst, uint64(by)<<2|uint64(min(gap, 3)))
	if gap >= 3 {
		dst = binary.AppendUvarint(dst, uint64(gap-3))
	}
	if by > 0 {
		return dst
	}
	switch {
	case !at.Known:
		return append(dst, 0)
	case at.Whole:
		dst = append(dst, 1)
	case at.Over:
		dst = append(dst, 3)
	default:
		dst = append(dst, 2)
	}
	dst = binary.LittleEndian.AppendUint32(dst, at.Writer)
	dst = binary.AppendUvarint(dst, uint64(at.Seq))
	if !at.Whole {
		dst = binary.AppendUvarint(dst, uint64(at.Parts))
	}
	if at.Over {
		dst = binary.LittleEndian.AppendUint32(dst, at.OverWriter)
		dst = binary.AppendUvarint(dst, uint64(at.OverSeq))
	}
	return dst
}

// took notes an import.
func (s *observationLog) took(i *Import) {
	if !s.on {
		return
	}
	of := &s.imports
	for len(of.at) <= int(i.Source) {
		of.at = append(of.at, SourceAt{})
	}
	at := &of.at[i.Source]
	chains := i.Mode == ImportDelta && i.Part == 0 && i.Last && at.Known && at.Writer == i.Writer && at.Seq+1 == i.Seq
	*at = SourceAt{Known: i.Last, Writer: i.Writer, Seq: i.Seq}
	if chains && of.chain >= 0 && of.of == i.Source && s.records == 0 && s.tokens[of.chain] < 0x7e {
		s.tokens[of.chain] += 2
		return
	}
	if !s.begin() {
		return
	}
	if i.Source < 31 {
		s.tokens = append(s.tokens, seenImport<<5|byte(i.Source))
	} else {
		s.tokens = binary.AppendUvarint(append(s.tokens, seenImport<<5|31), uint64(i.Source))
	}
	if chains {
		of.chain, of.of = len(s.tokens), i.Source
		s.tokens = append(s.tokens, 1<<1)
		return
	}
	last := byte(0)
	if i.Last {
		last = 8
	}
	s.tokens = append(s.tokens, 1|byte(i.Mode)<<1|last)
	s.tokens = binary.LittleEndian.AppendUint32(s.tokens, i.Writer)
	s.tokens = binary.AppendUvarint(s.tokens, uint64(i.Seq))
	s.tokens = binary.AppendUvarint(s.tokens, uint64(i.Part))
}

// started notes that a machine begins.
func (s *observationLog) started(b *ObservationBegin) {
	if !s.known {
		s.tokens = s.tokens[:0]
	}
	s.on, s.writer, s.watermark, s.visited, s.records, s.unsent = true, b.Writer, b.Watermark, 0, 0, 0
	s.madeBy, s.standing, s.nextStand = MadeBy(b.Program, b.Settings), 0, 1
	s.visits, s.imports.chain = -1, -1
	s.epoch, s.imports.at = s.epoch[:0], s.imports.at[:0]
	s.tokens = appendBegin(s.tokens, b)
}

// appendBegin appends that a machine began.
func appendBegin(t []byte, b *ObservationBegin) []byte {
	t = append(t, seenNote<<5|seenBegin, seenVersion)
	var flags byte
	if b.Fresh {
		flags |= 1
	}
	if b.Unknown {
		flags |= 2
	}
	t = binary.LittleEndian.AppendUint32(append(t, flags), b.Writer)
	t = binary.LittleEndian.AppendUint32(t, b.LoadedWriter)
	t = binary.AppendUvarint(binary.AppendUvarint(t, b.LoadedSeal), uint64(b.Seq))
	for _, o := range b.Inputs {
		t = binary.AppendVarint(t, o)
	}
	t = binary.LittleEndian.AppendUint64(binary.AppendUvarint(t, uint64(b.Watermark)), b.Salt)
	for _, text := range [...]string{b.Program, b.Settings} {
		t = append(binary.AppendUvarint(t, uint64(len(text))), text...)
	}
	return t
}

// take appends to dst what the header of the next ranking or order record says; nothing where there is nothing to say.
func (s *observationLog) take(dst []byte) []byte {
	dst = append(dst, s.tokens...)
	s.tokens = s.tokens[:0]
	s.visits, s.imports.chain = -1, -1
	return dst
}

// StoredObservations is what is stored of what was seen, besides the tokens that no ranking has told of.
type StoredObservations struct {
	Writer  uint32 // who sealed last
	MadeBy  uint32 // what sealed last
	Sealed  uint64 // segments, by all owners
	Unsent  uint64 // of these, that were not sent before this was sealed, the last among them
	Visited int64  // the offset of the impression that was visited last
	Tokens  []byte
	check   uint32 // see Machine.check
}

// appendStored appends the stored form: version, and in hexadecimal what SeenStored holds.
func (s *observationLog) appendStored(dst []byte, check uint32) []byte {
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, s.writer), s.madeBy)
	b = binary.AppendUvarint(binary.AppendUvarint(b, s.sealed), s.unsent)
	b = binary.LittleEndian.AppendUint32(binary.AppendVarint(b, s.visited), check)
	return hex.AppendEncode(append(dst, seenStored...), append(b, s.tokens...))
}

// seenStored begins the stored form.
const seenStored = "2 "

// ErrSeen says that bytes do not tell what was seen in a way that this program can read.
var ErrSeen = errors.New("partition: unreadable header of what was seen")

// parseSeenStored reads the stored form. Where it cannot, ok is false.
func parseSeenStored(stored []byte) (x StoredObservations, ok bool) {
	if !bytes.HasPrefix(stored, []byte(seenStored)) {
		return x, false
	}
	b, err := hex.AppendDecode(nil, stored[len(seenStored):])
	if err != nil {
		return x, false
	}
	r := ObservationReader{numbers: numbers{rest: b}}
	x.Writer, x.MadeBy = r.fixed32(), r.fixed32()
	x.Sealed, x.Unsent, x.Visited, x.check = uint64(r.uvarint()), uint64(r.uvarint()), r.varint(), r.fixed32()
	x.Tokens = r.rest
	return x, !r.bad
}

// load takes the stored form. What it cannot read it takes for nothing: a replay is not exact then, and all else is well.
func (s *observationLog) load(stored []byte) (check uint32) {
	x, ok := parseSeenStored(stored)
	if !ok {
		return 0
	}
	s.loadedWriter, s.madeBy, s.sealed, s.unsent, s.visited, s.known, s.tokens = x.Writer, x.MadeBy, x.Sealed, x.Unsent, x.Visited, true, x.Tokens
	return x.check
}
