package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Options are the inputs that are not in the configuration file.
type Options struct {
	Logger  *slog.Logger
	Metrics *Metrics
	Tracers trace.TracerProvider // of requests' spans; nil: no spans
	// Now is the time of records; nil: real time.
	Now func() event.Millis
	// TokenRate is the number of requests a second of each token; 0: 10,000.
	TokenRate int
}

// Service takes records over HTTP. Its Handler answers while Run runs.
type Service struct {
	cfg      *config.Config
	opt      Options
	topics   [event.Topics]string
	learners map[string]*config.Learner
	contexts map[string]*partition.Context // of learners with a context

	broker      *broker.Client
	book        *book
	writer      *writer
	guard       *guard
	substitutes *substitutes
	decoders    sync.Pool

	slots     chan struct{}       // requests under way whose bodies have come
	bodies    *semaphore.Weighted // bytes of bodies that have come
	searches  chan struct{}       // searches of the log under way, for requests of a ranking
	lookBacks chan struct{}       // likewise, for impressions
	work      sync.WaitGroup      // work that outlives its request

	partitions atomic.Int64 // of all topics; 0: not known yet
	stopping   atomic.Bool
	mu         sync.Mutex
	unready    map[string]string // parts that are not ready, with reasons
	asked      chan struct{}     // closed once Kafka has been asked for partitions
	answers    context.Context   // done once there are none to give
	endAnswers func()
	owning     map[int32]*owners // of the partitions' rankings
}

// mostBodies bounds the memory of bodies under way; one of the largest always has room.
const mostBodies = 256 << 20

// New makes a service. Run connects it. The caller closes the log's client after Run.
func New(cfg *config.Config, b *broker.Client, topics [event.Topics]string, opt Options) (*Service, error) {
	g, err := newGuard(cfg, opt)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, opt: opt, topics: topics, learners: map[string]*config.Learner{}, contexts: map[string]*partition.Context{}, broker: b, book: newBook(cfg.Serve.Remember),
		guard: g, substitutes: &substitutes{log: opt.Logger, metrics: opt.Metrics, known: map[cause]*spell{}},
		slots: make(chan struct{}, cfg.Serve.Concurrency), bodies: semaphore.NewWeighted(max(mostBodies, cfg.Serve.MaxBodyBytes)),
		searches: make(chan struct{}, mostSearches), lookBacks: make(chan struct{}, mostSearches), owning: map[int32]*owners{}, unready: map[string]string{"Kafka": "has not been asked yet"}, asked: make(chan struct{})}
	s.answers, s.endAnswers = context.WithCancel(context.Background())
	for i := range cfg.Learners {
		l := &cfg.Learners[i]
		s.learners[l.Name] = l
		c, err := learners.Context(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.Where("learners."+l.Name+".context"), err)
		}
		if c != nil {
			s.contexts[l.Name] = c
		}
	}
	limits := event.Limits{MaxCandidates: cfg.Limits.MaxCandidates, MaxRecordBytes: cfg.Limits.MaxRecordBytes}
	s.decoders.New = func() any {
		one := event.NewKeylessDecoder(limits)
		if cfg.LooksAtContexts() {
			one.WithContext()
		}
		return one
	}
	s.writer = newWriter(s, func() int { return int(s.partitions.Load()) })
	return s, nil
}

// Unready returns why the service is not ready; empty: it is.
func (s *Service) Unready() (why []string) {
	if s.stopping.Load() {
		return []string{"it is ending"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(s.unready)) {
		why = append(why, what+" "+s.unready[what])
	}
	return why
}

// note sets why a part is not ready; empty: it is.
func (s *Service) note(what, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unready[what] = why; why == "" {
		delete(s.unready, what)
	}
}

// caughtUp reports whether all existing rankings have been read.
func (s *Service) caughtUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unready) == 0
}

func (s *Service) Reload() { s.guard.renew() }

// Stop makes the service not ready, so that no new clients come; it still answers.
func (s *Service) Stop() { s.stopping.Store(true) }

// watchEvery is the interval of checks of the tokens' file and the number of partitions.
const watchEvery = 10 * time.Second

// Run reads the rankings until ctx ends, and then waits for pending writes. All answers must have ended before.
func (s *Service) Run(ctx context.Context) {
	var tails sync.WaitGroup
	defer func() {
		s.endAnswers()
		s.work.Wait()
		s.writer.close()
		tails.Wait()
	}()
	said, started := "", 0
	answered := sync.OnceFunc(func() { close(s.asked) })
	defer answered()
	for {
		n, err := s.count(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.note("Kafka", "does not say how many partitions there are: "+err.Error())
			if said != err.Error() {
				said = err.Error()
				s.opt.Logger.Warn("waiting for Kafka", "error", err)
			}
		default:
			said = ""
			for ; started < n; started++ { // new partitions begin empty
				p := int32(started)
				s.note(rankingsOf(p), behind)
				tails.Go(func() { s.tail(ctx, p) })
			}
			s.partitions.Store(int64(n))
			s.note("Kafka", "")
		}
		answered()
		wait := watchEvery
		if s.partitions.Load() == 0 {
			wait = time.Second
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		s.guard.renew()
		s.substitutes.look(time.Now())
	}
}

func (s *Service) count(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	n, err := s.broker.Partitions(ctx, event.Impressions)
	if err != nil {
		return 0, err
	}
	m, err := s.broker.Partitions(ctx, event.Rankings)
	if err == nil && m != n {
		err = fmt.Errorf("topic %q has partition count %d, %q has %d", s.topics[event.Impressions], n, s.topics[event.Rankings], m)
	}
	return n, err
}

// producer implements appender.
func (s *Service) producer(ctx context.Context) (task.Producer, error) {
	p, err := s.broker.NewProducer(ctx)
	if err != nil {
		return p, cmp.Or(ctx.Err(), err)
	}
	return p, nil
}

// produce implements appender. All records of a batch have the time of its newest.
func (s *Service) produce(ctx context.Context, l laneKey, p task.Producer, sequence int32, batch []*record) error {
	messages := make([]task.OutMessage, len(batch))
	for i, r := range batch {
		messages[i] = task.OutMessage{Key: r.key, Value: r.value, Headers: r.headers}
	}
	_, err := s.broker.Partition(int32(l.partition)).Produce(ctx, task.Produce{Topic: l.topic, Producer: p, Sequence: sequence,
		Timestamp: batch[len(batch)-1].time, Messages: messages})
	return err
}

func (s *Service) now() event.Millis {
	if s.opt.Now == nil {
		return time.Now().UnixMilli()
	}
	return s.opt.Now()
}
