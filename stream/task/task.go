package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Config is what a task is made from. The zero value of a limit means its default.
type Config struct {
	Group         string
	Partition     int32
	TopicNames    [event.Topics]string
	HasSelections bool
	StartLatest   bool // where a group that has never run begins
	// NewMachine makes an empty machine. It is called at each acquire, with what one ranking record may take.
	NewMachine func(maxRankingBytes int) (*partition.Machine, error)

	SessionTimeout     time.Duration // the group's; a lower generation waits that long before it takes over
	CheckpointInterval time.Duration // the least time between two checkpoints; default 100 ms
	FenceInterval      time.Duration // how often the fence is repeated; default 6 h
	EpochLimit         int16         // from this epoch on, a new producer id is asked for; default 32,000
	MaxRecordBytes     int           // longer dead letters are cut off
	MaxUnsavedBytes    int64         // changes not yet checkpointed, above which reading stops; default 64 MiB
	MaxUnsavedAge      time.Duration // likewise by age; default 60 s
	SegmentBytes       int64         // a segment is sealed at this size at the latest; default 4 MiB
	FetchBytes         int           // asked for per topic and fetch; default 1 MiB
	FetchWait          time.Duration // how long a fetch waits for a record; default 500 ms
	ClockBound         time.Duration // how far the worker's clock and Kafka's may be apart; default 5 min
	// Adrift says that steps cannot be followed from where the state stands, but only from where they say so themselves.
	Adrift bool
	// OneClock says that the worker's clock is Kafka's too: time is simulated.
	OneClock bool
	// AnyProducer takes decisions of this group from whoever has written them: to make a state anew from a log whose
	// earlier producers nothing tells of any more.
	AnyProducer bool
	StopRetry   time.Duration // after how long a stopped partition tries again for the first time; default 30 s

	sabotage sabotage
}

// sabotage takes one rule out of the protocol. Only this package's tests can set it, to show that the simulation
// notices: a check that nothing can fail is worth nothing. See TestMutations_AreCaught.
type sabotage struct {
	noFence      bool // the producer's epoch is raised, but no marker carries it into rankings[p]
	noAdoption   bool // what the log holds as decided is decided again
	noSequences  bool // batches carry no sequence: a retry appends a copy
	unacked      bool // checkpoints do not wait for rankings and dead letters to be acked
	pastDecision bool // checkpoints of a replay carry a position past decisions not yet adopted
	listedEnd    bool // the replay ends at the end that the broker lists, which can be stale
	unverified   bool // what the store shows is taken without a look at its token and sequence
	forgetEarly  bool // the overlay forgets at the ack, whatever was looked up before
	freshFence   bool // the fence is repeated as if for the first time, without a look at who owns the partition
	foreigners   bool // decisions count whoever has written them
	unretired    bool // a new producer id fences nobody of the old one
	unseenQueue  bool // what is in the queues is not held against the log when its leader has changed
	ownClock     bool // event time goes by the worker's clock
	crowdsOut    bool // what finds no room is given up although what it waits for may be in the log
	unordered    bool // a replay takes records in in an order of its own
	strangers    bool // what comes for a learner that only other workers know is refused
	behindUnseen bool // decisions of before the checkpoint are not held against the state
	// rulesFirst is asked before the cursor whether the rules of the day refuse an impression.
	rulesFirst func(*partition.Record) bool
}

// input takes rules out of a step.
func (s *sabotage) input(in *partition.Input, now Now) {
	if s.ownClock {
		in.Now, in.Latest = now.Wall, now.Wall
	}
	if s.crowdsOut {
		in.Read = [event.Inputs]bool{true, true, true}
	}
}

func (c *Config) defaults() {
	def(&c.SessionTimeout, 10*time.Second)
	def(&c.CheckpointInterval, 100*time.Millisecond)
	def(&c.FenceInterval, 6*time.Hour)
	def(&c.EpochLimit, 32_000)
	def(&c.MaxRecordBytes, 1<<20)
	def(&c.MaxUnsavedBytes, 64<<20)
	def(&c.MaxUnsavedAge, time.Minute)
	def(&c.SegmentBytes, 4<<20)
	def(&c.FetchBytes, 1<<20)
	def(&c.FetchWait, 500*time.Millisecond)
	def(&c.ClockBound, 5*time.Minute)
	def(&c.StopRetry, 30*time.Second)
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Now is a moment on both clocks: Mono measures waits, Wall is what event times are compared with.
type Now struct {
	Mono time.Duration
	Wall event.Millis
}

// Phase is what a task is doing.
type Phase uint8

// The phases of a task, in their order. A restart goes back to Acquiring.
const (
	Acquiring Phase = iota // taking the stored state over, fencing, checking, loading
	Replaying              // stepping what was read since the checkpoint; adopting decisions found in the log
	Running
	Draining // no new input; what was stepped is being made durable
	Done     // drained, or the generation is over; the task does nothing any more
	Stopped  // a check failed: assigned and idle, with a reason; where that can be mended outside it tries again
)

func (p Phase) String() string {
	return [...]string{"acquiring", "replaying", "running", "draining", "done", "stopped"}[p]
}

// StopReason says why a partition stopped: a short fixed word, which is also a metric label.
type StopReason string

// The reasons for which a partition stops loudly.
const (
	StopTorn        StopReason = "torn"        // a checkpoint was written in part, by a writer that is gone
	StopNoState     StopReason = "no_state"    // the group has run before, but nothing is stored
	StopTopic       StopReason = "topic"       // a topic is missing, recreated, truncated, or its settings do not fit
	StopWitness     StopReason = "witness"     // the log is not the one that was read before
	StopCluster     StopReason = "cluster"     // another Kafka cluster, other topic names
	StopPartitions  StopReason = "partitions"  // the partition count changed or differs between topics
	StopStore       StopReason = "store"       // the store is not fit to keep state
	StopLearner     StopReason = "learner"     // a learner's fingerprint is not the stored one
	StopState       StopReason = "state"       // stored bytes, or a decision in the log, that contradict the input
	StopFence       StopReason = "fence"       // earlier owners cannot be kept from producing
	StopUnsupported StopReason = "unsupported" // broker or store lack what is needed
	StopOffsets     StopReason = "offsets"     // the offset of our own ranking did not rise
)

// Task is the protocol of one partition number. It is not safe for concurrent use: one goroutine calls Advance and
// Handle in turn.
type Task struct {
	cfg Config
	now Now

	nextID   uint64
	waiting  map[uint64]uint64 // ids of requests without a reply, and the incarnations that they belong to
	requests []Request         // to be handed out by the next Advance
	handed   []Request         // handed out by the last
	timers   timers

	phase       Phase
	incarnation uint64  // rises at each restart; what belongs to an earlier one is ignored
	restarts    backoff // between one restart and the next; over when a checkpoint has been saved
	stops       stops
	troubles    troubles
	draining    bool
	reason      StopReason
	err         error  // why stopped, or why acquiring anew
	doing       string // the present step of an acquire, for people

	loads uint64 // how often a state was loaded
	clock clock

	found   []Producer     // of earlier owners, in the log and not in the state
	retired map[int64]bool // producer ids

	elsewhere map[string]bool // learners that other workers of the group are configured with

	acq *acquisition // set while acquiring, replaying and running
	run *runner      // set while replaying, running and draining

	obs     Observations
	reading [event.Topics]string // what fetching a topic is called
}

// New makes a task that begins to acquire its partition at the first Advance.
func New(cfg Config) *Task {
	cfg.defaults()
	t := &Task{cfg: cfg, waiting: make(map[uint64]uint64), troubles: make(troubles), retired: make(map[int64]bool)}
	for topic, name := range cfg.TopicNames {
		t.reading[topic] = fmt.Sprintf("fetching %s[%d]", name, cfg.Partition)
	}
	return t
}

// Advance does all that can be done now and returns the requests to carry out, and after how long at the latest it
// wants to be called again. The requests are valid until the next call.
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
	// Those that replies have led to since the last call are among them.
	requests = t.requests
	clear(t.handed) // they may hold a checkpoint's memory
	t.requests, t.handed = t.handed[:0], requests
	if busy {
		return requests, 0
	}
	return requests, t.wake()
}

// Handle takes the reply to a request.
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

// Drain asks the task to end: it takes no more input, makes durable what it stepped, and is then Done.
func (t *Task) Drain() {
	t.draining = true
	switch t.phase {
	case Acquiring:
		t.end()
	case Replaying, Running:
		t.phase = Draining
	}
}

// Elsewhere names the learners that other workers of the group are configured with; the map must not change afterwards.
func (t *Task) Elsewhere(learners map[string]bool) {
	t.elsewhere = learners
	if t.cfg.sabotage.strangers {
		t.elsewhere = nil
	}
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

// failed decides what an error means: give up, start over, or try again a little later.
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
		t.after(t.troubles.fails(doing, failure, t.now.Mono), again)
	}
}

// waitsFor is why the task is stopped, else what has been failing for the longest time, else why it starts anew; nil when
// all is well.
func (t *Task) waitsFor() error {
	if t.phase == Stopped {
		return t.err
	}
	if err := t.troubles.first(); err != nil {
		return err
	}
	if t.run != nil {
		if q := t.run.queues.waitingLong(t.now.Mono); q != nil {
			return fmt.Errorf("%s: offset %d: %w", t.reading[q.topic], q.first().Offset, q.waits)
		}
	}
	return t.err
}

// restart drops the memory and acquires anew: what we held is not known to be true any more.
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

// begin begins an incarnation: what belongs to an earlier one is ignored.
func (t *Task) begin() {
	t.incarnation++
	t.timers.clear()
}

func (t *Task) end() {
	t.reset()
	t.phase = Done
}

func (t *Task) reset() {
	t.tally()
	t.begin()
	clear(t.troubles)
	t.acq, t.run = nil, nil
}
