package checker

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

type stepKind uint8

const (
	stepTake    stepKind = iota // n records of a topic were processed
	stepAdvance                 // event time rose by so many milliseconds
	stepRead                    // all records below the offsets were processed in unknown order, and event time rose
)

// step is one step of a ranking's header, or a run of equal ones.
type step struct {
	kind           stepKind
	topic          event.Topic
	n, by          int64
	timed, crowded bool // of a single record: its effective time was the watermark plus by; it found no room to be parked
	offsets        [event.Inputs]int64
	watermark      event.Millis
}

var errSteps = errors.New("unreadable steps")

// Kinds of tokens, in their high three bits, that are no runs of records; and the notes of the latter.
const (
	tokenWatermark = 3
	tokenSaid      = 7
	saidTime       = 1
	saidCrowded    = 2
	saidRead       = 3
)

// runs are the topics of runs of records, by token kind.
var runs = [...]event.Topic{event.Selections, event.Payoffs, event.Impressions}

// parseSteps reads a ranking's header "steps":
//
//	a uvarint, the event time at which they begin; then tokens: a byte with the kind in the high three bits and a number
//	in the low five. 0, 1 and 2: this many selections, payoffs or unranked impressions were processed; 3: event time rose by
//	the uvarint that follows; 7: with 1, the next record's effective time was the watermark plus the varint that follows; with
//	2, it found no room; with 3, all below three offsets was processed, and event time rose to a watermark (uvarints).
func parseSteps(header []byte) (from event.Millis, all []step, err error) {
	c := cursor{b: header}
	from = c.natural()
	var next step // notes about the next record
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

// natural reads a uvarint that fits into an int64.
func (c *cursor) natural() int64 {
	v := int64(c.uvarint())
	if v < 0 {
		c.take(-1)
	}
	return max(v, 0)
}

// storedSteps returns the stored steps since the last ranking: "1 " and a header in hexadecimal.
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
