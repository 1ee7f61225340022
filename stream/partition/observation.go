package partition

import (
	"bytes"
	"errors"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Observations are the inputs of decisions that neither topics nor steps show. They record reads of other partitions' statistics, the
// deadlines that the expiry walk reached, event time applied between records, and the segments of each checkpoint. Rankings carry them in a
// header beside the steps. With both headers a replay repeats the owner's calls, and computes the same rankings bit for bit.
//
// A header holds tokens of one byte, the kind in the high three bits and a number in the low five. If that is 31, a uvarint with the number
// follows, unless the kind bounds it. More may follow. Between tokens stands the number of records stepped, ranked impressions included.
// Observations are recorded from Seen on, during adoption too: so a new owner records those it makes while it adopts decisions of an earlier
// one.
const (
	seenRecords   = 0 // this many records were stepped
	seenWatermark = 1 // event time, so many ms later, was acted upon
	seenVisits    = 2 // this many impressions ended, at most 31, their deadlines past: zigzag varints, offsets relative to the last
	seenEnds      = 3 // likewise, without kept offsets: the id of each
	seenSent      = 4 // this many of the oldest sealed segments were sent as one checkpoint
	seenEpoch     = 5 // the epoch changed, with so many estimates made. Then sources' changes, and the estimates' numbers
	seenNote      = 6 // a note, see below
)

// severalBytes is the number in a token's byte if it stands behind the byte.
const severalBytes = 31

// The notes of a token of kind seenNote.
const (
	seenBegin = 1 // a machine began: absolute values
	seenGap   = 2 // uvarint: observations up to here are missing, except for the machine's beginning; this many segments were sealed by then
	seenSeal  = 4 // a segment was sealed
	seenWalk  = 5 // uvarint: the walk closed so many more buckets
	seenStand = 6 // a snapshot of all sources' progress and of estimates
)

const seenVersion = 1

// ErrSeen means that a header of observations cannot be decoded.
var ErrSeen = errors.New("partition: unreadable header of observations")

// ObservationKind is the kind of an Observation.
type ObservationKind uint8

const (
	SeenWatermark ObservationKind = iota // event time, By ms further, was acted upon
	SeenVisit                            // the impression at Offset ended
	SeenEnd                              // the impression End ended
	SeenWalked                           // the walk closed N more buckets, which experiments depend on
	SeenSealed
	SeenSent  // N segments were sent as one checkpoint
	SeenEpoch // the epoch changed: Sources have come further, and estimates were Made
	SeenStand // a snapshot: the pooled state holds Sources, no others, and uses Estimates
	SeenBegun
	SeenLost // observations up to here are missing, with up to N seals, except for the machine's beginning
)

// Observation is one input of a partition besides its records.
type Observation struct {
	Kind ObservationKind
	// Records is the number of records stepped since the last observation.
	Records int64
	By, N   int64
	Offset  int64 // relative to that of the last visit, for SeenVisit
	End     state.ID
	Sources []SourceChange
	// Estimates of each learner that estimates, in the order of their names; see delay.Pooling.
	Estimates [][]byte
	// Made holds the numbers of estimates, ascending; see PooledState.AdvanceAs.
	Made  []int
	Begin ObservationBegin
}

// SourceChange is a source's progress: By checkpoints, or to At if By is 0.
type SourceChange struct {
	Source int32
	By     int64
	At     SourceAt
}

// observationReader reads the headers of observations.
type observationReader struct {
	binaryReader
	visits  int   // left of the current token
	ends    bool  // of visits without a kept offset
	records int64 // stepped since the last observation
}

// ReadSeen reads one header, or several joined in order. If it fails with ErrSeen, it returns the observations before.
func ReadSeen(header []byte) (all []Observation, err error) {
	r := observationReader{binaryReader: binaryReader{rest: header}}
	for {
		s, ok := r.next()
		if !ok {
			return all, r.failure(ErrSeen)
		}
		all = append(all, s)
	}
}

// next returns the next observation; ok is false at the end, or at an error.
func (r *observationReader) next() (s Observation, ok bool) {
	for r.visits == 0 && len(r.rest) > 0 && r.rest[0]>>5 == seenRecords {
		_, n := r.token()
		r.records += n
	}
	if r.visits == 0 && len(r.rest) == 0 {
		return s, false
	}
	s.Records, r.records = r.records, 0
	if r.visits > 0 {
		r.visits--
		r.visit(&s)
	} else {
		r.observation(&s)
	}
	return s, r.err == nil
}

// token reads a token's kind and number.
func (r *observationReader) token() (kind byte, n int64) {
	b := r.byte()
	kind, n = b>>5, int64(b&31)
	if n == severalBytes && kind != seenVisits && kind != seenEnds && kind != seenNote {
		n = r.uvarint()
	}
	return kind, n
}

// observation reads one of another kind than seenRecords.
func (r *observationReader) observation(s *Observation) {
	switch kind, n := r.token(); kind {
	case seenWatermark:
		s.Kind, s.By = SeenWatermark, n
	case seenVisits, seenEnds:
		r.visits, r.ends = int(n)-1, kind == seenEnds
		if n == 0 {
			r.fail("no visits")
		}
		r.visit(s)
	case seenSent:
		s.Kind, s.N = SeenSent, n
	case seenEpoch:
		s.Kind, s.Sources, s.Made = SeenEpoch, r.sources(), r.ascending(n)
	case seenNote:
		r.note(s, n)
	default:
		r.fail("a token of kind %d", kind)
	}
}

// ascending reads n ascending numbers.
func (r *observationReader) ascending(n int64) (all []int) {
	for last := int64(-1); n > 0 && r.err == nil; n-- {
		if last += r.uvarint() + 1; last > math.MaxInt16 {
			r.fail("estimate %d", last)
		}
		all = append(all, int(last))
	}
	return all
}

func (r *observationReader) visit(s *Observation) {
	if r.ends {
		s.Kind = SeenEnd
		copy(s.End[:], r.bytes(int64(len(s.End))))
		return
	}
	s.Kind, s.Offset = SeenVisit, r.varint()
}

func (r *observationReader) sources() (all []SourceChange) {
	last := int32(-1)
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		c := r.source()
		c.Source += last + 1
		last = c.Source
		all = append(all, c)
	}
	return all
}

// source reads one source's progress; its number is relative to the last.
func (r *observationReader) source() (c SourceChange) {
	v := r.uvarint()
	gap := v & 3
	if gap == 3 {
		gap += r.uvarint()
	}
	if gap > math.MaxInt16 {
		r.fail("%d sources are left out", gap)
	}
	c.Source, c.By = int32(gap), v>>2
	if c.By > 0 {
		return c
	}
	switch how := r.byte(); how {
	case 0:
	case 1, 2, 3:
		c.At = SourceAt{Known: true, Whole: how == 1, Over: how == 3, Writer: r.fixed32(), Seq: r.uvarint()}
		if how > 1 {
			c.At.Parts = int(r.uvarint())
		}
		if how == 3 {
			c.At.OverWriter, c.At.OverSeq = r.fixed32(), r.uvarint()
		}
	default:
		r.fail("progress of kind %d", how)
	}
	return c
}

func (r *observationReader) note(s *Observation, which int64) {
	switch which {
	case seenBegin:
		s.Kind = SeenBegun
		r.begin(&s.Begin)
	case seenGap:
		s.Kind, s.N = SeenLost, r.uvarint()
	case seenSeal:
		s.Kind = SeenSealed
	case seenWalk:
		s.Kind, s.N = SeenWalked, r.uvarint()
	case seenStand:
		s.Kind, s.Sources = SeenStand, r.sources()
		for n := r.uvarint(); n > 0 && r.err == nil; n-- {
			s.Estimates = append(s.Estimates, bytes.Clone(r.part("length of estimates")))
		}
	default:
		r.fail("note %d", which)
	}
}

func (r *observationReader) begin(b *ObservationBegin) {
	if version := r.byte(); version != seenVersion {
		r.fail("version %d, this program reads %d", version, seenVersion)
	}
	flags := r.byte()
	b.Fresh, b.Unknown, b.Alone = flags&1 != 0, flags&2 != 0, flags&4 != 0
	b.Writer, b.LoadedWriter = r.fixed32(), r.fixed32()
	b.LoadedSeal, b.Seq = uint64(r.uvarint()), r.uvarint()
	for t := range b.Inputs {
		b.Inputs[t] = r.varint()
	}
	b.Watermark, b.Salt = r.uvarint(), r.fixed64()
	b.Program, b.Settings = string(r.part("length of the program")), string(r.part("length of the settings"))
}

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

func partly(at SourceAt) bool { return at.Known && !at.Whole }
