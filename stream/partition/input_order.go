package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Steps are the records that a partition has stepped since its last ranking or order record, in order. The next such record carries them in
// a header: a uvarint, the event time at which they begin, then tokens of one byte. The high three bits hold the token's kind, the low five
// a number from 1 to 31; some are followed by varints.
//
// Topics do not show how their records were interleaved, how far event time had come, and which decisions depended on the clock or on free
// room. With the steps a replay reproduces all outcomes, record for record. Steps that no record carries yet are not covered.
const (
	tokenSelections = 0 // this many selections were stepped in a row
	tokenPayoffs    = 1 // likewise, payoffs
	tokenUnranked   = 2 // likewise, impressions that were not ranked
	tokenWatermark  = 3 // uvarint: the watermark rose by so many milliseconds
	tokenNote       = 7 // a note, see below
)

// The notes of a token of kind tokenNote.
const (
	noteTime    = 1 // zigzag varint, from the watermark: the effective time of the next record, whose own is not believed
	noteCrowded = 2 // the next record found no room to be parked
	noteRead    = 3 // uvarints: an offset of each input topic, and the watermark: all records below were stepped, in an unknown order
)

const longestRun = 31

// takenTokens are the token kinds that count records, by topic.
var takenTokens = [event.Inputs]byte{event.Impressions: tokenUnranked, event.Selections: tokenSelections, event.Payoffs: tokenPayoffs}

type inputOrder struct {
	from      event.Millis // watermark before the first token
	tokens    []byte
	watermark event.Millis        // as of the last token
	next      [event.Inputs]int64 // offsets behind the last records stepped
	run       int                 // index of the last token if it is a run, else -1
	orders    int64               // number of the last order record
	changed   bool                // since the last seal
}

func (s *inputOrder) token(kind, low byte) {
	s.tokens = append(s.tokens, kind<<5|low)
	s.run, s.changed = -1, true
}

// at records the watermark.
func (s *inputOrder) at(watermark event.Millis) {
	if watermark != s.watermark {
		s.token(tokenWatermark, 1)
		s.tokens = binary.AppendUvarint(s.tokens, uint64(watermark-s.watermark))
		s.watermark = watermark
	}
}

// timed records the effective time of the next record.
func (s *inputOrder) timed(effective event.Millis) {
	s.token(tokenNote, noteTime)
	s.tokens = binary.AppendVarint(s.tokens, effective-s.watermark)
}

// crowded records that the next record found no room to be parked.
func (s *inputOrder) crowded() { s.token(tokenNote, noteCrowded) }

// took records that rec was stepped and, if it is an impression, not ranked.
func (s *inputOrder) took(rec *Record) {
	s.next[rec.Topic] = rec.Offset + 1
	kind := takenTokens[rec.Topic]
	switch {
	case s.run >= 0 && s.tokens[s.run]>>5 == kind && s.tokens[s.run]&31 < longestRun:
		s.tokens[s.run]++
		s.changed = true
	default:
		s.token(kind, 1)
		s.run = len(s.tokens) - 1
	}
}

// stepsHeaderBytes bounds the header's bytes beyond its tokens.
const stepsHeaderBytes = 32

// read records that all records up to here were stepped, in an unknown order.
func (s *inputOrder) read() {
	s.token(tokenNote, noteRead)
	for _, o := range s.next {
		s.tokens = binary.AppendUvarint(s.tokens, uint64(o))
	}
	s.tokens = binary.AppendUvarint(s.tokens, uint64(s.watermark))
}

// ahead puts records that were already stepped at the beginning of the steps, behind a watermark that has been passed, too.
func (s *inputOrder) ahead(stepped [event.Inputs]int64, reached event.Millis) {
	now := s.watermark
	s.from, s.watermark = reached, reached
	s.at(now)
	for t, left := range stepped {
		for ; left > 0; left -= longestRun {
			s.token(takenTokens[t], byte(min(left, longestRun)))
		}
	}
}

// ranked restarts the steps after a ranking.
func (s *inputOrder) ranked(rec *Record) {
	s.next[rec.Topic] = rec.Offset + 1
	s.restart()
}

// appendHeader appends the header's bytes.
func (s *inputOrder) appendHeader(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(s.from)), s.tokens...)
}

// stepsVersion begins the stored form: the version, then the header in hexadecimal.
const stepsVersion = "1"

func (s *inputOrder) appendStored(dst []byte) []byte {
	dst = append(append(dst, stepsVersion...), ' ')
	return hex.AppendEncode(dst, s.appendHeader(nil))
}

// ErrSteps means that bytes cannot be decoded as steps.
var ErrSteps = errors.New("partition: unreadable steps")

func (s *inputOrder) load(stored []byte) error {
	version, digits, _ := bytes.Cut(stored, []byte{' '})
	if string(version) != stepsVersion {
		return fmt.Errorf("%w: not version %s", ErrSteps, stepsVersion)
	}
	header, err := hex.AppendDecode(nil, digits)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSteps, err)
	}
	d := inputOrderReader{binaryReader: binaryReader{rest: header}, run: -1}
	s.from = d.uvarint()
	s.watermark, s.tokens = s.from, d.rest
	for len(d.rest) > 0 {
		d.read(func(step InputStep) { s.watermark = step.reached(s.watermark) })
	}
	s.run = d.run
	return d.end()
}

// reached returns the watermark after a step.
func (s *InputStep) reached(watermark event.Millis) event.Millis {
	switch s.Kind {
	case StepWatermark:
		return watermark + s.By
	case StepRead:
		return s.Watermark
	}
	return watermark
}

// ParseSteps appends the steps of a header to dst. They begin at event time from. It fails with ErrSteps.
func ParseSteps(dst []InputStep, header []byte) (from event.Millis, steps []InputStep, err error) {
	d := inputOrderReader{binaryReader: binaryReader{rest: header}}
	from = d.uvarint()
	for len(d.rest) > 0 {
		d.read(func(s InputStep) { dst = append(dst, s) })
	}
	return from, dst, d.end()
}

type inputOrderReader struct {
	binaryReader
	at     int       // index of rest in the header
	run    int       // index of the last token if it is a run, else -1
	record InputStep // notes about the next record
}

func (d *inputOrderReader) read(step func(InputStep)) {
	before := len(d.rest)
	token := d.byte()
	kind, low, said := token>>5, token&31, d.record != InputStep{}
	d.run = -1
	switch {
	case kind <= tokenUnranked && low > 0:
		d.run = d.at
		topic := [...]event.Topic{event.Selections, event.Payoffs, event.Impressions}[kind]
		if said {
			d.record.Topic, d.record.N = topic, 1
			step(d.record)
			d.record = InputStep{}
			low--
		}
		if low > 0 {
			step(InputStep{Topic: topic, N: int64(low)})
		}
	case kind == tokenNote && low == noteTime:
		d.record.Timed, d.record.By = true, d.varint()
	case kind == tokenNote && low == noteCrowded:
		d.record.Crowded = true
	case kind == tokenWatermark && !said:
		step(InputStep{Kind: StepWatermark, By: d.uvarint()})
	case kind == tokenNote && low == noteRead && !said:
		s := InputStep{Kind: StepRead}
		for t := range s.Offsets {
			s.Offsets[t] = d.uvarint()
		}
		s.Watermark = d.uvarint()
		step(s)
	default:
		d.fail("token %#x", token)
	}
	d.at += before - len(d.rest)
}

// end fails if steps were unreadable, or notes stand without the record that they are about.
func (d *inputOrderReader) end() error {
	if d.record != (InputStep{}) {
		d.fail("they end before the record that they speak of")
	}
	return d.failure(ErrSteps)
}

func (s *inputOrder) recorded(number int64) {
	s.orders = number
	s.restart()
}

// restart begins the steps behind a record that carries those so far.
func (s *inputOrder) restart() {
	s.from, s.tokens, s.run, s.changed = s.watermark, s.tokens[:0], -1, true
}

func (s *inputOrder) loadOrders(value []byte) (err error) {
	s.orders, err = strconv.ParseInt(string(value), 10, 64)
	if err == nil && s.orders < 0 {
		err = strconv.ErrRange
	}
	return err
}
