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

// Observations are the inputs of decisions that neither topics nor steps show. They record reads of other partitions' statistics, the
// deadlines that the expiry walk reached, event time applied between records, and the segments of each checkpoint. Rankings carry them in a
// header beside the steps. With both headers a replay repeats the owner's calls, and computes the same rankings bit for bit.
//
// A header holds tokens of one byte, the kind in the high three bits and a number in the low five; some are followed by varints. Between
// tokens stands the number of records stepped, ranked impressions included. Observations are recorded from Seen on, during adoption too: so
// a new owner records those it makes while it adopts decisions of an earlier one.
const (
	seenRecords   = 0 // this many records were stepped; 0: uvarint
	seenWatermark = 1 // uvarint: event time, so many ms later, was acted upon
	seenVisits    = 2 // this many impressions ended, their deadlines past: zigzag varints, offsets relative to the last
	seenEnds      = 3 // likewise, without kept offsets: the id of each
	seenSent      = 4 // this many of the oldest sealed segments were sent as one checkpoint; 0: uvarint
	seenEpoch     = 5 // the epoch changed, with so many estimates made; 31: uvarint. Then sources' changes, and the estimates' numbers
	seenImport    = 6 // learners that do not share read published fields; the source, 31: uvarint
	seenNote      = 7 // a note, see below
)

// The notes of a token of kind seenNote.
const (
	seenBegin = 1 // a machine began: absolute values
	seenGap   = 2 // uvarint: observations up to here are missing, except for the machine's beginning; this many segments were sealed by then
	seenSeal  = 4 // a segment was sealed
	seenWalk  = 5 // uvarint: the walk closed so many more buckets
	seenStand = 6 // a snapshot of all sources' progress and of estimates
)

const (
	maxSeen     = 16 << 10 // bounds tokens kept during adoption; see defaultOrderBytes for later
	seenVersion = 1
	// standsEvery is the most seals between two snapshots of all sources, from which a replay with a base begins. A young machine takes
	// more, and one that decides nothing takes ever fewer.
	standsEvery = 128
)

// ObservationBegin is the state in which a machine began, for a replay.
type ObservationBegin struct {
	// Writer identifies the owner: see WriterOf.
	Writer uint32
	// Seq is that of the loaded checkpoint. LoadedWriter and LoadedSeal identify its last seal: its owner and the number of seals before.
	// Fresh means that nothing was stored, Unknown that the stored state does not identify its seal.
	Seq            int64
	LoadedWriter   uint32
	LoadedSeal     uint64
	Fresh, Unknown bool
	// Alone means that the machine has no pooled state, as while a state is rebuilt: it makes estimates from its own statistics.
	Alone     bool
	Inputs    [event.Inputs]int64 // offsets of the first records to step
	Watermark event.Millis
	Salt      uint64
	// Program names the program and the kind of processor. Settings lists the settings on which decisions depend.
	Program, Settings string
}

// WriterOf returns a hash of an owner's token.
func WriterOf(token string) uint32 { return uint32(xxhash.Sum64String(token)) }

// MadeBy returns a hash of ObservationBegin's Program and Settings.
func MadeBy(program, settings string) uint32 {
	return uint32(xxhash.Sum64String(program + "\x00" + settings))
}

// SourceAt is a source's progress: up to a checkpoint, whole or, during a resync, the number of parts read.
type SourceAt struct {
	Known  bool
	Writer uint32
	Seq    int64
	Whole  bool
	Parts  int
	// Over means that the source was whole up to a checkpoint before its resync.
	Over       bool
	OverWriter uint32
	OverSeq    int64
}

// ImportMode is the kind of an Import.
type ImportMode uint8

const (
	ImportDelta       ImportMode = iota // one checkpoint's changes
	ImportAll                           // all published fields as of a checkpoint
	ImportInformative                   // likewise, without fields that PublishedReader.Informative leaves out
)

// Import is a part of a source's published fields. Each part but the last has PublishedAtOnce of them.
type Import struct {
	Source int32
	Mode   ImportMode
	Writer uint32
	Seq    int64
	Part   int  // from 0
	Last   bool // there are no more
}

// PublishedAtOnce is the number of published fields that a machine, or a PooledState, takes in at a time.
const PublishedAtOnce = 2000

// observationLog collects tokens. The zero value collects none.
type observationLog struct {
	on           bool
	gaps         int64 // how often observations were dropped
	writer       uint32
	madeBy       uint32 // see MadeBy
	loadedWriter uint32
	sealed       uint64 // segments, by all owners
	unsent       uint64 // of these, those not sent
	known        bool   // stored observations belong to the loaded state
	tokens       []byte
	standing     int          // seals since the last snapshot of sources
	nextStand    int          // seals until the next one
	records      int64        // stepped since the last token
	watermark    event.Millis // acted upon last
	visited      int64        // offset of the last impression in a token of visits
	visits       int          // index of the last token if it is of visits, else -1

	epoch   []SourceAt // by source, as in the tokens
	imports struct {
		at    []SourceAt // by source
		chain int        // index of the number of deltas in the last token; -1: it is not of deltas
		of    int32
	}
}

// begin writes the number of records stepped since the last token. It returns false if nothing is recorded.
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

func (s *observationLog) stepped(w event.Millis) {
	s.records++
	s.watermark = w
}

func (s *observationLog) decided() { s.nextStand = min(s.nextStand, standsEvery) }

// lose drops all tokens since the last record that carried them, and notes that. A machine's beginning stays: a replay needs to know whose
// decisions this machine adopts.
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

// acted records that event time was acted upon between two records.
func (s *observationLog) acted(w event.Millis) {
	if w == s.watermark || !s.begin() {
		return
	}
	s.tokens = binary.AppendUvarint(append(s.tokens, seenWatermark<<5), uint64(w-s.watermark))
	s.watermark = w
}

// visit records that an impression ended between two records, its deadline past.
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

func (s *observationLog) seal() {
	if s.begin() {
		s.tokens = append(s.tokens, seenNote<<5|seenSeal)
	}
	s.sealed++
	s.unsent++
}

// standsNext reports whether a snapshot of sources may follow the next seal.
func (s *observationLog) standsNext() bool { return s.on && s.standing+1 >= s.nextStand }

// stands records a snapshot of all sources' progress and estimates, behind some seals, unless a resync is under way.
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

func partly(at SourceAt) bool { return at.Known && !at.Whole }

func (s *observationLog) walked(by int64) {
	if by > 0 && s.begin() {
		s.tokens = binary.AppendUvarint(append(s.tokens, seenNote<<5|seenWalk), uint64(by))
	}
}

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

// appendSource appends a source's change from before to at; gap is its distance from the last source.
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

func appendBegin(t []byte, b *ObservationBegin) []byte {
	t = append(t, seenNote<<5|seenBegin, seenVersion)
	var flags byte
	if b.Fresh {
		flags |= 1
	}
	if b.Unknown {
		flags |= 2
	}
	if b.Alone {
		flags |= 4
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

// take appends the tokens for the next ranking or order record, and starts over.
func (s *observationLog) take(dst []byte) []byte {
	dst = append(dst, s.tokens...)
	s.tokens = s.tokens[:0]
	s.visits, s.imports.chain = -1, -1
	return dst
}

// StoredObservations is the stored part of observations, besides tokens that no ranking carries yet.
type StoredObservations struct {
	Writer  uint32 // who sealed last
	MadeBy  uint32 // see MadeBy, of the last seal
	Sealed  uint64 // segments, by all owners
	Unsent  uint64 // of these, those not sent before this seal, which is among them
	Visited int64  // offset of the last impression visited
	Tokens  []byte
	check   uint32 // see Machine.check
}

// appendStored appends the stored form: version, then a StoredObservations in hexadecimal.
func (s *observationLog) appendStored(dst []byte, check uint32) []byte {
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, s.writer), s.madeBy)
	b = binary.AppendUvarint(binary.AppendUvarint(b, s.sealed), s.unsent)
	b = binary.LittleEndian.AppendUint32(binary.AppendVarint(b, s.visited), check)
	return hex.AppendEncode(append(dst, seenStored...), append(b, s.tokens...))
}

const seenStored = "2 "

// ErrSeen means that a header of observations cannot be decoded.
var ErrSeen = errors.New("partition: unreadable header of observations")

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

// load reads the stored form. An unreadable one is ignored: a replay is not exact then, and nothing else depends on it.
func (s *observationLog) load(stored []byte) (check uint32) {
	x, ok := parseSeenStored(stored)
	if !ok {
		return 0
	}
	s.loadedWriter, s.madeBy, s.sealed, s.unsent, s.visited, s.known, s.tokens = x.Writer, x.MadeBy, x.Sealed, x.Unsent, x.Visited, true, x.Tokens
	return x.check
}
