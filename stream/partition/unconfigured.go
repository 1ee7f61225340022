package partition

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// unconfigured holds changes of missedHash since the last seal: impressions of unconfigured learners that ended, and deletions of those
// that a learner was fed.
type unconfigured struct{ writes []state.Write }

// miss stores an entry of a learner that is gone and that ends without a payoff. Entries without known items are left out, since their
// learner never saw them, and so are learners from before a reset, which never return.
func (a *unconfigured) miss(learner string, id []byte, e *entry) {
	if _, past := wasReset(learner); past || len(e.items) == 0 {
		return
	}
	x := entry{instance: e.instance, selected: -1, began: e.began, payoffDeadline: e.began} // all that a learner is fed
	if e.selected >= 0 {
		x = *e
	}
	x.kind, x.bucket, x.learner, x.offset, x.unit, x.parked = pending, 0, 0, unknownOffset, unit{arm: noArm}, nil
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

func (a *unconfigured) seal(dst *state.Changes) {
	dst.Writes = append(dst.Writes, a.writes...)
	a.writes = nil
}
