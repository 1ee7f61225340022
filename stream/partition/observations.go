package partition

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	maxSeen = 16 << 10 // bounds tokens kept during adoption; see defaultOrderBytes for later
	// standsEvery is the most seals between two snapshots of all sources, from which a replay with a base begins. A young machine takes
	// more, and one that decides nothing takes ever fewer.
	standsEvery = 128
)

// PublishedAtOnce is the number of published fields that a PooledState takes in at a time.
const PublishedAtOnce = 2000

// observationLog collects tokens. The zero value collects none.
type observationLog struct {
	StoredObservations // as the next seal stores them; before Seen, as loaded

	on        bool
	gaps      int64        // how often observations were dropped
	known     bool         // stored observations belong to the loaded state
	standing  int          // seals since the last snapshot of sources
	nextStand int          // seals until the next one
	records   int64        // stepped since the last token
	watermark event.Millis // acted upon last
	visits    int          // index of the last token if it is of visits, else -1

	epoch   []SourceAt     // by source, as in the tokens
	changes []SourceChange // scratch
}

// begin writes the number of records stepped since the last token. It returns false if nothing is recorded.
func (s *observationLog) begin() bool {
	if !s.on {
		return false
	}
	if len(s.Tokens) > maxSeen {
		s.lose()
	}
	if s.records > 0 {
		s.token(seenRecords, s.records)
		s.records = 0
	}
	s.visits = -1
	return true
}

// token appends a token with a number.
func (s *observationLog) token(kind byte, n int64) {
	if n < severalBytes {
		s.Tokens = append(s.Tokens, kind<<5|byte(n))
	} else {
		s.Tokens = binary.AppendUvarint(append(s.Tokens, kind<<5|severalBytes), uint64(n))
	}
}

func (s *observationLog) note(which byte) { s.Tokens = append(s.Tokens, seenNote<<5|which) }

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
	all, _ := ReadSeen(s.Tokens)
	for i := range all {
		if all[i].Kind == SeenBegun {
			begun = &all[i].Begin
		}
	}
	if s.Tokens = s.Tokens[:0]; begun != nil {
		s.Tokens = appendBegin(s.Tokens, begun)
	}
	s.note(seenGap)
	s.Tokens = binary.AppendUvarint(s.Tokens, s.Sealed)
	s.visits = -1
}

// acted records that event time was acted upon between two records.
func (s *observationLog) acted(w event.Millis) {
	if w == s.watermark || !s.begin() {
		return
	}
	s.token(seenWatermark, w-s.watermark)
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
	if s.visits < 0 || s.records > 0 || s.Tokens[s.visits]&^31 != kind || s.Tokens[s.visits]&31 == 31 {
		if !s.begin() {
			return
		}
		s.visits = len(s.Tokens)
		s.Tokens = append(s.Tokens, kind)
	}
	s.Tokens[s.visits]++
	if offset == unknownOffset {
		s.Tokens = append(s.Tokens, id[:]...)
		return
	}
	s.Tokens = binary.AppendVarint(s.Tokens, offset-s.Visited)
	s.Visited = offset
}

func (s *observationLog) seal() {
	if s.begin() {
		s.note(seenSeal)
	}
	s.Sealed++
	s.Unsent++
}

// standsNext reports whether a snapshot of sources may follow the next seal.
func (s *observationLog) standsNext() bool { return s.on && s.standing+1 >= s.nextStand }

// stands records a snapshot of all sources' progress and estimates, behind some seals, unless a resync is under way. It returns whether it
// did.
func (s *observationLog) stands(k *PooledState) bool {
	due := s.standsNext()
	s.standing++
	if !due || slices.ContainsFunc(s.epoch, partly) || !s.begin() {
		return false
	}
	s.standing, s.nextStand = 0, 2*s.nextStand
	s.note(seenStand)
	s.changes = s.changes[:0]
	for p, at := range s.epoch {
		if at.Known {
			s.changes = append(s.changes, SourceChange{Source: int32(p), At: at})
		}
	}
	var estimating []*global
	if s.Tokens = appendSources(s.Tokens, s.changes); k != nil {
		estimating = k.estimating()
	}
	s.Tokens = binary.AppendUvarint(s.Tokens, uint64(len(estimating)))
	for _, w := range estimating {
		s.Tokens = appendText(s.Tokens, string(w.AppendEstimate(nil)))
	}
	return true
}

func (s *observationLog) walked(by int64) {
	if by > 0 && s.begin() {
		s.note(seenWalk)
		s.Tokens = binary.AppendUvarint(s.Tokens, uint64(by))
	}
}

func (s *observationLog) sent(n int) {
	s.Unsent -= min(s.Unsent, uint64(n))
	if s.begin() {
		s.token(seenSent, int64(n))
	}
}

func (s *observationLog) turn(at []SourceAt, made []int) {
	if !s.begin() {
		return
	}
	for len(s.epoch) < len(at) {
		s.epoch = append(s.epoch, SourceAt{})
	}
	s.changes = s.changes[:0]
	for p := range at {
		if s.epoch[p] != at[p] {
			s.changes = append(s.changes, changeOf(int32(p), &s.epoch[p], &at[p]))
			s.epoch[p] = at[p]
		}
	}
	s.token(seenEpoch, int64(len(made)))
	s.Tokens = appendSources(s.Tokens, s.changes)
	last := -1
	for _, n := range made {
		s.Tokens = binary.AppendUvarint(s.Tokens, uint64(n-last-1))
		last = n
	}
}

// changeOf returns a source's change from before to at.
func changeOf(source int32, before, at *SourceAt) SourceChange {
	if before.Known && at.Known && before.Whole && at.Whole && before.Writer == at.Writer && at.Seq > before.Seq {
		return SourceChange{Source: source, By: at.Seq - before.Seq}
	}
	return SourceChange{Source: source, At: *at}
}

// appendSources appends the progress of sources, ascending. A source's distance from the one before stands in two bits of its first number,
// and behind it if it is 3 or more.
func appendSources(dst []byte, all []SourceChange) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	last := int32(-1)
	for i := range all {
		c := &all[i]
		gap := c.Source - last - 1
		last = c.Source
		dst = binary.AppendUvarint(dst, uint64(c.By)<<2|uint64(min(gap, 3)))
		if gap >= 3 {
			dst = binary.AppendUvarint(dst, uint64(gap-3))
		}
		if c.By == 0 {
			dst = appendSource(dst, &c.At)
		}
	}
	return dst
}

func appendSource(dst []byte, at *SourceAt) []byte {
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

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

func (s *observationLog) started(b *ObservationBegin) {
	if !s.known {
		s.Tokens = s.Tokens[:0]
	}
	s.on, s.Writer, s.watermark, s.Visited, s.records, s.Unsent = true, b.Writer, b.Watermark, 0, 0, 0
	s.MadeBy, s.standing, s.nextStand = MadeBy(b.Program, b.Settings), 0, 1
	s.visits = -1
	s.epoch = s.epoch[:0]
	s.Tokens = appendBegin(s.Tokens, b)
}

func appendBegin(t []byte, b *ObservationBegin) []byte {
	var flags byte
	for k, set := range [...]bool{b.Fresh, b.Unknown, b.Alone} {
		if set {
			flags |= 1 << k
		}
	}
	t = append(t, seenNote<<5|seenBegin, seenVersion, flags)
	t = binary.LittleEndian.AppendUint32(t, b.Writer)
	t = binary.LittleEndian.AppendUint32(t, b.LoadedWriter)
	t = binary.AppendUvarint(binary.AppendUvarint(t, b.LoadedSeal), uint64(b.Seq))
	for _, o := range b.Inputs {
		t = binary.AppendVarint(t, o)
	}
	t = binary.LittleEndian.AppendUint64(binary.AppendUvarint(t, uint64(b.Watermark)), b.Salt)
	return appendText(appendText(t, b.Program), b.Settings)
}

// take appends the tokens for the next ranking or order record, and starts over.
func (s *observationLog) take(dst []byte) []byte {
	dst = append(dst, s.Tokens...)
	s.Tokens = s.Tokens[:0]
	s.visits = -1
	return dst
}

// StoredObservations is the stored part of observations.
type StoredObservations struct {
	Writer  uint32 // who sealed last
	MadeBy  uint32 // see MadeBy, of the last seal
	Sealed  uint64 // segments, by all owners
	Unsent  uint64 // of these, those not sent before this seal, which is among them
	Visited int64  // offset of the last impression visited
	Tokens  []byte // that no ranking carries yet
}

// appendStored appends the stored form: a StoredObservations in hexadecimal, its tokens last.
func (s *observationLog) appendStored(dst []byte, check uint32) []byte {
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, s.Writer), s.MadeBy)
	b = binary.AppendUvarint(binary.AppendUvarint(b, s.Sealed), s.Unsent)
	b = binary.LittleEndian.AppendUint32(binary.AppendVarint(b, s.Visited), check)
	return hex.AppendEncode(dst, append(b, s.Tokens...))
}

// load reads the stored form. An unreadable one is ignored: a replay is not exact then, and nothing else depends on it.
func (s *observationLog) load(stored []byte) (check uint32) {
	b, err := hex.AppendDecode(nil, stored)
	r := binaryReader{rest: b}
	x := StoredObservations{Writer: r.fixed32(), MadeBy: r.fixed32(), Sealed: uint64(r.uvarint()), Unsent: uint64(r.uvarint()), Visited: r.varint()}
	if check = r.fixed32(); err != nil || r.err != nil {
		return 0
	}
	x.Tokens = r.rest
	s.StoredObservations, s.known = x, true
	return check
}
