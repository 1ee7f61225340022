package stream

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// loop drives one partition's task: only its goroutine touches the task.
// Each request runs in a goroutine of its own with the request's deadline.
type loop struct {
	w     *Worker
	gen   *Generation
	p     int32
	kafka Log
	log   *slog.Logger
	// nil: no spans
	traces *traces

	task      *task.Task
	replies   chan task.Reply
	status    atomic.Pointer[task.Status]
	look      atomic.Pointer[partition.Sample] // the last; nil: none yet
	lookAgain atomic.Bool                      // a new look is requested
	beat      atomic.Int64                     // when the loop last came round, in the worker's time
	published time.Duration
	elsewhere *partition.Elsewhere // the last one given to the task
	obs       task.Observations
	logged    task.Status // the last status logged
	drops     dropWarnings
	ranges    rangeWarnings
}

func newLoop(w *Worker, gen *Generation, p int32, log *slog.Logger) *loop {
	l := &loop{w: w, gen: gen, p: p, kafka: w.opt.Log(p), log: log, traces: newTraces(&w.opt, p), task: task.New(w.taskConfig(p, len(gen.partitions))), replies: make(chan task.Reply, 64),
		drops: dropWarnings{hourly{}}, ranges: rangeWarnings{hourly{}}}
	l.beat.Store(int64(time.Since(w.start)))
	return l
}

// run works until ending is done and the task has drained, for at most a third of the group's rebalance timeout after ending, or until force.
func (l *loop) run(ending, force context.Context) {
	requests, cancel := context.WithCancelCause(context.WithoutCancel(ending))
	var flying sync.WaitGroup
	defer func() {
		cancel(errForced)
		await(&flying, discardTimeout)
		l.traces.abandon("the worker has given the partition up")
		l.w.pooled.use(func() { l.publish(true) })
		l.beat.Store(math.MaxInt64) // ended, not hung
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var deadline <-chan time.Time
	end := ending.Done()
	for {
		now := l.w.now()
		l.beat.Store(int64(now.Mono))
		if elsewhere := l.w.announcer.elsewhere.Load(); elsewhere != l.elsewhere {
			l.elsewhere = elsewhere
			l.task.Elsewhere(*elsewhere)
		}
		var asked []task.Request
		var wake time.Duration
		l.w.pooled.use(func() {
			asked, wake = l.task.Advance(now)
			l.publish(false)
		})
		for _, r := range asked {
			flying.Go(func() { l.execute(requests, r) })
		}
		if phase := l.task.Phase(); phase == task.Done || phase == task.Stopped && end == nil {
			return
		}
		timer.Reset(wake)
		select {
		case r := <-l.replies:
			l.w.pooled.use(func() { l.handle(r) })
		case <-timer.C:
		case <-end:
			end = nil
			l.task.Drain()
			deadline = time.After(l.w.opt.Membership.cfg.RebalanceTimeout / 3)
		case <-deadline:
			l.log.Warn("drain took too long; the next owner replays the unsaved records")
			return
		case <-force.Done():
			return
		}
	}
}

// handle passes this reply, and all others that are waiting, to the task.
func (l *loop) handle(r task.Reply) {
	now := l.w.now()
	for {
		l.task.Handle(now, r)
		select {
		case r = <-l.replies:
		default:
			return
		}
	}
}

// discardTimeout is for requests that have been ended. One to a Redis that hangs ends later, at its own deadline, like one of a frozen worker.
const discardTimeout = time.Second

func await(flying *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() {
		flying.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// execute executes a request and sends its reply, unless the loop has ended.
func (l *loop) execute(working context.Context, r task.Request) {
	ctx, cancel := context.WithTimeout(working, r.Timeout)
	defer cancel()
	began := time.Now()
	hitFailpoint("before", r.Do)
	reply := r.Carry(l.shell(ctx))
	hitFailpoint("after", r.Do)
	l.w.opt.Metrics.ObserveRequest(r.Do, time.Since(began))
	select {
	case l.replies <- reply:
	case <-working.Done():
	}
}

func (l *loop) shell(ctx context.Context) task.Shell {
	s := shell{Executor{ctx, l.kafka, l.w.opt.Store, l.p}, l}
	if l.traces != nil {
		return tracedShell{s, l.traces}
	}
	return s
}

// shell executes one request of a loop's task.
type shell struct {
	Executor
	l *loop
}

var _ task.Shell = shell{}

// Fetch also notes where producers place keys.
func (s shell) Fetch(e task.Fetch) (task.Fetched, error) {
	f, err := s.Executor.Fetch(e)
	s.l.w.partitioning.note(e.Topic, s.Partition, s.l.w.partitions(), f.Records)
	return f, err
}

func (s shell) Heartbeat() error { return s.l.gen.Heartbeat(s.Ctx) }

func (s shell) Acquire(e task.Acquire) (state.Meta, error) {
	return s.Store.Acquire(s.Ctx, s.Partition, s.l.gen.ID(), e.Force, e.Fresh)
}

// Describe also checks the store's fitness.
func (s shell) Describe() (task.Description, error) {
	d, err := s.Log.Describe(s.Ctx)
	if err != nil {
		return d, err
	}
	if err := s.Store.Ready(s.Ctx); errors.Is(err, state.ErrUnfit) {
		d.StoreFault = err
	} else if err != nil {
		return d, err
	}
	return d, nil
}

func (s shell) Commit(e task.Commit) error {
	commits := map[string]map[int]int64{}
	for topic, offset := range e.Offsets {
		if offset >= 0 {
			commits[s.l.w.opt.TopicNames[topic]] = map[int]int64{int(s.Partition): offset}
		}
	}
	return s.l.gen.Commit(s.Ctx, commits)
}

// publishEvery is the interval at which a loop publishes its status.
const publishEvery = 200 * time.Millisecond

// publish publishes the task's status to /readyz and metrics, and logs changes.
func (l *loop) publish(last bool) {
	now := time.Since(l.w.start)
	if !last && now-l.published < publishEvery && l.published != 0 {
		return
	}
	l.published = now
	s := l.task.Status()
	l.status.Store(&s)
	if l.lookAgain.Swap(false) {
		if look := l.task.Look(); look != nil {
			l.look.Store(look)
		}
	}
	l.task.Observe(&l.obs)
	l.w.opt.Metrics.Observe(l.p, &s, &l.obs, l.w.wall())
	l.drops.say(l.log, &s)
	l.ranges.say(l.log, &s)
	l.w.refusals.note(l.w.opt.Logger, l.w.opt.TopicNames, now, l.p, l.obs.DeadLetters)
	l.w.misspelt.say(l.log, l.w.opt.TopicNames, s.Misspelt)
	if s.Phase == task.Running && l.logged.Phase != task.Running {
		l.w.untaught.say(l.log, s.Learners)
	}
	if s.Foreign > l.logged.Foreign {
		l.log.Warn("decisions in the log by other producers than this group's workers are ignored", "decisions", s.Foreign)
	}
	if s.Phase != l.logged.Phase && s.Phase != task.Stopped { // which stalls log
		l.log.Info("partition " + s.Phase.String())
	}
	l.logged = s
}
