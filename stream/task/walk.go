package task

import "fmt"

// A step of the expiry walk takes walkAtLeast ids. There is one step per checkpoint, however long that takes, and an
// impression is walked over up to three times; so a step that has not come to the end is followed by one of twice its size, up to
// walkAtMost, which bounds what one reply holds. Else a busy store would be left with more and more ids whose time has come.
const (
	walkAtLeast = 4000
	walkAtMost  = 32_000
	walkTimeout = 2 * callTimeout // of a step, which is several calls

	maxWalkBytes = 16 << 20 // of a step's ids and records
)

// walk is the walk over ids whose deadlines are past. One step is under way at a time.
type walk struct {
	walking bool
	limit   int  // of the next step; 0: walkAtLeast
	behind  bool // the last step has not come to the end
}

// begin begins a step, of at most so many ids.
func (w *walk) begin() (limit int) {
	w.walking = true
	return max(w.limit, walkAtLeast)
}

// took ends a step of at most limit ids; more says that it has not come to the end.
func (w *walk) took(limit int, more bool) {
	w.walking, w.behind, w.limit = false, more, walkAtLeast
	if more {
		w.limit = min(2*limit, walkAtMost)
	}
}

// failed makes the next step, which may begin some time later, a small one: so many ids may have been too many for the time
// there is.
func (w *walk) failed() { w.limit = walkAtLeast }

const walking = "walking the expiry index"

// walkDue walks over ids whose bucket has come. Each step waits until the one before is saved, so that the store
// shows what is left; the buckets are closed when it shows nothing and nothing unsaved can add to them.
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
	send(t, walkTimeout, Due{UpTo: bucket, Limit: limit, Room: maxWalkBytes}, func(due DueIDs, err error) {
		if err != nil {
			r.walk.failed()
			r.stepped(number, 1)
			t.failed(walking, err, func() { r.walk.walking = false })
			return
		}
		t.troubles.fine(walking)
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

func (t *Task) expire(bucket int64, due DueIDs) {
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
		if err := r.machine.Expire(due.Entries[i], t.now.Wall, &r.unranked); err != nil {
			t.stop(StopState, fmt.Errorf("expiring %q: %w", due.Entries[i].ID, err))
			return
		}
		r.checkpoints.changed(t.now.Mono)
		t.bury(&r.unranked, 0)
		r.unranked.Reset()
		r.sealLarge(t.now.Mono)
	}
	t.obs.Walked += int64(len(due.Entries))
}
