package task

import (
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// segment is a run of steps with the cut at its end. It may be saved once the rankings and dead letters of its steps,
// and of all before, are acked.
type segment struct {
	number   uint64
	changes  state.Changes
	bytes    int64
	answers  int64         // of bytes, what selections and payoffs have changed
	since    time.Duration // when its first change was made
	inputs   []state.Position
	rankings int64               // made up to here
	letters  [event.Inputs]int64 // likewise
	position int64               // of the rankings, known once they are acked
	witness  state.Witness
}

// seal closes the open segment: when it has grown large, or when a checkpoint could take it.
func (t *Task) seal() {
	r := t.run
	if r.openSince < 0 && !r.moved {
		return
	}
	_, open := r.machine.Dirty()
	due := t.phase == Draining || t.now.Mono-r.checkpointAt >= t.cfg.CheckpointInterval
	if open < t.cfg.SegmentBytes && (!due || len(r.segments) > 0) {
		return
	}
	s := &segment{bytes: open, answers: r.answers.open, since: r.openSince, rankings: r.rankings.made}
	if s.since < 0 {
		s.since = t.now.Mono
	}
	s.number, _ = r.machine.Seal(&s.changes)
	for i := range r.queues {
		s.inputs = append(s.inputs, r.queues[i].position())
		s.letters[i] = r.deadLetters[i].made
	}
	s.position, s.witness = r.rankings.position, r.rankings.witness
	if r.replaying { // nothing of ours has been produced yet
		s.position = r.cursor.position(t.cfg.sabotage.pastDecision)
	}
	r.segments = append(r.segments, s)
	r.sealedBytes += s.bytes
	r.answers.sealed += s.answers
	r.answers.open = 0
	r.openSince, r.moved = -1, false
}

// maxCheckpointBytes bounds one checkpoint, so that no script keeps the store busy for long.
const maxCheckpointBytes = 8 << 20

// checkpoint saves the oldest segments that may be saved, merged into one.
func (t *Task) checkpoint() {
	r := t.run
	if r.inFlight > 0 || len(r.segments) == 0 || r.unfit { // to be written, others might be deleted
		return
	}
	if t.phase != Draining && t.now.Mono-r.checkpointAt < t.cfg.CheckpointInterval {
		return
	}
	var bytes int64
	n := 0
	for n < len(r.segments) && t.saveable(r.segments[n]) && (n == 0 || bytes+r.segments[n].bytes <= maxCheckpointBytes) {
		bytes += r.segments[n].bytes
		n++
	}
	if n == 0 {
		return
	}
	r.inFlight = n
	r.checkpointAt = t.now.Mono
	t.save(t.merge(r.segments[:n]), t.now.Mono)
}

// saveable tells whether everything that the segment's steps emitted is in the log.
func (t *Task) saveable(s *segment) bool {
	r := t.run
	if t.cfg.sabotage.unacked {
		return true
	}
	if s.rankings > r.rankings.acked {
		return false
	}
	for i := range s.letters {
		if s.letters[i] > r.deadLetters[i].acked {
			return false
		}
	}
	return true
}

func (t *Task) merge(segments []*segment) *state.Checkpoint {
	r := t.run
	last := segments[len(segments)-1]
	c := &state.Checkpoint{
		Fence: r.fence,
		ID:    checkpointID(r.fence),
		Meta:  t.acq.meta,
	}
	c.Meta.Layout = Layout
	c.Meta.Inputs, c.Meta.Rankings, c.Meta.RankingsWitness = last.inputs, last.position, last.witness
	c.Meta.ProducerID, c.Meta.ProducerEpoch = t.acq.producer.ID, t.acq.producer.Epoch
	c.Meta.FormerProducers = t.former()
	if len(segments) == 1 {
		c.Changes = last.changes
		return c
	}
	for _, s := range segments {
		c.Changes.Writes = append(c.Changes.Writes, s.changes.Writes...)
		c.Changes.Entries = append(c.Changes.Entries, s.changes.Entries...)
		c.Changes.Due = append(c.Changes.Due, s.changes.Due...)
	}
	return c
}

// checkpointID is that of the checkpoint which follows a state.
func checkpointID(f state.Fence) string { return f.Token + "-" + strconv.FormatInt(f.Seq+1, 10) }

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
		t.fine(saving)
		t.restarts.reset()
		t.stops.pause = 0
		r.fence.Seq++
		r.ackedSegment = r.segments[r.inFlight-1].number
		for _, s := range r.segments[:r.inFlight] {
			r.sealedBytes -= s.bytes
			r.answers.sealed -= s.answers
		}
		r.segments = append(r.segments[:0], r.segments[r.inFlight:]...)
		r.inFlight = 0
		r.saved = c.Meta.Inputs
		r.forget = append(r.forget, forgetting{r.ackedSegment, r.lookups.last})
		t.forgetSaved()
		t.obs.checkpointed(c, t.now.Mono-began)
	})
}

// commitEvery is how often the coordinator is told our offsets.
const commitEvery = time.Second

// commit tells the group's coordinator how far we are. Nothing depends on it but lag tools, and the evidence that
// the group has run before.
func (t *Task) commit() {
	r := t.run
	if r.committing || r.saved == nil || t.phase != Draining && t.now.Mono < r.commitAt || !r.uncommitted() {
		return
	}
	offsets := make([]int64, event.Inputs)
	for i := range offsets {
		offsets[i] = -1
		if !r.queues[i].off {
			offsets[i] = r.saved[i].Offset
		}
	}
	r.committing = true
	send(t, callTimeout, Commit{Offsets: offsets}, func(_ nothing, err error) {
		r.committing = false
		r.commitAt = t.now.Mono + commitEvery
		if err != nil && t.phase != Draining {
			t.obs.Retries++
			return
		}
		copy(r.committed[:], offsets) // when draining, one try is enough
	})
}

func (r *runner) uncommitted() bool {
	if r.saved == nil {
		return false
	}
	for i := range r.saved {
		if !r.queues[i].off && r.saved[i].Offset != r.committed[i] {
			return true
		}
	}
	return r.committing
}
