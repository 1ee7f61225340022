package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Observations are events since the last Observe, for metrics. Durations are in the shell's Mono time.
type Observations struct {
	// Account is the increase of the account's counts, except pending and parked. Steps repeated after memory was dropped count again.
	Account     partition.Account
	Learners    []partition.LearnerAccount // the increase for each learner that has one
	Stepped     [event.Inputs]int64
	LookedUp    int64
	Walked      int64 // ids visited by the expiry walk
	Adopted     int64
	Foreign     int64               // our group's decisions in the log by other producers; they do not count
	Gaps        int64               // times that headers left out observations
	Misspelt    [event.Inputs]int64 // records decoded with a misspelt field
	Fenced      int64               // times that memory was dropped
	Retries     int64               // transient errors
	Latencies   []int64             // per ranking acked: milliseconds since its impression's Kafka timestamp
	Produces    []Sample            // per acked batch of rankings
	Checkpoints []Sample            // per checkpoint
	DeadLetters []Refusal
	Dropped     []Status // the last one of each memory that was dropped: counts of the next begin at 0
}

// Sample is the size and duration of one operation.
type Sample struct {
	Size int // records of a batch; entries, pages and fields of a checkpoint
	Took time.Duration
}

type Refusal struct {
	Topic  event.Topic
	Offset int64
	Reason string
	Detail string // for people
}

func (o *Observations) produced(n int, took time.Duration) {
	o.Produces = append(o.Produces, Sample{n, took})
}

func (o *Observations) checkpointed(c *state.Checkpoint, took time.Duration) {
	n := len(c.Changes.Writes) + len(c.Changes.Entries) + len(c.Changes.Pages)
	o.Checkpoints = append(o.Checkpoints, Sample{n, took})
}

// Observe returns the events since the last call; into's slices are reused.
func (t *Task) Observe(into *Observations) {
	t.tally()
	keep := *into
	*into = t.obs
	t.obs = Observations{Learners: keep.Learners[:0], Latencies: keep.Latencies[:0], Produces: keep.Produces[:0],
		Checkpoints: keep.Checkpoints[:0], DeadLetters: keep.DeadLetters[:0]}
}

// tally adds the account's increase since the last call to the observations.
func (t *Task) tally() {
	if t.run == nil {
		return
	}
	had := &t.run.tallied
	now := tallied{t.run.machine.Account(), t.run.machine.Accounts(), t.run.replay.cursor.foreign, t.run.machine.Gaps(), t.run.machine.Misspelt()}
	for topic := range now.misspelt {
		t.obs.Misspelt[topic] += now.misspelt[topic].Records - had.misspelt[topic].Records
	}
	t.obs.Foreign += now.foreign - had.foreign
	t.obs.Gaps += now.gaps - had.gaps
	t.obs.Account = t.obs.Account.Plus(now.account.Minus(had.account))
	for i, l := range now.learners {
		if i < len(had.learners) { // later learners began at 0
			l.Account = l.Account.Minus(had.learners[i].Account)
		}
		t.obs.tally(l)
	}
	*had = now
}

func (o *Observations) tally(l partition.LearnerAccount) {
	if l.Account == (partition.Account{}) {
		return
	}
	for i := range o.Learners {
		if o.Learners[i].Name == l.Name {
			o.Learners[i].Account = o.Learners[i].Account.Plus(l.Account)
			return
		}
	}
	o.Learners = append(o.Learners, l)
}

// Status is a task's status for metrics, /readyz and people.
type Status struct {
	Phase     Phase
	Reason    StopReason          // set when stopped
	Stops     uint64              // number of stops so far
	Again     time.Duration       // when stopped: time until the next try; 0: none
	Err       error               // why it is stopped, or the error it retries after; nil: all is well
	Doing     string              // with Err: the call that fails; else the step of an acquire
	Began     bool                // nothing was stored, and the task has chosen where the group begins to read
	Skipped   [event.Inputs]int64 // likewise: records before that
	RankedBy  string              // likewise: another group with decisions in the rankings; empty: none
	Lag       [event.Inputs]int64
	Next      [event.Inputs]int64 // offset of the next record to step
	First     [event.Inputs]int64 // least offset that retention has left
	Unsaved   int64               // unsaved bytes
	Full      bool                // steps wait for the store
	Watermark event.Millis
	// ClockOffset is by how much the worker's clock is ahead of Kafka's, if known.
	ClockOffset time.Duration
	ClockKnown  bool
	Foreign     int64        // our group's decisions in the log by other producers, since the last load
	WalkLag     event.Millis // how far the expiry walk is behind the watermark
	Account     partition.Account
	Learners    []partition.LearnerStatus
	Experiments []partition.ExperimentStatus
	Misspelt    [event.Inputs]event.Misspelling // since the last load
}

// Phase returns the phase; cheaper than Status.
func (t *Task) Phase() Phase { return t.phase }

// Status returns the task's status. Account, Learners, Watermark, Lag and offsets are zero until the state is loaded.
func (t *Task) Status() Status {
	s := progressOf(t)
	if r := t.run; r != nil {
		s.Account = r.machine.Account()
		s.Learners = r.machine.Learners()
		s.Experiments = r.machine.Experiments()
		s.Misspelt = r.machine.Misspelt()
	}
	return s
}

// progressOf returns the status without the parts that the machine sums up.
func progressOf(t *Task) Status {
	s := Status{Phase: t.phase, Reason: t.reason, Stops: t.stops.count, Began: t.began, Skipped: t.skipped, RankedBy: t.rankedBy}
	s.Doing, s.Err = t.waitsFor()
	if t.stops.again > 0 {
		s.Again = max(t.stops.again-t.now.Mono, time.Millisecond)
	}
	s.ClockKnown = t.clock.known
	s.ClockOffset = time.Duration(t.now.Wall-t.clock.kafka(t.now, t.cfg.OneClock)) * time.Millisecond
	r := t.run
	if r == nil {
		return s
	}
	s.Foreign = r.replay.cursor.foreign
	_, open := r.machine.Dirty()
	s.Unsaved = r.checkpoints.bytes + open
	s.Full = r.behindStore(t.now.Mono)
	s.Watermark = r.machine.Watermark()
	s.WalkLag = r.machine.WalkLag()
	for i := range r.queues {
		q := &r.queues[i]
		s.Lag[i], s.Next[i], s.First[i] = q.lag(), q.pos.Offset, q.logStart
	}
	return s
}

// Look returns a sample of the learners; nil until the state is loaded.
func (t *Task) Look() *partition.Sample {
	if t.run == nil {
		return nil
	}
	return t.run.machine.Look()
}

type Phase uint8

// The phases of a task, in order. A restart returns to Acquiring.
const (
	Acquiring Phase = iota // take-over, fence, checks, load
	Replaying              // stepping records read since the checkpoint; adopting logged decisions
	Running
	Draining // no new input; steps are being saved
	Done     // drained, or the generation is over
	Stopped  // a check failed: idle, with a reason; retried if the cause can be mended outside
)

func (p Phase) String() string {
	return [...]string{"acquiring", "replaying", "running", "draining", "done", "stopped"}[p]
}

// StopReason is the reason why a partition stopped: a short fixed word, also a metric label.
type StopReason string

const (
	StopTorn        StopReason = "torn"        // a checkpoint is half-written, by a writer that is gone
	StopNoState     StopReason = "no_state"    // the group has run before, but nothing is stored
	StopTopic       StopReason = "topic"       // a topic is missing, recreated, truncated, or its settings do not fit
	StopWitness     StopReason = "witness"     // the log is not the one that was read before
	StopCluster     StopReason = "cluster"     // another Kafka cluster, or other topic names
	StopPartitions  StopReason = "partitions"  // the partition count changed or differs between topics
	StopStore       StopReason = "store"       // the store is not fit to keep state
	StopLearner     StopReason = "learner"     // a learner's fingerprint is not the stored one
	StopState       StopReason = "state"       // stored bytes, or a logged decision, contradict the input
	StopFence       StopReason = "fence"       // earlier owners cannot be fenced
	StopUnsupported StopReason = "unsupported" // broker or store lack a required feature
	StopOffsets     StopReason = "offsets"     // the offset of our own ranking did not rise
)
