package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Log is a worker's access to one partition in Kafka, besides the group membership. Errors
// wrap task's sentinels if those apply; others are transient. broker.Partition implements it.
type Log interface {
	InitProducer(context.Context, task.InitProducer) (task.Producer, error)
	AddPartition(context.Context, task.AddPartition) error
	AbortTxn(context.Context, task.AbortTxn) error
	Retire(context.Context, task.Retire) error
	Describe(context.Context) (task.Description, error)
	Committed(context.Context) ([]int64, error)
	Fetch(context.Context, task.Fetch) (task.Fetched, error)
	Produce(context.Context, task.Produce) (task.Produced, error)
}

// Options are a worker's dependencies and settings. All fields but the last block are required.
type Options struct {
	Group      string
	TopicNames [event.Topics]string // empty for an unconfigured selections topic
	Log        func(partition int32) Log
	Store      state.AdminStore
	Membership *Membership
	// Missing returns the topics that do not exist, outputs included; nil: not checked.
	Missing  func(context.Context) ([]string, error)
	Registry state.Registry // of the group's workers; nil: configurations are not compared
	Version  string         // of this program, announced to other workers
	Digest   string         // of all learners' settings, announced likewise; empty: not compared
	Follower state.Follower // of other partitions' statistics; nil: not pooled
	Metrics  *Metrics
	Tracer   trace.Tracer // nil: no spans
	Logger   *slog.Logger
	// Machine is the configuration of each partition's machine; the worker sets Partition and MaxRankingBytes.
	Machine partition.Config

	StartLatest        bool
	CheckpointInterval time.Duration

	// Now is simulated time, and Kafka's; nil: real time.
	Now           func() event.Millis
	ClockOffset   func() time.Duration // error of this worker's clock, for tests; nil: none
	FenceInterval time.Duration        // default: 6 h
	StopRetry     time.Duration        // default: 30 s; see task.Config
}

// Worker ranks the impressions of the partitions that its group assigns to it.
//
// Goroutines: Run is the supervisor. It starts the announcer, the guard of fitness, the watch that
// logs waits and partitioners, and for each generation one loop per partition; a loop starts one
// goroutine per request. Run waits for the loops at a generation's end, and for all at its own.
type Worker struct {
	opt          Options
	start        time.Time
	announcer    *announcer
	untaught     untaughtNotes
	misspelt     misspeltNotes
	refusals     refusals
	partitioning *partitioning
	waits        *waits
	pooled       *pooledState

	mu      sync.Mutex
	member  bool               // a generation is going on
	loops   map[int32]*loop    // of the present generation
	end     context.CancelFunc // ends it; nil: none is going on
	outside error              // why the worker stays outside of its group; nil: it does not
	again   time.Duration      // pause before the next fitness check
	leaving bool               // it must leave the group, and has not begun to
}

func NewWorker(opt Options) *Worker {
	opt.Machine.Names = newSharedNames()
	w := &Worker{opt: opt, start: time.Now(), waits: newWaits(opt.Logger), announcer: newAnnouncer(&opt), partitioning: newPartitioning(opt.Logger, opt.TopicNames), loops: map[int32]*loop{}}
	w.pooled = newPooledState(&w.opt.Machine)
	w.announcer.outside = w.Outside
	return w
}

// Run joins the group once the worker is fit, and works until drain is done. Then it saves all
// steps and leaves the group; once force is done, it just leaves. It returns nil after a drain.
func (w *Worker) Run(drain, force context.Context) error {
	defer func() { w.noteLeft(w.opt.Membership.Close(force)) }()
	announcing, stop := context.WithCancel(context.WithoutCancel(drain))
	var wg sync.WaitGroup
	wg.Go(func() { w.announcer.run(announcing) })
	wg.Go(func() { w.watch(announcing) })
	wg.Go(func() { w.guard(announcing) })
	defer wg.Wait()
	defer stop()
	for joins := true; ; joins = w.leftGroup(force) {
		var gen *Generation
		var err error
		if joins {
			err = w.awaitFit(drain)
		}
		if err == nil {
			if joins {
				w.announcer.join(drain)
			}
			gen, err = w.opt.Membership.Next(drain)
		}
		if drain.Err() != nil && err != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("joining group %q: %w", w.opt.Group, err)
		}
		gen.Run(func(ctx context.Context) { w.runGeneration(ctx, drain, force, gen) })
		if drain.Err() != nil {
			return nil
		}
	}
}

// runGeneration works on the generation's partitions until it ends, drain is done, or the worker leaves the group.
func (w *Worker) runGeneration(ctx, drain, force context.Context, gen *Generation) {
	ending, stop := context.WithCancel(ctx)
	defer stop()
	log := w.opt.Logger.With("generation", gen.ID())
	log.Info("generation begins", "partitions", gen.Partitions(), "member", gen.MemberID())
	w.opt.Metrics.Rebalanced(len(gen.Partitions()))
	loops := make(map[int32]*loop, len(gen.Partitions()))
	for _, p := range gen.Partitions() {
		loops[p] = newLoop(w, gen, p, log.With("partition", p))
	}
	w.mu.Lock()
	w.member, w.loops, w.end = true, loops, stop
	w.mu.Unlock()

	unhook := context.AfterFunc(drain, stop)
	defer unhook()
	var wg sync.WaitGroup
	for _, l := range loops {
		wg.Go(func() { l.run(ending, force) })
	}
	wg.Go(func() { newFollower(w, w.partitions(), log).run(ending) })
	wg.Wait()
	// A generation whose tasks have all ended (their membership is over) is waited out.
	<-ending.Done()
	log.Info("generation ends")
	w.mu.Lock()
	w.member, w.loops, w.end = false, map[int32]*loop{}, nil
	w.mu.Unlock()
	w.opt.Metrics.Rebalanced(0)
}

// watch logs waits and partitioners until ctx is done.
func (w *Worker) watch(ctx context.Context) {
	c := newStalls(w.waits, w.opt.TopicNames, w.opt.StartLatest)
	out := outOfService{}
	tick := time.NewTicker(stallsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			now := time.Since(w.start)
			statuses := w.Statuses()
			c.look(now, statuses)
			out.look(w.opt.Logger, statuses)
			w.refusals.look(w.opt.Logger, w.opt.TopicNames, now)
			w.opt.Metrics.Parting(w.partitioning.judge(now))
		case <-ctx.Done():
			return
		}
	}
}

func (w *Worker) partitions() int {
	n := 0
	for _, count := range w.opt.Membership.PartitionCounts() {
		if n == 0 || count < n {
			n = count
		}
	}
	return n
}

// Unready returns why the worker is not ready; empty if it is.
func (w *Worker) Unready() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why := w.whyOutside(); why != "" {
		return []string{why}
	}
	if !w.member {
		why := "not a member of group " + w.opt.Group + ", joining"
		if err := w.opt.Membership.LastError(); err != nil {
			why += ": " + err.Error()
		}
		return []string{why}
	}
	var why []string
	for p, l := range w.loops {
		if waits := waitsFor(l.status.Load()); waits != "" {
			why = append(why, fmt.Sprintf("partition %d: %s", p, waits))
		}
	}
	return why
}

// waitsFor returns the reason for which a partition waits or has stopped; "" if neither.
func waitsFor(s *task.Status) string {
	switch {
	case s == nil:
		return "starting"
	case s.Phase == task.Stopped:
		return fmt.Sprintf("stopped (%s): %v%s", s.Reason, s.Err, nextTry(s))
	case s.Phase == task.Acquiring && s.Err != nil:
		return s.Err.Error() // names the step
	case s.Phase == task.Acquiring:
		return s.Doing
	case s.Full && s.Err != nil:
		return fmt.Sprintf("waits for the store to take %d bytes: %v", s.Unsaved, s.Err)
	case s.Full:
		return fmt.Sprintf("waits for the store to take %d bytes", s.Unsaved)
	case s.Err != nil:
		return s.Err.Error()
	}
	return ""
}

func nextTry(s *task.Status) string {
	if s.Again == 0 {
		return "; it does not retry by itself"
	}
	return fmt.Sprintf("; it tries again in %v", s.Again.Round(time.Second))
}

// hungAfter is how long a loop may not come round before the process counts as dead. A
// loop never waits for the network, and steps a bounded number of records at a time.
const hungAfter = time.Minute

// Dead returns an error if a partition's loop hangs, which only a restart would mend.
func (w *Worker) Dead() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, l := range w.loops {
		if idle := time.Since(w.start) - time.Duration(l.beat.Load()); idle > hungAfter {
			return fmt.Errorf("the loop of partition %d has not come round for %v", p, idle.Round(time.Second))
		}
	}
	return nil
}

// Observed is a partition's recent status.
type Observed struct {
	Status *task.Status      // nil: it is starting
	Waits  string            // why it waits or has stopped; "": neither
	Look   *partition.Sample // nil: no sample yet, see LookAgain
}

// Seen returns the present partitions by number. Nothing of it may be changed.
func (w *Worker) Seen() map[int32]Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[int32]Observed, len(w.loops))
	for p, l := range w.loops {
		s := l.status.Load()
		all[p] = Observed{s, waitsFor(s), l.look.Load()}
	}
	return all
}

// LookAgain requests new samples of at most n partitions, from the number from on, wrapping around. It returns the number to continue with.
func (w *Worker) LookAgain(from int32, n int) (next int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	numbers := slices.Sorted(maps.Keys(w.loops))
	at, _ := slices.BinarySearch(numbers, from)
	for k := range min(n, len(numbers)) {
		p := numbers[(at+k)%len(numbers)]
		w.loops[p].lookAgain.Store(true)
		next = p + 1
	}
	return next
}

// ID is the name under which this worker announces itself.
func (w *Worker) ID() string { return w.announcer.self.ID }

func (w *Worker) Now() event.Millis { return w.wall() }

func (w *Worker) Group() string { return w.opt.Group }

func (w *Worker) Learners() []partition.LearnerConfig { return w.opt.Machine.Learners }

// Statuses returns the present partitions' statuses by number.
func (w *Worker) Statuses() map[int32]task.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[int32]task.Status, len(w.loops))
	for p, l := range w.loops {
		if s := l.status.Load(); s != nil {
			all[p] = *s
		}
	}
	return all
}

func (w *Worker) now() task.Now {
	return task.Now{Mono: time.Since(w.start), Wall: w.wall()}
}

func (w *Worker) wall() event.Millis {
	if w.opt.Now != nil {
		return w.opt.Now()
	}
	now := time.Now()
	if w.opt.ClockOffset != nil {
		now = now.Add(w.opt.ClockOffset())
	}
	return now.UnixMilli()
}

// Memory that all partitions of a worker may use together, in bytes: for records
// read ahead, and for unsaved changes. Each has an equal share, within bounds.
var (
	readAhead = shared{8 << 20, 128 << 10, 1 << 20}
	inBatches = shared{16 << 20, 128 << 10, 900 << 10} // of rankings: one is filled while another is in flight
	unsaved   = shared{256 << 20, 1 << 20, 64 << 20}
)

type shared struct{ all, least, most int }

// by returns the share of one of owned partitions.
func (s shared) by(owned int) int { return min(max(s.all/max(owned, 1), s.least), s.most) }

func (w *Worker) taskConfig(p int32, owned int) task.Config {
	machine := w.opt.Machine
	machine.Group, machine.Partition, machine.TopicNames = w.opt.Group, p, w.opt.TopicNames
	n := w.partitions()
	machine.Partitions = int32(n)
	if n > 0 {
		machine.CheckCopartition = func(key []byte) int32 { return state.PartitionOf(key, n) }
	}
	if n > 1 && w.opt.Follower != nil {
		machine.Pooled = w.pooled.of
	}
	return task.Config{
		Group: w.opt.Group, Partition: p, TopicNames: w.opt.TopicNames, HasSelections: machine.HasSelections,
		StartLatest: w.opt.StartLatest, SessionTimeout: w.opt.Membership.cfg.SessionTimeout,
		CheckpointInterval: w.opt.CheckpointInterval, FenceInterval: w.opt.FenceInterval,
		FetchBytes: readAhead.by(owned), BatchBytes: inBatches.by(owned), MaxUnsavedBytes: int64(unsaved.by(owned)),
		MaxRecordBytes: machine.MaxRecordBytes, StopRetry: w.opt.StopRetry, OneClock: w.opt.Now != nil,
		NewMachine: func(maxRankingBytes int) (*partition.Machine, error) {
			machine.MaxRankingBytes = maxRankingBytes
			return partition.New(machine)
		},
	}
}

// errForced ends the requests of a loop that must stop at once.
var errForced = errors.New("the worker was stopped at once")
