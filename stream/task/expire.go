package task

import (
	"fmt"
)

const walking = "reading due entries"

// walkDue walks over entries of due buckets. Each step waits until the one before is saved, so that the
// store shows the entries left. Buckets are closed when it shows none and no unsaved change can add any.
func (t *Task) walkDue() {
	r := t.run
	if r.walk.walking || r.full(t.now.Mono) {
		return
	}
	bucket, ok := r.machine.DueUpTo()
	if !ok || r.machine.DueSegment() > r.checkpoints.acked {
		return
	}
	number, low := r.lookups.begin(1), r.owner.fence.Seq
	limit := r.walk.begin()
	send(t, walkTimeout, Due{UpTo: bucket, Limit: limit, Room: maxWalkBytes}, func(due DueEntries, err error) {
		if err != nil {
			r.walk.failed()
			r.stepped(number, 1)
			t.failed(walking, err, func() { r.walk.walking = false })
			return
		}
		t.failures.clear(walking)
		if !t.verify(due.Fence, low) {
			return
		}
		r.walk.took(limit, due.More)
		t.expire(bucket, due)
		if t.run == r {
			r.stepped(number, 1)
		}
	})
}

func (t *Task) expire(bucket int64, due DueEntries) {
	r := t.run
	if t.phase == Draining {
		return
	}
	if len(due.Entries) == 0 {
		r.checkpoints.changed(t.now.Mono)
		r.machine.Walked(bucket)
		return
	}
	for i := range due.Entries {
		if err := r.machine.Expire(due.Entries[i]); err != nil {
			t.stop(StopState, fmt.Errorf("expiring %s: %w", due.Entries[i].ID, err))
			return
		}
		r.checkpoints.changed(t.now.Mono)
		t.takeDeadLetters(&r.unranked, 0)
		r.unranked.Reset()
		r.sealLarge(t.now.Mono)
		r.recordOrder(t.now.Mono)
	}
	t.obs.Walked += int64(len(due.Entries))
}

// A step of the expiry walk takes walkAtLeast ids. There is one step per checkpoint, and an impression is visited up to three times. So a
// step that did not reach the end is followed by one of twice its size, up to walkAtMost, which bounds a reply. Otherwise due ids would
// pile up in a busy store.
const (
	walkAtLeast = 4000
	walkAtMost  = 32_000
	walkTimeout = 2 * callTimeout // of a step, which is several calls

	maxWalkBytes = 16 << 20 // of a step's entries
)

type expiryWalk struct {
	walking bool
	limit   int  // of the next step; 0: walkAtLeast
	behind  bool // the last step has not reached the end
}

// begin starts a step, and returns its bound.
func (w *expiryWalk) begin() (limit int) {
	w.walking = true
	return max(w.limit, walkAtLeast)
}

// took ends a step; more means that it has not reached the end.
func (w *expiryWalk) took(limit int, more bool) {
	w.walking, w.behind, w.limit = false, more, walkAtLeast
	if more {
		w.limit = min(2*limit, walkAtMost)
	}
}

// failed shrinks the next batch: this one may have timed out because it was too large.
func (w *expiryWalk) failed() { w.limit = walkAtLeast }
