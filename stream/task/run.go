package task

import (
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// start begins the replay of records read since the checkpoint.
func (t *Task) start(m *partition.Machine) {
	r, err := newRunner(&t.cfg, t.acq, m, t.now.Mono)
	if err != nil {
		t.stop(StopState, err)
		return
	}
	m.Elsewhere(t.elsewhere)
	t.run = r
	t.phase = Replaying
	t.err, t.doing = nil, ""
	if t.draining {
		t.phase = Draining
	}
	t.walkKnown(0)
}

// walkKnown fills the machine's id index after the acquire. Until it is complete,
// no id is looked up, and no record is processed whose id might be stored.
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

// verifyKnown checks the fence before any id counts as new: the ids come without one.
func (t *Task) verifyKnown() {
	low := t.run.owner.fence.Seq
	ask(t, "making sure of the known ids", callTimeout, Probe{}, func(f state.Fence) {
		if t.verify(f, low) {
			t.run.machine.KnownComplete()
		}
	})
}

// pump does all that can be done now; it returns true if it stopped for fairness, with more to do.
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
	r.recordOrder(t.now.Mono)
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

// tickEvery is the interval of the watermark: each change costs a few bytes in the next ranking.
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

// finish ends a drain once all steps are acked, saved and committed.
func (t *Task) finish() {
	r := t.run
	if !r.checkpoints.unsaved() && r.lanes.idle() && !r.refencing && !r.commits.owing(r.savedOffsets()) {
		t.end()
	}
}

func (t *Task) times() (now, latest event.Millis, apart error) {
	return t.clock.times(t.now, t.cfg.ClockBound, t.cfg.OneClock)
}

// timeDue reports whether to ask a broker for the time: the clocks differ, and no record
// of ours was stamped for a while. A fence leaves a marker with a broker's timestamp.
func (t *Task) timeDue() bool {
	_, _, apart := t.times()
	return apart != nil && t.now.Mono-t.clock.mono >= askTimeAfter && t.now.Mono-t.acq.fencedAt >= askTimeAfter
}

// askTimeAfter is the age of Kafka's time at which it is asked for again while the clocks differ.
const askTimeAfter = time.Minute
