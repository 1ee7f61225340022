package checker

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// stepKind is what a step says.
type stepKind uint8

const (
	stepTake    stepKind = iota // n records of a topic were taken in
	stepAdvance                 // event time has come further by so many milliseconds
	stepRead                    // all below the offsets was taken in, in an order that is not told, and event time has come so far
)

// step is one step of those that a ranking's header tells, or a run of alike ones.
type step struct {
	kind           stepKind
	topic          event.Topic
	n, by          int64
	timed, crowded bool // of a single record: its time counted as the watermark and by; it found no room to wait
	offsets        [event.Inputs]int64
	watermark      event.Millis
}

var errSteps = errors.New("unreadable steps")

// Kinds of tokens, in their high three bits, that are no runs of records; and what one that says something says.
const (
	tokenWatermark = 3
	tokenSaid      = 7
	saidTime       = 1
	saidCrowded    = 2
	saidRead       = 3
)

// runs are the topics of the tokens that are runs of records, by their kind.
var runs = [...]event.Topic{event.Selections, event.Payoffs, event.Impressions}

// parseSteps reads a ranking's header "steps":
//
//	a uvarint, the event time at which they begin; then tokens: a byte with the kind in the high three bits and a number
//	in the low five. 0, 1 and 2: so many selections, payoffs or impressions without a ranking were taken in; 3: event time
//	went on, by the uvarint behind; 7: with 1, the next record's time counted as the watermark and the varint behind; with
//	2, it found no room to wait; with 3, all below three offsets was taken in and event time came to a watermark (uvarints).
func parseSteps(header []byte) (from event.Millis, all []step, err error) {
	c := cursor{b: header}
	from = c.natural()
	var next step // what is said of the next record
	for len(c.b) > 0 && c.err == nil {
		token := c.byte()
		kind, low, said := token>>5, int64(token&31), next != step{}
		switch {
		case int(kind) < len(runs) && low > 0:
			if said {
				next.topic, next.n = runs[kind], 1
				all, next = append(all, next), step{}
				low--
			}
			if low > 0 {
				all = append(all, step{topic: runs[kind], n: low})
			}
		case kind == tokenWatermark && !said:
			all = append(all, step{kind: stepAdvance, by: c.natural()})
		case kind == tokenSaid && low == saidTime:
			next.timed, next.by = true, c.varint()
		case kind == tokenSaid && low == saidCrowded:
			next.crowded = true
		case kind == tokenSaid && low == saidRead && !said:
			s := step{kind: stepRead}
			for t := range s.offsets {
				s.offsets[t] = c.natural()
			}
			s.watermark = c.natural()
			all = append(all, s)
		default:
			return 0, nil, fmt.Errorf("%w: token %#x", errSteps, token)
		}
	}
	if c.err != nil || next != (step{}) {
		return 0, nil, fmt.Errorf("%w: cut off", errSteps)
	}
	return from, all, nil
}

// natural reads a uvarint that is no more than a number has room for.
func (c *cursor) natural() int64 {
	v := int64(c.uvarint())
	if v < 0 {
		c.take(-1)
	}
	return max(v, 0)
}

// storedSteps reads what the state has of the steps since the last ranking: "1 " and what a header would say, in hexadecimal.
func storedSteps(field string) ([]byte, error) {
	version, digits, _ := strings.Cut(field, " ")
	if version != "1" {
		return nil, fmt.Errorf("%w: version %q", errSteps, version)
	}
	header, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSteps, err)
	}
	return header, nil
}
