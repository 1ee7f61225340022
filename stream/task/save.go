package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// checkpoint saves the oldest saveable segments, merged into one checkpoint.
func (t *Task) checkpoint() {
	r := t.run
	due := t.phase == Draining || r.checkpoints.due(t.now.Mono, t.cfg.CheckpointInterval)
	if r.owner.unfit || !due { // an unfit store might delete it
		return
	}
	if segments := r.checkpoints.next(t.now.Mono, r.saveable); len(segments) > 0 {
		r.machine.Sent(len(segments))
		t.save(merge(segments, r.owner.fence, t.acq.metaOf(r.replay.cursor.producers)), t.now.Mono)
	}
}

// checkpointTimeout is for one try; the same checkpoint is sent again, and the store recognises it by its id.
const checkpointTimeout = 30 * time.Second

const saving = "saving a checkpoint"

func (t *Task) save(c *state.Checkpoint, began time.Duration) {
	r := t.run
	send(t, checkpointTimeout, Checkpoint{c}, func(_ nothing, err error) {
		if err != nil {
			t.failed(saving, err, func() { t.save(c, began) })
			return
		}
		t.failures.clear(saving)
		t.restarts.reset()
		t.stops.pause = 0
		r.owner.fence.Seq++
		r.checkpoints.done(c.Meta.Inputs)
		r.machine.Saved(r.checkpoints.acked, r.owner.fence)
		r.lookups.saved(r.checkpoints.acked)
		r.forgetSaved()
		t.obs.checkpointed(c, t.now.Mono-began)
	})
}

func (t *Task) commit() {
	r := t.run
	saved := r.savedOffsets()
	if !r.commits.due(saved, t.now.Mono, t.phase == Draining) {
		return
	}
	r.commits.inFlight = true
	sent := saved
	send(t, callTimeout, Commit{Offsets: sent[:]}, func(_ nothing, err error) {
		// A drain commits once.
		ok := err == nil || t.phase == Draining
		r.commits.answered(sent, t.now.Mono, ok)
		if !ok {
			t.obs.Retries++
		}
	})
}

// commits sends offsets to the group's coordinator, for lag tools and seekEarlierRun.
type commits struct {
	committed offsets // -1: nothing
	inFlight  bool
	next      time.Duration // not before
}

func newCommits() commits { return commits{committed: offsets{-1, -1, -1}} }

const commitEvery = time.Second

// due reports whether to commit these offsets now; hurry ignores the interval.
func (c *commits) due(saved offsets, now time.Duration, hurry bool) bool {
	return !c.inFlight && saved != c.committed && (hurry || now >= c.next)
}

// owing reports whether the coordinator lacks these offsets, or has not answered.
func (c *commits) owing(saved offsets) bool { return c.inFlight || saved != c.committed }

// answered ends a commit. A failed one is repeated later.
func (c *commits) answered(saved offsets, now time.Duration, ok bool) {
	c.inFlight, c.next = false, now+commitEvery
	if ok {
		c.committed = saved
	}
}
