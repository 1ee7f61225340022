package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// runner is the part of a task that lives from the end of an acquire to the next restart.
type runner struct {
	machine  *partition.Machine
	fence    state.Fence // as of the last acked checkpoint
	cursor   cursor
	follower follower
	leading  bool // the follower has the steps of the cursor's decision
	proving  bool // it is being looked up whether the state holds the cursor's earlier decisions
	queues   [event.Inputs]queue
	lookups  lookups

	rankings    rankingsOut
	deadLetters [event.Inputs]deadLettersOut
	letters     partition.Output // of steps that rank nothing; empty between them
	refencing   bool

	replaying bool // what was read since the checkpoint is being stepped; the cursor is asked first

	segments     []*segment // sealed, oldest first; those of the checkpoint in flight are still among them
	inFlight     int        // how many of them the checkpoint in flight covers
	checkpointAt time.Duration
	sealedBytes  int64
	answers      struct{ open, sealed int64 } // bytes not yet checkpointed that are selections' and payoffs' doing
	answeredLast bool                         // the last step was one of theirs
	openSince    time.Duration                // when the oldest change not yet sealed was made; -1: none
	ackedSegment uint64
	moved        bool // positions have moved since the last seal, though perhaps no state
	forget       []forgetting
	forgets      uint64 // one more than how often the machine was told to forget

	walking    bool
	walkLimit  int  // of the next step of the walk; 0: walkAtLeast
	behind     bool // the last step of the walk has not come to the end
	checking   bool // a check runs after a fetch error; no new fetches
	probing    bool
	probedAt   time.Duration
	unfit      bool // the store is set up so that it may delete what it is given
	tickedAt   time.Duration
	saved      []state.Position // of the last checkpoint acked
	committed  [event.Inputs]int64
	committing bool
	commitAt   time.Duration

	tallied        partition.Account // what the observations have of the account
	talliedForeign int64             // and of the cursor's foreign decisions
}

// start begins the replay of what was read since the checkpoint.
func (t *Task) start(m *partition.Machine) {
	meta := &t.acq.meta
	r := &runner{machine: m, tallied: m.Account(), fence: meta.Fence, openSince: -1, forgets: 1, replaying: true, probedAt: t.now.Mono, checkpointAt: t.now.Mono}
	for topic := event.Topic(0); topic < event.Inputs; topic++ {
		q := &r.queues[topic]
		q.topic = topic
		q.pos = meta.Inputs[topic]
		q.next = q.pos.Offset
		q.off = !t.reads(topic)
		r.committed[topic] = -1
	}
	r.cursor = newCursor(&t.cfg, t.acq)
	var err error
	if r.follower, err = newFollower(m, t.cfg.Adrift || meta.Layout < 2); err != nil {
		t.stop(StopState, err)
		return
	}
	m.Elsewhere(t.elsewhere)
	if r.follower.adrift {
		m.Begin(r.offsets())
	}
	r.rankings.position = meta.Rankings
	r.rankings.witness = meta.RankingsWitness
	r.moved = true // the producer's identity and, once the cursor is through, the rankings position
	t.run = r
	t.loads++
	t.phase = Replaying
	t.err, t.doing = nil, ""
	if t.draining {
		t.phase = Draining
	}
	t.walkKnown(0)
}

// walkKnown fills the machine's set of known ids, behind the acquire. Until it is complete every impression is
// looked up.
func (t *Task) walkKnown(cursor uint64) {
	ask(t, "reading known ids", loadTimeout, KnownIDs{Cursor: cursor}, func(k Known) {
		t.run.machine.AddKnown(k.IDs)
		if k.Next == 0 {
			t.knowsAll()
			return
		}
		t.walkKnown(k.Next)
	})
}

// knowsAll makes sure, before any id is taken for new, that the ids were those of our own state all the time: they come
// without a fence.
func (t *Task) knowsAll() {
	low := t.run.fence.Seq
	ask(t, "making sure of the known ids", callTimeout, Probe{}, func(f state.Fence) {
		if t.verify(f, low) {
			t.run.machine.KnownComplete()
		}
	})
}

// pump does what can be done now; it returns true when it stopped for the sake of fairness, with more at hand.
func (t *Task) pump() (busy bool) {
	r := t.run
	t.tick()
	if t.phase != Draining {
		if r.replaying && !t.replay() {
			return false
		}
		busy = t.step()
		if t.run != r {
			return false
		}
		t.readCursor() // the step may have taken the last decision
		t.fetch()
		t.lookUp()
		t.walkDue()
		t.letGo()
	}
	t.produce()
	t.seal()
	t.checkpoint()
	t.probe()
	t.commit()
	if t.phase == Draining {
		t.finish()
	}
	return busy
}

// replay ends the replay once no decision is left to adopt; it tells whether the task goes on.
func (t *Task) replay() bool {
	r := t.run
	exhausted, err := r.cursor.exhausted()
	if err != nil {
		t.stop(StopState, err)
		return false
	}
	if exhausted && t.proven() || t.cfg.sabotage.noAdoption {
		t.replayed()
	}
	return true
}

// proven tells whether the state is known to hold what the log says was decided for impressions that its checkpoint covers. A
// state that does not was saved by an owner who was none any more, in a store that did not know it yet.
func (t *Task) proven() bool {
	r := t.run
	if len(r.cursor.earlier) == 0 || t.cfg.sabotage.behindUnseen {
		return true
	}
	if !r.proving {
		r.proving = true
		t.prove()
	}
	return false
}

// prove looks up the first of the earlier decisions, as many as one reply has room for, and so on until none is left.
func (t *Task) prove() {
	r := t.run
	earlier := r.cursor.earlier
	ids := make([][]byte, len(earlier))
	for i := range earlier {
		ids[i] = []byte(earlier[i].id)
	}
	low := r.fence.Seq
	ask(t, "looking up what was decided before the checkpoint", loadTimeout, LookUp{IDs: ids, Room: maxLookUpBytes}, func(found LookedUp) {
		if !t.verify(found.Fence, low) {
			return
		}
		for i, value := range found.Values {
			e := &earlier[i]
			if !r.machine.Holds(ids[i], value, e.offset, e.deadline) {
				t.stop(StopState, fmt.Errorf("%w: %q was ranked for the impression at offset %d, which the state has read, and is not in it: "+
					"it was saved by a worker that did not own the partition any more: stop the workers and give `ranker-worker state "+
					"rebuild --replace`, or restore a backup", errContradiction, e.id, e.offset))
				return
			}
		}
		if r.cursor.earlier = earlier[len(found.Values):]; len(r.cursor.earlier) > 0 {
			t.prove()
			return
		}
		r.proving = false
	})
}

// replayed ends the replay: past the last decision of any earlier owner, impressions are decided anew.
func (t *Task) replayed() {
	r := t.run
	r.replaying = false
	r.machine.Begin(r.offsets())
	r.rankings.position = max(r.rankings.position, r.cursor.position(false))
	r.moved = true
	if t.phase == Replaying {
		t.phase = Running
	}
}

// offsets is how far the topics have been stepped.
func (r *runner) offsets() (at [event.Inputs]int64) {
	for i := range r.queues {
		at[i] = r.queues[i].pos.Offset
	}
	return at
}

// tickEvery is how often the watermark is moved on: each time costs a few bytes in the next ranking.
const tickEvery = 100 * time.Millisecond

func (t *Task) tick() {
	r := t.run
	if t.now.Mono-r.tickedAt < tickEvery && r.tickedAt != 0 {
		return
	}
	r.tickedAt = t.now.Mono
	var atEnd [event.Inputs]bool
	for i := range r.queues {
		q := &r.queues[i]
		atEnd[i] = q.off || q.atEnd && q.len() == 0 && t.now.Mono-q.answeredAt < atEndFor
	}
	for i := range r.queues {
		r.queues[i].held = false // what it waits for may have come
	}
	now, _, apart := t.times()
	if apart != nil && t.clock.known {
		t.fails(comparing, fmt.Errorf("%s: %w", comparing, apart))
	} else {
		t.fine(comparing)
	}
	if apart == nil && !r.replaying || t.cfg.sabotage.ownClock {
		r.machine.Tick(now, atEnd)
	}
}

// atEndFor is how long a fetch answer that showed us at the end of a topic counts.
const atEndFor = 5 * time.Second

// full tells whether no more may be stepped until the store has caught up, since so much is unsaved, or is fit again.
func (t *Task) full() bool {
	r := t.run
	if r.unfit {
		return true
	}
	_, open := r.machine.Dirty()
	if r.sealedBytes+open >= t.cfg.MaxUnsavedBytes {
		return true
	}
	since := r.openSince
	if len(r.segments) > 0 {
		since = r.segments[0].since
	}
	return since >= 0 && t.now.Mono-since >= t.cfg.MaxUnsavedAge
}

// finish ends a drain: everything stepped is acked, checkpointed and told to the coordinator.
func (t *Task) finish() {
	r := t.run
	if len(r.segments) > 0 || r.openSince >= 0 || !r.rankings.idle() || r.refencing || r.uncommitted() {
		return
	}
	for i := range r.deadLetters {
		if !r.deadLetters[i].idle() {
			return
		}
	}
	t.end()
}

// probeEvery is how often a partition makes sure that the store is still as we left it, and still set up to keep it.
const probeEvery = time.Second

func (t *Task) probe() {
	r := t.run
	const doing = "making sure of the stored state"
	if r.probing || t.now.Mono-r.probedAt < probeEvery {
		return
	}
	r.probing = true
	low := r.fence.Seq
	send(t, callTimeout, Probe{}, func(f state.Fence, err error) {
		r.probing, r.probedAt = false, t.now.Mono
		// Of other errors it is not known whether it is fit again.
		r.unfit = errors.Is(err, state.ErrUnfit) || r.unfit && err != nil
		if err != nil {
			t.failed(doing, err, func() {})
			return
		}
		t.fine(doing)
		t.verify(f, low)
	})
}

// verify holds a fence that the store showed against ours: the token must be ours, and the sequence between that of
// the last ack when we asked and that of a checkpoint in flight now. Anything else means a later owner or a rollback.
func (t *Task) verify(f state.Fence, low int64) bool {
	r := t.run
	high := r.fence.Seq
	if r.inFlight > 0 {
		high++
	}
	if t.cfg.sabotage.unverified {
		return true
	}
	if f.Token != r.fence.Token || f.Seq < low || f.Seq > high {
		t.restart(fmt.Errorf("%w: the store shows %v, ours is %v", state.ErrFenced, f, r.fence))
		return false
	}
	return true
}

// wakeForCheckpoint is how soon the task is to be called for the sake of the next checkpoint. What waits for a reply
// is woken by that.
func (t *Task) wakeForCheckpoint() time.Duration {
	r := t.run
	switch {
	case r.inFlight > 0, r.unfit,
		len(r.segments) == 0 && r.openSince < 0 && !r.moved,
		len(r.segments) > 0 && !t.saveable(r.segments[0]):
		return idleWake
	}
	return max(r.checkpointAt+t.cfg.CheckpointInterval-t.now.Mono, time.Millisecond)
}
