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

// missedHash holds, behind the learner's name and a colon, the impressions of an unconfigured learner that ended. Its field is the
// impression's offset, or a substitute (refOf). Its value is "unselected <instance>" or "expired <item> <instance> <began>", then as known
// the sum of payoffs fed, "expected:<millionths>", and "context:<number of the user's steps>:<all steps>". Numbers are decimal, an instance
// of -1 means none, times are in milliseconds, the sum in raw units. A learner that is configured again is fed them first: else a selection
// in flight, or an instance of BOLD, would wait for ever.
const missedHash = "missed"

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
	context  []int8 // of the selected item
	ofUser   int
	has      bool // it has a context
}

// expectedWord precedes an expected payoff, contextWord the number of the user's steps, segment included, and all steps in hexadecimal.
const (
	expectedWord = "expected:"
	contextWord  = "context:"
)

// unconfigured holds changes of missedHash since the last seal.
type unconfigured struct {
	missed    []missed // ended impressions of learners that are gone
	delivered []missed // fed to their learner at the load, to be deleted
}

// miss notes that an entry of a learner that is gone ends without a payoff. Entries without known items are left out, since their learner
// never saw them, and so are learners from before a reset, which never return.
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

// hashedRef marks a substitute of an offset: no log has such an offset.
const hashedRef = 1 << 62

// refOf returns an impression's offset, or a hash of its id if the offset is not kept because its learner does not need it.
func refOf(id []byte, e *entry) int64 {
	if e.offset != unknownOffset {
		return e.offset
	}
	sum := sha256.Sum256(id)
	return hashedRef | int64(binary.LittleEndian.Uint64(sum[:])>>2)
}

// deliver feeds a newly loaded learner the impressions it has missed, in their order.
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

// seal writes new entries, and deletes those fed.
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
		return missed{}, fmt.Errorf("partition: field %.64q of the missed outcomes is %.64q", f.Field, f.Value)
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
