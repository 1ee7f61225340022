package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Steps are the records that a partition has stepped since its last ranking or order record, in order. The next one carries them in a
// header: a uvarint, the event time at which they begin, and tokens of one byte, the kind in the high three bits and a number from 1 to 31
// in the low five, some with varints behind.
//
// They are what a replay cannot work out from the topics: how the records of the topics were interleaved, how far event
// time had come, and what was decided by the clock or the room of the moment. A replay that follows them comes to the
// outcomes of the first run, record for record. Steps that no record of the log carries yet are not covered.
const (
	tokenSelections = 0 // so many selections were stepped, one after the other
	tokenPayoffs    = 1 // likewise
	tokenUnranked   = 2 // likewise, impressions that were not ranked
	tokenWatermark  = 3 // uvarint: event time has come further by so many milliseconds
	tokenNote       = 7 // one of the following
)

// The notes that a token of the kind tokenNote makes.
const (
	noteTime    = 1 // zigzag varint, from the watermark: what the next record's time counts as, since its own is not believed
	noteCrowded = 2 // the next record found no room to wait
	noteRead    = 3 // uvarints: an offset of each input topic, and the watermark: all below was stepped, in an order not known here
)

const longestRun = 31

// takenTokens are the kinds of tokens that count records, by their topic.
var takenTokens = [event.Inputs]byte{event.Impressions: tokenUnranked, event.Selections: tokenSelections, event.Payoffs: tokenPayoffs}

// inputOrder collects tokens.
type inputOrder struct {
	from      event.Millis // the watermark before the first token
	tokens    []byte
	watermark event.Millis        // as of the last token
	next      [event.Inputs]int64 // offsets behind the last records stepped
	run       int                 // where the last token stands, if it is a run; else -1
	orders    int64               // number of the last order record
	changed   bool                // since the last seal
}

func (s *inputOrder) token(kind, low byte) {
	s.tokens = append(s.tokens, kind<<5|low)
	s.run, s.changed = -1, true
}

// at notes how far event time has come.
func (s *inputOrder) at(watermark event.Millis) {
	if watermark != s.watermark {
		s.token(tokenWatermark, 1)
		s.tokens = binary.AppendUvarint(s.tokens, uint64(watermark-s.watermark))
		s.watermark = watermark
	}
}

// timed notes what the time of the next record counts as.
func (s *inputOrder) timed(effective event.Millis) {
	s.token(tokenNote, noteTime)
	s.tokens = binary.AppendVarint(s.tokens, effective-s.watermark)
}

// crowded notes that the next record found no room to wait.
func (s *inputOrder) crowded() { s.token(tokenNote, noteCrowded) }

// took notes that a record was stepped and, if it is an impression, not ranked.
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

// stepsHeaderBytes is what the header takes at most beyond the tokens.
const stepsHeaderBytes = 32

// read says of all records up to here that they were read, and not in which order.
func (s *inputOrder) read() {
	s.token(tokenNote, noteRead)
	for _, o := range s.next {
		s.tokens = binary.AppendUvarint(s.tokens, uint64(o))
	}
	s.tokens = binary.AppendUvarint(s.tokens, uint64(s.watermark))
}

// ahead begins the steps with records that were stepped already.
func (s *inputOrder) ahead(stepped [event.Inputs]int64) {
	for t, left := range stepped {
		for ; left > 0; left -= longestRun {
			s.token(takenTokens[t], byte(min(left, longestRun)))
		}
	}
}

// ranked begins the steps again behind a ranking.
func (s *inputOrder) ranked(rec *Record) {
	s.next[rec.Topic] = rec.Offset + 1
	s.restart()
}

// appendHeader appends what the header of a ranking says.
func (s *inputOrder) appendHeader(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(s.from)), s.tokens...)
}

// stepsVersion begins the stored form: version and what a header would say, in hexadecimal.
const stepsVersion = "1"

func (s *inputOrder) appendStored(dst []byte) []byte {
	dst = append(append(dst, stepsVersion...), ' ')
	return hex.AppendEncode(dst, s.appendHeader(nil))
}

// ErrSteps says that bytes are no steps that this program can read.
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
	d := inputOrderReader{numbers: numbers{rest: header}, run: -1}
	from, err := d.begin()
	if err != nil {
		return err
	}
	s.from, s.watermark, s.tokens = from, from, d.rest
	for len(d.rest) > 0 {
		if err := d.read(func(step InputStep) { s.watermark = step.reached(s.watermark) }); err != nil {
			return err
		}
	}
	s.run = d.run
	return d.end()
}

// InputStepKind is what a Step says.
type InputStepKind uint8

// The kinds of steps.
const (
	StepTake      InputStepKind = iota // N records of Topic were stepped
	StepWatermark                      // event time has come further By milliseconds
	StepRead                           // all records below Offsets were stepped, and event time has come to Watermark
)

// InputStep is one step, or a run of alike ones.
type InputStep struct {
	Kind  InputStepKind
	Topic event.Topic
	N     int64
	// Crowded says of a single record that it found no room to wait, and Timed that its time counted as the watermark and By.
	Crowded, Timed bool
	By             int64
	Offsets        [event.Inputs]int64
	Watermark      event.Millis
}

// reached is how far event time has come behind a step.
func (s *InputStep) reached(watermark event.Millis) event.Millis {
	switch s.Kind {
	case StepWatermark:
		return watermark + s.By
	case StepRead:
		return s.Watermark
	}
	return watermark
}

// ParseSteps appends to dst what a header says; they begin at the event time from. It fails with ErrSteps.
func ParseSteps(dst []InputStep, header []byte) (from event.Millis, steps []InputStep, err error) {
	d := inputOrderReader{numbers: numbers{rest: header}}
	if from, err = d.begin(); err != nil {
		return 0, dst, err
	}
	for len(d.rest) > 0 {
		if err := d.read(func(s InputStep) { dst = append(dst, s) }); err != nil {
			return from, dst, err
		}
	}
	return from, dst, d.end()
}

// inputOrderReader reads tokens.
type inputOrderReader struct {
	numbers
	at     int       // where rest begins
	run    int       // where the last token stands, if it is a run; else -1
	record InputStep // what is said of the next record
}

var errCutOff = fmt.Errorf("%w: cut off, or a number too large", ErrSteps)

// begin reads the event time at which the steps begin.
func (d *inputOrderReader) begin() (event.Millis, error) {
	from := d.uvarint()
	if d.bad {
		return 0, errCutOff
	}
	return from, nil
}

// read reads one token.
func (d *inputOrderReader) read(step func(InputStep)) error {
	before := len(d.rest)
	token := d.rest[0]
	kind, low, said := token>>5, token&31, d.record != InputStep{}
	d.rest, d.run = d.rest[1:], -1
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
		return fmt.Errorf("%w: token %#x", ErrSteps, token)
	}
	if d.bad {
		return errCutOff
	}
	d.at += before - len(d.rest)
	return nil
}

// end fails where something is said of a record that does not follow.
func (d *inputOrderReader) end() error {
	if d.record != (InputStep{}) {
		return fmt.Errorf("%w: they end before the record that they speak of", ErrSteps)
	}
	return nil
}
