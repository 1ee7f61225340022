package task

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// start begins the replay of what was read since the checkpoint.
func (t *Task) start(m *partition.Machine) {
	r, err := newRunner(&t.cfg, t.acq, m, t.now.Mono)
	if err != nil {
		t.stop(StopState, err)
		return
	}
	m.Elsewhere(t.elsewhere)
	t.run = r
	t.loads++
	t.phase = Replaying
	t.err, t.doing = nil, ""
	if t.draining {
		t.phase = Draining
	}
	t.walkKnown(0)
}

// walkKnown fills the machine's set of known ids, behind the acquire. Until it is complete nothing is looked up, since nobody knows
// where, and nothing stepped that something may be stored under.
func (t *Task) walkKnown(cursor uint64) {
	ask(t, "reading known ids", loadTimeout, KnownIDs{Cursor: cursor}, func(k Known) {
		for i := range k.Pages {
			t.run.machine.AddKnown(&k.Pages[i])
		}
		if k.Next == 0 {
			t.verifyKnown()
			return
		}
		t.walkKnown(k.Next)
	})
}

// verifyKnown makes sure, before any id is taken for new, that the ids were those of our own state all the time: they come
// without a fence.
func (t *Task) verifyKnown() {
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
		if r.replay.on && !t.tryEndReplay() {
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
		r.dropStale(t.now.Mono)
	}
	r.tell(t.now.Mono)
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
		t.failures.note(comparing, fmt.Errorf("%s: %w", comparing, apart), t.now.Mono)
	} else {
		t.failures.clear(comparing)
	}
	if apart == nil && !r.replay.on {
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

// times are the present time, and up to when a record's own time is believed; see clock.
func (t *Task) times() (now, latest event.Millis, apart error) {
	return t.clock.times(t.now, t.cfg.ClockBound, t.cfg.OneClock)
}

// timeDue tells whether a broker is to be asked for the time: the clocks are apart, and nothing of ours has been stamped for a
// while. A fence leaves a marker in the log, which a broker stamps.
func (t *Task) timeDue() bool {
	_, _, apart := t.times()
	return apart != nil && t.now.Mono-t.clock.mono >= askTimeAfter && t.now.Mono-t.acq.fencedAt >= askTimeAfter
}

// askTimeAfter is how old Kafka's time may be before it is asked for again because the clocks are apart.
const askTimeAfter = time.Minute
