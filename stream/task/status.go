package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Observations are what happened since they were last taken, for metrics. Durations are in the shell's Mono time.
type Observations struct {
	// Account is by how much the counts of the account have risen; what it has pending and parked means nothing here.
	// What was stepped and not checkpointed when memory was dropped is counted when it is stepped again, too.
	Account     partition.Account
	Learners    []partition.LearnerAccount // likewise, of each learner whose counts have risen
	Stepped     [event.Inputs]int64        // records stepped
	LookedUp    int64                      // ids looked up
	Walked      int64                      // ids that the expiry walk came by
	Adopted     int64                      // decisions adopted
	Foreign     int64                      // decisions of our group in the log by producers that are not ours; they do not count
	Gaps        int64                      // times that headers left out what a partition saw
	Misspelt    [event.Inputs]int64        // records decoded that have a misspelt field
	Fenced      int64                      // times that memory was dropped
	Retries     int64                      // passing errors
	Latencies   []int64                    // per ranking acked: milliseconds since its impression's Kafka timestamp
	Produces    []Sample                   // per acked batch of rankings
	Checkpoints []Sample                   // per checkpoint
	DeadLetters []Refusal
}

// Sample is the size and the duration of one operation.
type Sample struct {
	Size int // records of a batch; entries, pages and fields of a checkpoint
	Took time.Duration
}

// Refusal is one dead letter.
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

// Observe hands over what happened since the last call; into's slices are reused.
func (t *Task) Observe(into *Observations) {
	t.tally()
	keep := *into
	*into = t.obs
	t.obs = Observations{Learners: keep.Learners[:0], Latencies: keep.Latencies[:0], Produces: keep.Produces[:0],
		Checkpoints: keep.Checkpoints[:0], DeadLetters: keep.DeadLetters[:0]}
}

// tally moves what the account has risen by since the last call into the observations.
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
		if i < len(had.learners) { // those that were met since began at 0
			l.Account = l.Account.Minus(had.learners[i].Account)
		}
		t.obs.tally(l)
	}
	*had = now
}

// tally adds what the counts of a learner have risen by.
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

// Status is a task's condition for metrics, /readyz and people.
type Status struct {
	Phase     Phase
	Reason    StopReason          // set when stopped
	Stops     uint64              // how often the task has stopped
	Again     time.Duration       // when stopped: after how long it tries again; 0: not by itself
	Err       error               // why stopped, or what is being waited for; nil when all is well
	Doing     string              // with Err: what fails, or failed last; else the step of an acquire
	Began     bool                // nothing was stored, and the task has settled where the group begins to read
	Skipped   [event.Inputs]int64 // likewise: records that stood there before
	RankedBy  string              // likewise: another group whose decisions stand in the rankings; empty: none
	Lag       [event.Inputs]int64
	Unsaved   int64 // bytes of changes not yet checkpointed
	Full      bool  // reading has stopped until the store has caught up
	Watermark event.Millis
	// ClockOffset is by how much the worker's clock is ahead of Kafka's, where that is known.
	ClockOffset time.Duration
	ClockKnown  bool
	Foreign     int64        // decisions of our group in the log by producers that are not ours, since the last load
	WalkLag     event.Millis // how far the walk over deadlines is behind the watermark
	Account     partition.Account
	Learners    []partition.LearnerStatus
	Experiments []partition.ExperimentStatus
	Misspelt    [event.Inputs]event.Misspelling // since the last load
}

// Phase is what the task is doing; cheaper than Status.
func (t *Task) Phase() Phase { return t.phase }

// Loads is how often the task has loaded a state: a new machine knows nothing of what other partitions published before.
func (t *Task) Loads() uint64 { return t.loads }

// Status tells how the task is. Account, Learners, Lag and Watermark are zero until the state is loaded.
func (t *Task) Status() Status {
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
	s.Full = r.full(t.now.Mono)
	s.Watermark = r.machine.Watermark()
	s.WalkLag = r.machine.WalkLag()
	s.Account = r.machine.Account()
	s.Learners = r.machine.Learners()
	s.Experiments = r.machine.Experiments()
	s.Misspelt = r.machine.Misspelt()
	for i := range r.queues {
		s.Lag[i] = r.queues[i].lag()
	}
	return s
}

// Look looks at the learners; nil until the state is loaded.
func (t *Task) Look() *partition.Sample {
	if t.run == nil {
		return nil
	}
	return t.run.machine.Look()
}

// Imported says that SetSource was given a part of what a source has published.
func (t *Task) Imported(i partition.Import) {
	if t.run != nil {
		t.run.machine.Imported(i)
	}
}

// SetSource takes in what another partition has published; it tells whether there is a machine to take it.
func (t *Task) SetSource(source int32, pub *partition.Published) bool {
	if t.run == nil {
		return false
	}
	t.run.machine.SetSource(source, pub)
	return true
}
