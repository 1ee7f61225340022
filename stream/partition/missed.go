package partition

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// missedHash keeps, behind the learner's name and a colon, what a learner has missed: the impressions of its that ended
// while it was not configured. It maps the impression's offset, or what stands for it (see refOf), to "unselected <instance>" or "expired <item> <instance> <began>",
// with the sum of its payoffs behind that where the learner was told of it, and last "expected:<millionths>" where the decision
// says what it expected, and "context:<steps of the user's>:<all steps>" where there was a context: numbers in decimal, an instance of -1 for none, a time in milliseconds, the sum in raw units. When the name is configured again, the learner is told first of all.
// Otherwise a selection in flight, or an instance of BOLD, would wait for ever.
const missedHash = "missed"

// missed is one such impression.
type missed struct {
	learner  string
	offset   int64
	selected bool
	item     policy.Item
	instance int32
	began    event.Millis
	inParts  bool
	sum      float64
	expects  bool
	expected float64
	context  []int8 // of what was selected
	ofUser   int
	has      bool // a context
}

// expectedWord begins the word that says what was expected, and contextWord that which says how many numbers of the context are the user's, the segment's
// among them, and in hexadecimal digits all of them.
const (
	expectedWord = "expected:"
	contextWord  = "context:"
)

// unconfigured are what learners have missed, as far as the store does not say so yet.
type unconfigured struct {
	missed    []missed // by learners that are gone, since the last seal
	delivered []missed // that learners have been told at the load, to be taken out
}

// miss notes that an entry, of a learner that is gone, ends without a payoff. It leaves out entries whose items are not known,
// since their learner was never told of them, and learners of before a reset, which do not come back.
func (a *unconfigured) miss(learner string, id []byte, e *entry) {
	if len(e.items) == 0 || isBeforeReset(learner) {
		return
	}
	x := missed{learner: learner, offset: refOf(id, e), selected: e.selected >= 0, instance: e.instance}
	if x.selected {
		x.item, x.began, x.inParts, x.sum = e.items[e.selected], e.began, e.inParts, e.sum
		x.expected, x.expects = e.expectedOf()
		x.context, x.ofUser, x.has = slices.Clone(e.context), e.ofUser, e.hasContext
	}
	a.missed = append(a.missed, x)
}

// hashedRef is added to what stands for an offset that is not kept: it is no offset of a log.
const hashedRef = 1 << 62

// refOf tells an impression apart from others of its partition: its offset or, where that is not kept, since its learner does
// not ask for it, what a strong hash makes of its id.
func refOf(id []byte, e *entry) int64 {
	if e.offset != unknownOffset {
		return e.offset
	}
	sum := sha256.Sum256(id)
	return hashedRef | int64(binary.LittleEndian.Uint64(sum[:])>>2)
}

// deliver tells a learner that was just loaded what it has missed, in the order of the impressions.
func (a *unconfigured) deliver(l *learner, fields []state.Field) error {
	all := make([]missed, 0, len(fields))
	for _, f := range fields {
		x, err := parseMissed(f, int(l.items.next))
		if err != nil {
			return err
		}
		x.learner = l.name
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b missed) int { return cmp.Compare(a.offset, b.offset) })
	for _, x := range all {
		if x.selected && !l.items.has(x.item) { // it has ended
			continue
		}
		fb := delay.Feedback{Ref: x.offset, Item: x.item, Instance: x.instance, Began: x.began, InParts: x.inParts,
			Expected: x.expected, HasExpected: x.expects}
		if x.inParts {
			fb.Before, _ = l.normalise(x.sum)
		}
		if c := l.cfg.Context; c != nil && x.selected && c.holds(x.context, x.ofUser, x.has) {
			fb.X, fb.Segment = c.vector(nil, x.context, x.ofUser, x.began)
		}
		if x.selected {
			l.delay.Expired(fb)
		} else {
			l.delay.Unselected(fb)
		}
	}
	a.delivered = append(a.delivered, all...)
	return nil
}

// seal writes what was missed, and takes out what learners have been told.
func (a *unconfigured) seal(dst *state.Changes) {
	for _, x := range a.missed {
		dst.Writes = append(dst.Writes, state.Write{Hash: x.hash(), Field: x.field(), Value: x.value()})
	}
	for _, x := range a.delivered {
		dst.Writes = append(dst.Writes, state.Write{Hash: x.hash(), Field: x.field()})
	}
	a.missed, a.delivered = a.missed[:0], a.delivered[:0]
}

func (x *missed) hash() string { return x.learner + ":" + missedHash }

func (x *missed) field() []byte { return strconv.AppendInt(nil, x.offset, 10) }

func (x *missed) value() []byte {
	if !x.selected {
		return fmt.Appendf(nil, "unselected %d", x.instance)
	}
	b := fmt.Appendf(nil, "expired %d %d %d", x.item, x.instance, x.began)
	if x.inParts {
		b = strconv.AppendFloat(append(b, ' '), x.sum, 'g', -1, 64)
	}
	if x.expects {
		b = fmt.Appendf(b, " %s%d", expectedWord, event.Millionths(x.expected))
	}
	if x.has {
		b = fmt.Appendf(b, " %s%d:", contextWord, x.ofUser)
		for _, k := range x.context {
			b = hex.AppendEncode(b, []byte{byte(k)})
		}
	}
	return b
}

// parseContext reads what stands behind contextWord.
func (x *missed) parseContext(text string) bool {
	user, steps, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(user)
	all, bad := hex.DecodeString(steps)
	if err != nil || bad != nil || n < 0 || n > len(all) {
		return false
	}
	for _, k := range all {
		x.context = append(x.context, int8(k))
	}
	x.ofUser, x.has = n, true
	return true
}

func parseMissed(f state.Field, items int) (x missed, err error) {
	words := strings.Fields(string(f.Value))
	bad := func() (missed, error) {
		return missed{}, fmt.Errorf("partition: field %.64q of what was missed is %.64q", f.Field, f.Value)
	}
	if x.offset, err = strconv.ParseInt(string(f.Field), 10, 64); err != nil || x.offset < 0 || len(words) < 2 {
		return bad()
	}
	if last, ok := strings.CutPrefix(words[len(words)-1], contextWord); ok {
		if words = words[:len(words)-1]; !x.parseContext(last) || words[0] != "expired" {
			return bad()
		}
	}
	if last, ok := strings.CutPrefix(words[len(words)-1], expectedWord); ok {
		n, err := strconv.ParseInt(last, 10, 64)
		if x.expects = true; err != nil || words[0] != "expired" {
			return bad()
		}
		x.expected = event.FromMillionths(n)
		words = words[:len(words)-1]
	}
	if x.inParts = len(words) == 5; x.inParts {
		if x.sum, err = strconv.ParseFloat(words[4], 64); err != nil || math.IsNaN(x.sum) || math.IsInf(x.sum, 0) {
			return bad()
		}
		words = words[:4]
	}
	numbers := make([]int64, 0, 3)
	for _, w := range words[1:] {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return bad()
		}
		numbers = append(numbers, n)
	}
	instance := numbers[0]
	switch {
	case words[0] == "unselected" && len(numbers) == 1 && !x.inParts:
	case words[0] == "expired" && len(numbers) == 3 && numbers[0] >= 0 && numbers[0] < int64(items):
		x.selected, x.item, instance, x.began = true, policy.Item(numbers[0]), numbers[1], numbers[2]
	default:
		return bad()
	}
	if instance < -1 || instance > math.MaxInt32 {
		return bad()
	}
	x.instance = int32(instance)
	return x, nil
}
