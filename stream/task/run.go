package task

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// runner is the part of a task that lives from the end of an acquire to the next restart.
type runner struct {
	cfg         *Config
	machine     *partition.Machine
	owner       ownership
	replay      replay
	queues      queues
	lookups     lookups
	lanes       lanes
	checkpoints checkpoints
	walk        walk
	commits     commits

	unranked     partition.Output // of steps that rank nothing; empty between them
	answeredLast bool             // the last step was a selection's or a payoff's
	refencing    bool
	checking     bool // a check runs after a fetch error; no new fetches
	tickedAt     time.Duration
	tallied      tallied
}

// start begins the replay of what was read since the checkpoint.
func (t *Task) start(m *partition.Machine) {
	meta := &t.acq.meta
	r := &runner{
		cfg: &t.cfg, machine: m, lookups: newLookups(), checkpoints: newCheckpoints(t.now.Mono), commits: newCommits(),
		owner:   ownership{fence: meta.Fence, probedAt: t.now.Mono},
		replay:  replay{on: true, cursor: newCursor(&t.cfg, t.acq)},
		tallied: tallied{account: m.Account()},
	}
	for topic := range event.Topic(event.Inputs) {
		pos := meta.Inputs[topic]
		r.queues[topic] = queue{topic: topic, pos: pos, next: pos.Offset, off: !t.cfg.reads(topic)}
	}
	var err error
	if r.replay.follower, err = newFollower(m, t.cfg.Adrift || meta.Layout < 2); err != nil {
		t.stop(StopState, err)
		return
	}
	m.Elsewhere(t.elsewhere)
	if r.replay.follower.adrift {
		m.Begin(r.queues.offsets())
	}
	r.lanes.rankings.position, r.lanes.rankings.witness = meta.Rankings, meta.RankingsWitness
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
	low := t.run.owner.fence.Seq
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
		if r.replay.on && !t.goOn() {
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
		r.letGo(t.now.Mono)
	}
	t.produce()
	r.seal(t.now.Mono, t.phase == Draining)
	t.checkpoint()
	t.probe()
	t.commit()
	if t.phase == Draining {
		t.finish()
	}
	return busy
}

// tickEvery is how often the watermark is moved on: each time costs a few bytes in the next ranking.
const tickEvery = 100 * time.Millisecond

func (t *Task) tick() {
	r := t.run
	if t.now.Mono-r.tickedAt < tickEvery && r.tickedAt != 0 {
		return
	}
	r.tickedAt = t.now.Mono
	r.queues.release()
	now, _, apart := t.times()
	if apart != nil && t.clock.known {
		t.troubles.fails(comparing, fmt.Errorf("%s: %w", comparing, apart), t.now.Mono)
	} else {
		t.troubles.fine(comparing)
	}
	if apart == nil && !r.replay.on || t.cfg.sabotage.ownClock {
		r.machine.Tick(now, r.queues.atEnd(t.now.Mono))
	}
}

// finish ends a drain: everything stepped is acked, checkpointed and told to the coordinator.
func (t *Task) finish() {
	r := t.run
	if !r.checkpoints.unsaved() && r.lanes.idle() && !r.refencing && !r.commits.owing(r.savedOffsets()) {
		t.end()
	}
}
