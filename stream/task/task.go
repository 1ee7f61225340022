package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Task is the protocol of one partition. It is not safe for concurrent use: one goroutine calls Advance and Handle in turn.
type Task struct {
	cfg Config
	now Now

	nextID   uint64
	waiting  map[uint64]uint64 // requests without a reply, with their incarnation
	requests []Request         // for the next Advance
	handed   []Request         // returned by the last
	timers   timers

	phase       Phase
	incarnation uint64  // rises at each restart; replies of earlier ones are ignored
	restarts    backoff // between restarts; reset when a checkpoint was saved
	stops       stops
	failures    failures
	draining    bool
	reason      StopReason
	err         error  // why it is stopped, or acquires again
	doing       string // the step of an acquire, for people

	clock clock

	logProducers []Producer     // of earlier owners, in the log and missing in the state
	retired      map[int64]bool // producer ids

	elsewhere partition.Elsewhere // learners of other workers of the group

	acq *acquisition // set while acquiring, replaying and running
	run *runner      // set while replaying, running and draining

	began   bool                // nothing was stored, and the group begins here
	skipped [event.Inputs]int64 // likewise, by topic: records before that

	rankedBy string // likewise: another group with decisions in the rankings; empty: none

	obs     Observations
	reading [event.Topics]string // descriptions of fetching each topic
}

// New makes a task that begins to acquire its partition at the first Advance.
func New(cfg Config) *Task {
	cfg.defaults()
	t := &Task{cfg: cfg, waiting: make(map[uint64]uint64), failures: make(failures), retired: make(map[int64]bool)}
	for topic, name := range cfg.TopicNames {
		t.reading[topic] = fmt.Sprintf("fetching %s[%d]", name, cfg.Partition)
	}
	return t
}

// Advance does all that can be done now. It returns requests to execute, valid until the next call, and the longest time to the next call.
func (t *Task) Advance(now Now) (requests []Request, wake time.Duration) {
	t.now = now
	if t.acq == nil && t.phase == Acquiring && t.incarnation == 0 {
		t.acquire()
	}
	t.timers.fire(t.now.Mono, func() bool { return t.phase == Done })
	busy := false
	if t.run != nil && t.phase != Stopped && t.phase != Done {
		busy = t.pump()
	}
	// Requests of replies since the last call are among them.
	requests = t.requests
	clear(t.handed) // they may hold a checkpoint's memory
	t.requests, t.handed = t.handed[:0], requests
	if busy {
		return requests, 0
	}
	return requests, t.wake()
}

func (t *Task) Handle(now Now, r Reply) {
	t.now = now
	incarnation, ok := t.waiting[r.id]
	if !ok {
		return
	}
	delete(t.waiting, r.id)
	if incarnation != t.incarnation || t.phase == Stopped || t.phase == Done {
		return
	}
	r.take()
}

// Drain asks the task to end: it takes no more input, saves its steps, and is then Done.
func (t *Task) Drain() {
	t.draining = true
	switch t.phase {
	case Acquiring:
		t.end()
	case Replaying, Running:
		t.phase = Draining
	}
}

// Elsewhere sets the learners of other workers of the group; the map must not change afterwards.
func (t *Task) Elsewhere(learners partition.Elsewhere) {
	t.elsewhere = learners
	if t.run != nil {
		t.run.machine.Elsewhere(t.elsewhere)
	}
}

func (t *Task) wake() time.Duration {
	wake := t.timers.wake(t.now.Mono)
	if r := t.run; r != nil {
		if !r.owner.unfit {
			wake = min(wake, r.checkpoints.wake(t.now.Mono, t.cfg.CheckpointInterval, r.saveable))
		}
		if r.queues.held() {
			wake = min(wake, tickEvery)
		}
	}
	return wake
}

func (t *Task) after(d time.Duration, fire func()) { t.timers.set(t.now.Mono+d, fire) }

// failed classifies an error: give up, restart, or retry later.
func (t *Task) failed(doing string, err error, again func()) {
	failure := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.Is(err, ErrGenerationOver):
		t.err = failure
		t.end()
	case errors.Is(err, ErrFenced), errors.Is(err, state.ErrFenced), errors.Is(err, ErrSequence),
		errors.Is(err, state.ErrNoState):
		t.restart(failure)
	case errors.Is(err, state.ErrTorn):
		t.stop(StopTorn, failure)
	case errors.Is(err, ErrUnsupported):
		t.stop(StopUnsupported, failure)
	case errors.Is(err, state.ErrLost):
		t.stop(StopStore, failure)
	default:
		t.obs.Retries++
		t.after(t.failures.note(doing, failure, t.now.Mono), again)
	}
}

// waitsFor returns why the task is stopped, else the oldest failure, else
// the reason of a restart, each with the call; a nil error if all is well.
func (t *Task) waitsFor() (doing string, err error) {
	if t.phase == Stopped {
		return t.doing, t.err
	}
	if doing, err := t.failures.oldest(); err != nil {
		return doing, err
	}
	if t.run != nil {
		if q := t.run.queues.waitingLong(t.now.Mono); q != nil {
			doing := t.reading[q.topic]
			return doing, fmt.Errorf("%s: offset %d: %w", doing, q.first().Offset, q.waits)
		}
	}
	return t.doing, t.err
}

// restart drops the memory, which may be outdated, and acquires again.
func (t *Task) restart(err error) {
	t.obs.Fenced++
	t.reset()
	t.err = err
	if t.draining {
		t.end()
		return
	}
	t.phase = Acquiring
	t.after(t.restarts.next(), t.acquire)
}

// begin starts an incarnation: replies of earlier ones are ignored.
func (t *Task) begin() {
	t.incarnation++
	t.timers.clear()
}

func (t *Task) end() {
	t.reset()
	t.phase = Done
}

func (t *Task) reset() {
	if t.run != nil {
		t.obs.Dropped = append(t.obs.Dropped, t.Status())
	}
	t.tally()
	t.begin()
	clear(t.failures)
	t.acq, t.run = nil, nil
}
