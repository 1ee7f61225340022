package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/connectivity"
	"github.com/ranker-worker/ranker-worker/internal/dashboard"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/login"
	"github.com/ranker-worker/ranker-worker/internal/registry"
	"github.com/ranker-worker/ranker-worker/internal/tracing"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Options are the inputs that are not in the configuration file.
type Options struct {
	Logger   *slog.Logger
	Registry *prometheus.Registry
	// Now returns simulated time, also for the brokers; nil: real time.
	Now func() event.Millis
	// ClockOffset returns the present error of this worker's clock; nil: 0.
	ClockOffset func() time.Duration
	// SessionTimeout of the group; 0: 10 s.
	SessionTimeout time.Duration
	Version        string        // of this program, for other workers
	FenceInterval  time.Duration // interval at which producers are fenced again; 0: 6 h
	StopRetry      time.Duration // pause before a stopped partition tries again; 0: 30 s
}

type App struct {
	Worker *stream.Worker
	Broker *broker.Client
	Store  *redisstore.Store
	Board  *dashboard.Dashboard // of the live page; Run updates it
	traces *tracing.Provider
}

// New does not connect; Worker.Run does.
func New(cfg *config.Config, opt Options) (*App, error) {
	machine, err := machineConfig(cfg)
	if err != nil {
		return nil, err
	}
	digest, err := cfg.Digest()
	if err != nil {
		return nil, err
	}
	tlsConfig, mechanism, err := kafkaSecurity(cfg)
	if err != nil {
		return nil, err
	}
	stream.RegisterConfigInfo(opt.Registry, digest)
	b, err := newBroker(cfg, tlsConfig, mechanism)
	if err != nil {
		return nil, err
	}
	store, err := newStore(cfg)
	if err != nil {
		b.Close()
		return nil, err
	}
	membership, err := newMembership(cfg, tlsConfig, mechanism, &opt)
	if err != nil {
		b.Close()
		return nil, errors.Join(err, store.Close())
	}
	traces, err := tracing.New(cfg, "ranker-worker", opt.Version, opt.Logger)
	if err != nil {
		b.Close()
		return nil, errors.Join(err, store.Close(), membership.Close(context.Background()))
	}
	metrics := stream.NewMetrics(opt.Registry)
	w := stream.NewWorker(stream.Options{
		Group: cfg.Kafka.Group, TopicNames: TopicNames(cfg), Log: func(p int32) stream.Log { return b.Partition(p) },
		Store: store, Membership: membership, Missing: b.Missing, Registry: store, Version: opt.Version, Digest: digest, Follower: store, Metrics: metrics, Tracer: traces.Tracer(), Logger: opt.Logger, Machine: machine,
		StartLatest: cfg.Kafka.Start == config.Latest, CheckpointInterval: cfg.Limits.CheckpointInterval,
		Now: opt.Now, ClockOffset: opt.ClockOffset, FenceInterval: opt.FenceInterval, StopRetry: opt.StopRetry,
	})
	board := dashboard.New(dashboard.Options{Source: w, Counters: metrics, Registry: store, Version: opt.Version,
		Remember: max(machine.Remember, machine.ParkingTime), Unserved: !cfg.HTTP.Page, Logger: opt.Logger, Simulated: opt.Now != nil})
	return &App{Worker: w, Broker: b, Store: store, Board: board, traces: traces}, nil
}

// Close releases connections, after Worker.Run has returned.
func (a *App) Close() error {
	a.Broker.Close()
	a.traces.Close()
	return a.Store.Close()
}

// NewBroker returns a client of the log, for commands without a worker.
func NewBroker(cfg *config.Config) (*broker.Client, error) {
	tlsConfig, mechanism, err := kafkaSecurity(cfg)
	if err != nil {
		return nil, err
	}
	return newBroker(cfg, tlsConfig, mechanism)
}

func newBroker(cfg *config.Config, tlsConfig *tls.Config, mechanism sasl.Mechanism) (*broker.Client, error) {
	var contents broker.Contents
	if reader, err := NewRegistry(cfg); err != nil {
		return nil, err
	} else if reader != nil {
		contents = reader
	}
	b, err := broker.New(broker.Options{Contents: contents, Brokers: cfg.Kafka.Brokers, TLS: tlsConfig, SASL: mechanism,
		Group: cfg.Kafka.Group, Topics: TopicNames(cfg), DLQSuffix: cfg.Kafka.Topics.DLQSuffix,
		MaxValue: cfg.Limits.MaxRecordBytes, Traces: cfg.Traces.On()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("kafka"), err)
	}
	return b, nil
}

// NewRegistry returns a reader of Avro; nil if no topic has it.
func NewRegistry(cfg *config.Config) (*registry.Reader, error) {
	if !cfg.Kafka.Formats.Avro() {
		return nil, nil
	}
	tlsConfig, err := cfg.RegistryTLSConfig()
	if err != nil {
		return nil, err
	}
	r := &cfg.Kafka.SchemaRegistry
	login := func(req *http.Request) error {
		switch {
		case r.TokenFile != "":
			token, err := cfg.RegistryToken()
			req.Header.Set("Authorization", "Bearer "+token)
			return err
		case r.Username != "":
			password, err := cfg.RegistryPassword()
			req.SetBasicAuth(r.Username, password)
			return err
		}
		return nil
	}
	reader, err := registry.New(registry.Options{URL: r.URL, TLS: tlsConfig, Formats: Formats(cfg), Context: cfg.LooksAtContexts(), Login: login})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("kafka.schema_registry"), err)
	}
	return reader, nil
}

// kafkaSecurity returns the TLS settings and login for Kafka, from the configured files; nil if not configured.
func kafkaSecurity(cfg *config.Config) (*tls.Config, sasl.Mechanism, error) {
	tlsConfig, err := cfg.TLSConfig()
	if err != nil {
		return nil, nil, err
	}
	mechanism, err := login.Mechanism(cfg)
	if err != nil {
		return nil, nil, err
	}
	return tlsConfig, mechanism, nil
}

// quietRedis keeps go-redis from writing to standard error: it also returns its messages as errors, which are logged.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func newStore(cfg *config.Config) (*redisstore.Store, error) {
	quietRedis()
	tlsConfig, err := cfg.RedisTLSConfig()
	if err != nil {
		return nil, err
	}
	password, err := cfg.RedisPassword()
	if err != nil {
		return nil, err
	}
	var credentials func(context.Context) (username, password string, err error)
	if cfg.Redis.PasswordFile != "" { // its content may change at run time
		credentials = func(context.Context) (string, string, error) {
			password, err := cfg.RedisPassword()
			return cfg.Redis.Username, password, err
		}
	}
	s, err := redisstore.New(redisstore.Options{Addresses: cfg.Redis.Addresses, Cluster: cfg.Redis.Cluster, TLS: tlsConfig,
		Username: cfg.Redis.Username, Password: password, Credentials: credentials, DB: cfg.Redis.DB, Group: cfg.Kafka.Group,
		WaitReplicas: cfg.Redis.WaitReplicas,
		Explain: func(ctx context.Context, err error) error {
			return explain(ctx, err, connectivity.Server{Kind: connectivity.Redis, TLS: tlsConfig}, cfg.Redis.Addresses)
		}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("redis"), err)
	}
	return s, nil
}

func newMembership(cfg *config.Config, tlsConfig *tls.Config, mechanism sasl.Mechanism, opt *Options) (*stream.Membership, error) {
	topics := []string{cfg.Kafka.Topics.Impressions, cfg.Kafka.Topics.Payoffs}
	if cfg.Kafka.Topics.HasSelections() {
		topics = append(topics, cfg.Kafka.Topics.Selections)
	}
	return stream.NewMembership(stream.MembershipConfig{Brokers: cfg.Kafka.Brokers, TLS: tlsConfig, SASL: mechanism, GroupID: cfg.Kafka.Group,
		Topics: topics, SessionTimeout: opt.SessionTimeout, Logger: opt.Logger,
		Explain: func(ctx context.Context, err error) error {
			return explain(ctx, err, kafkaServer(cfg, tlsConfig), cfg.Kafka.Brokers)
		}})
}

func TopicNames(cfg *config.Config) [event.Topics]string {
	t := cfg.Kafka.Topics
	return [event.Topics]string{t.Impressions, t.Selections, t.Payoffs, t.Rankings}
}

func Formats(cfg *config.Config) (f event.Formats) {
	names := [event.Inputs]config.Format{cfg.Kafka.Formats.Impressions, cfg.Kafka.Formats.Selections, cfg.Kafka.Formats.Payoffs}
	for t, name := range names {
		f[t] = event.FormOf(string(name))
	}
	return f
}

// maxParkedBytes bounds the raw bytes of a partition's parked records: four records of the largest size.
const maxParkedBytes = 64 << 20

func machineConfig(cfg *config.Config) (partition.Config, error) {
	m := partition.Config{
		Group: cfg.Kafka.Group, TopicNames: TopicNames(cfg), HasSelections: cfg.Kafka.Topics.HasSelections(),
		ParkingTime: cfg.Join.ParkingTime.Milliseconds(), Remember: rememberFor(&cfg.Join), MaxParked: cfg.Join.MaxParked,
		MaxParkedBytes: maxParkedBytes, MaxCandidates: cfg.Limits.MaxCandidates,
		MaxRecordBytes: cfg.Limits.MaxRecordBytes, Formats: Formats(cfg), Salt: rand.Uint64(), HashKey: rand.Uint64(),
	}
	var err error
	if m.Program, m.Settings, err = madeBy(cfg); err != nil {
		return m, err
	}
	for i := range cfg.Learners {
		l, err := learnerConfig(cfg, &cfg.Learners[i])
		if err != nil {
			return m, err
		}
		m.Learners = append(m.Learners, l)
	}
	for i := range cfg.Experiments {
		x, err := experimentConfig(cfg, &cfg.Experiments[i])
		if err != nil {
			return m, err
		}
		m.Experiments = append(m.Experiments, x)
	}
	return m, nil
}

func experimentConfig(cfg *config.Config, x *config.Experiment) (partition.ExperimentConfig, error) {
	of, err := learners.Experiment(cfg, x)
	if err != nil {
		return partition.ExperimentConfig{}, fmt.Errorf("%s: %w", cfg.Where("experiments."+x.Name), err)
	}
	c := partition.ExperimentConfig{Experiment: of, Definition: learners.Definition(cfg, x), Unpaid: learners.Unpaid(cfg, x), Guarded: x.Guard.Fallback != "",
		Margin: x.Guard.Margin, To: x.Guard.Fallback, Shared: x.Learning == config.Shared}
	for i := range of.Arms {
		if !c.Shared {
			break
		}
		p, err := policyOf(cfg, of.Arms[i].Name)
		if err != nil {
			return c, err
		}
		c.Policies = append(c.Policies, p)
	}
	for _, s := range x.Shadow {
		p, err := policyOf(cfg, s.Learner)
		if err != nil {
			return c, err
		}
		c.Shadows = append(c.Shadows, partition.ShadowConfig{Name: s.Learner, Share: s.Share, Policy: p})
	}
	return c, nil
}

func policyOf(cfg *config.Config, learner string) (policy.Policy, error) {
	l := cfg.Learner(learner)
	if l == nil {
		return nil, fmt.Errorf("there is no learner %q", learner)
	}
	p, err := learners.Policy(l)
	if err != nil {
		err = fmt.Errorf("%s: %w", cfg.Where("learners."+learner), err)
	}
	return p, err
}

func learnerConfig(cfg *config.Config, l *config.Learner) (partition.LearnerConfig, error) {
	build, err := learners.New(l)
	if err != nil {
		return partition.LearnerConfig{}, fmt.Errorf("%s: %w", cfg.Where("learners."+l.Name), err)
	}
	looks, err := learners.Context(l)
	if err != nil {
		return partition.LearnerConfig{}, fmt.Errorf("%s: %w", cfg.Where("learners."+l.Name+".context"), err)
	}
	c := partition.LearnerConfig{
		Name: l.Name, Default: l.Default, PolicyName: string(l.Policy), DelayName: string(l.Delay),
		Fingerprint: l.Fingerprint(), PayoffMin: l.PayoffRange.Min, PayoffMax: l.PayoffRange.Max,
		PayoffHorizon: l.PayoffHorizon.Milliseconds(), SelectionTimeout: l.SelectionTimeout.Milliseconds(),
		ItemRetention:    l.ItemRetention.Milliseconds(),
		RefuseOutOfRange: l.OutOfRange == config.Refuse, ExpiryDefault: l.OnExpiry.Default, AggregateSum: l.Aggregate == config.Sum, Seed: l.Seed,
		FindsUtilities: l.Utilities != config.Given, Context: looks, Caps: learners.Caps(l), New: build,
	}
	return c, nil
}

// Run works until drain is done, then drains, or ends at once when force is done; see stream.Worker.Run. If topics are missing, the error
// names all of them.
func (a *App) Run(drain, force context.Context) error {
	watching, stop := context.WithCancel(drain)
	var wg sync.WaitGroup
	wg.Go(func() { a.Board.Run(watching) })
	err := a.Worker.Run(drain, force)
	stop()
	wg.Wait()
	if errors.Is(err, stream.ErrTopicMissing) {
		err = a.nameMissing(drain, err)
	}
	return errors.Join(err, a.Close())
}

// nameMissing lists the missing topics in an error, if the broker reports them.
func (a *App) nameMissing(ctx context.Context, missed error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	names, err := a.Broker.Missing(ctx)
	if err != nil || len(names) == 0 {
		return missed
	}
	return fmt.Errorf("%w: %s", stream.ErrTopicMissing, strings.Join(names, ", "))
}

// rememberFor returns the time for which ended impressions are remembered, in milliseconds.
func rememberFor(j *config.Join) int64 {
	if j.Remember == config.UntilHorizon {
		return partition.UntilHorizon
	}
	return j.Remember.Milliseconds()
}
