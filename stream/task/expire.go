package task

import "fmt"

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
