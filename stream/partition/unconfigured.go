package partition

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// unconfigured holds changes of missedHash since the last seal: impressions of unconfigured learners that ended, and deletions of those
// that a learner was fed.
type unconfigured struct{ writes []state.Write }

// miss stores an entry of a learner that is gone and that ends without a payoff. Entries without known items are left out, since their
// learner never saw them, and so are learners from before a reset, which never return.
func (a *unconfigured) miss(learner string, id []byte, e *entry) {
	if len(e.items) == 0 || isBeforeReset(learner) {
		return
	}
	x := entry{kind: pending, offset: unknownOffset, began: e.began, payoffDeadline: e.began, instance: e.instance, selected: -1, unit: unit{arm: noArm}} // all that a learner is fed
	if e.selected >= 0 {
		x.items, x.selected, x.alone = []policy.Item{e.items[e.selected]}, 0, true
		x.expected, x.keptContext, x.partialSum = e.expected, e.keptContext, e.partialSum
	}
	a.writes = append(a.writes, state.Write{Hash: learner + ":" + missedHash, Field: strconv.AppendInt(nil, refOf(id, e), 10),
		Value: appendEntry(nil, &x)})
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
	type missed struct {
		entry
		ref int64
	}
	all := make([]missed, len(fields))
	for k, f := range fields {
		x := &all[k]
		var err error
		if x.ref, err = strconv.ParseInt(string(f.Field), 10, 64); err == nil {
			err = decodeEntry(f.Value, 0, &x.entry)
		}
		if err == nil && (x.ref < 0 || x.kind != pending || x.selected >= 0 && x.items[x.selected] >= l.items.next) {
			err = errEntry
		}
		if err != nil {
			return fmt.Errorf("partition: field %.64q of the missed outcomes: %w", f.Field, err)
		}
	}
	slices.SortFunc(all, func(a, b missed) int { return cmp.Compare(a.ref, b.ref) })
	for k := range all {
		x := &all[k]
		a.writes = append(a.writes, state.Write{Hash: l.name + ":" + missedHash, Field: strconv.AppendInt(nil, x.ref, 10)})
		fb := delay.Feedback{Ref: x.ref, Instance: x.instance}
		if x.selected < 0 {
			l.delay.Unselected(fb)
			continue
		}
		if fb.Item = x.items[x.selected]; !l.items.has(fb.Item) { // it has ended
			continue
		}
		fb.Began, fb.InParts = x.began, x.inParts
		fb.Expected, fb.HasExpected = x.expectedOf()
		if x.inParts {
			fb.Before, _ = l.normalise(x.sum)
		}
		if c := l.cfg.Context; c != nil && c.holds(x.context, x.ofUser, x.hasContext) {
			fb.X, fb.Segment = c.vector(nil, x.context, x.ofUser, x.began)
		}
		l.delay.Expired(fb)
	}
	return nil
}

func (a *unconfigured) seal(dst *state.Changes) {
	dst.Writes = append(dst.Writes, a.writes...)
	a.writes = nil
}
