package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type Options struct {
	Impressions int
	Seed        uint64
	Logger      *slog.Logger
	Progress    func(Progress) // nil: none
	// Serve, if not nil, is called with the summary after all records are accounted for, while the worker goes on. Otherwise the demo ends
	// then. With Listen, the service's address, it also has a service to the worker; else nil.
	Serve  func(context.Context, *Summary, *serve.Service) error
	Listen string
	// Page, if not nil, is called with the address of the live page, host:port, before the demo begins.
	Page func(address string)
}

type Progress struct {
	platform.Progress
	Impressions int           // of the demo
	Day         time.Duration // of the simulated time
	Learners    []LearnerProgress
}

type LearnerProgress struct {
	Name      string
	Regret    float64
	ByUtility float64 // the regret of ranking by utility, so far
	Fed       int64   // payoffs behind its decisions
}

// Summary is the demo's result; its JSON is a contract.
type Summary struct {
	Impressions int                 `json:"impressions"`
	Rankings    int                 `json:"rankings"`
	Selections  int                 `json:"selections"`
	Payoffs     Payoffs             `json:"payoffs"`
	Pending     int64               `json:"pending"`
	Seconds     float64             `json:"seconds"`
	Learners    map[string]*Learner `json:"learners"`

	Account   partition.Account `json:"-"`
	Simulated time.Duration     `json:"-"`
	Sent      int               `json:"-"` // payoffs
}

// Payoffs counts the payoffs sent, by outcome.
type Payoffs struct {
	Applied   int64 `json:"applied"`
	Duplicate int64 `json:"duplicate"`
	Late      int64 `json:"late"`
	Orphan    int64 `json:"orphan"`
	Rejected  int64 `json:"rejected"`
	Parked    int64 `json:"parked"`
}

// Learner is one learner's result. Regrets are sums of mean payoffs over its impressions, relative to the best permutation in hindsight: by
// each item's mean over the whole time.
type Learner struct {
	Policy             string  `json:"policy"`
	Delay              string  `json:"delay"`
	Impressions        int     `json:"impressions"` // sent for it
	Rankings           int     `json:"rankings"`
	Selections         int     `json:"selections"` // sent
	PayoffsSent        int     `json:"payoffs_sent"`
	Payoffs            Payoffs `json:"payoffs"` // outcomes
	Pending            int64   `json:"pending"` // impressions that have not ended
	Regret             float64 `json:"regret"`
	RegretUtilityOrder float64 `json:"regret_utility_order"`
	Misalignment       float64 `json:"misalignment"`
	Payoff             float64 `json:"payoff"`               // mean per impression, drawn
	PayoffUtilityOrder float64 `json:"payoff_utility_order"` // likewise, if ranked by utility
	PayoffBest         float64 `json:"payoff_best"`          // likewise, for the best permutation in hindsight
	Fed                int64   `json:"fed"`
}

const (
	feed      = "feed"       // items have mean payoffs
	frontPage = "front-page" // payoffs change half-way
)

// Run plays the demo to its end, or until ctx is done.
func Run(ctx context.Context, opt Options) (*Summary, error) {
	began := time.Now()
	fake, err := startKafka(0)
	if err != nil {
		return nil, err
	}
	defer fake.Close()
	mini, err := startRedis(0)
	if err != nil {
		return nil, err
	}
	defer mini.Close()

	users, err := newUsers(opt.Seed, opt.Impressions)
	if err != nil {
		return nil, fmt.Errorf("making up users: %w", err)
	}
	cfg, err := configuration(fake.ListenAddrs(), mini.Addr(), opt.Seed, world(users).Horizon, opt.Listen)
	if err != nil {
		return nil, err
	}
	b, err := app.NewBroker(cfg)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	s := &session{opt: opt, users: users, broker: b, began: began}
	s.platform = platform.New(platform.Options{Brokers: cfg.Kafka.Brokers, Topics: app.TopicNames(cfg), Log: b,
		From: make([]int64, Partitions), Impressions: opt.Impressions, Progress: s.progress}, s.users)
	registry := prometheus.NewRegistry()
	a, err := app.New(cfg, app.Options{Logger: opt.Logger, Registry: registry, Now: s.now})
	if err != nil {
		return nil, err
	}
	s.app = a
	if opt.Page != nil {
		closePage, err := s.servePage(registry)
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		defer closePage()
	}
	if _, err := a.Broker.Create(ctx, broker.Spec{Partitions: Partitions, Replication: 1}); err != nil {
		return nil, errors.Join(fmt.Errorf("creating topics: %w", err), a.Close())
	}
	return s.play(ctx, cfg)
}

// pagePort is the port of the page, or one of the next.
const pagePort = 8080

// listen listens on loopback, on the first free port from one on, of ten, or else on any.
func listen(c stream.ServerConfig, port int) (*stream.Server, error) {
	for range 10 {
		c.Listen = fmt.Sprintf("127.0.0.1:%d", port)
		if server, err := stream.NewServer(c); !errors.Is(err, syscall.EADDRINUSE) {
			return server, err
		}
		port++
	}
	c.Listen = "127.0.0.1:0"
	return stream.NewServer(c)
}

// servePage serves the worker's page.
func (s *session) servePage(registry *prometheus.Registry) (closePage func(), err error) {
	server, err := listen(stream.ServerConfig{Registry: registry, Unready: s.app.Worker.Unready, Dead: s.app.Worker.Dead,
		Version: map[string]string{"demo": "ranker-worker"}, Page: s.app.Board.Handler(), Logger: s.opt.Logger}, pagePort)
	if err != nil {
		return nil, err
	}
	s.opt.Page(server.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // remaining readers are disconnected
		<-served
	}, nil
}

// configuration is a file as a user would write it.
func configuration(brokers []string, redis string, seed uint64, horizon time.Duration, listen string) (*config.Config, error) {
	serve := ""
	if listen != "" {
		serve = fmt.Sprintf("serve: {listen: %q}", listen)
	}
	file := fmt.Sprintf(`
kafka: {brokers: [%s], group: demo, start: earliest}
redis: {url: "redis://%s/0"}
http: {listen: ""}
%[7]s
# A payoff that comes too late is distinguished from one for an unknown impression for two weeks more.
join: {parking_time: 15d}
# Items are kept for ever, since two horizons without impressions pass before the demo serves.
learners:
  %[3]s:
    payoffs: stochastic
    payoff_horizon: %s
    selection_timeout: 120h
    item_retention: 0
    seed: %d
  %s:
    payoffs: adversarial
    payoff_horizon: %[4]s
    selection_timeout: 120h
    item_retention: 0
    seed: %[5]d
`, strings.Join(brokers, ", "), redis, feed, horizon, seed, frontPage, serve)
	cfg, _, err := config.Load("demo", []byte(file), func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, fmt.Errorf("the demo's own configuration: %w", err)
	}
	return cfg, nil
}

type session struct {
	opt      Options
	app      *app.App
	platform *platform.Platform
	users    platform.Simulated
	broker   *broker.Client
	began    time.Time
	played   atomic.Pointer[time.Time] // end of the play; nil: not yet
}

func world(users platform.Simulated) simulate.Config { return users[0].Population.Config() }

// now is the worker's clock: simulated time, and real time after the play.
func (s *session) now() event.Millis {
	now := s.platform.Clock()
	if since := s.played.Load(); since != nil {
		now += time.Since(*since).Milliseconds()
	}
	return now
}

func (s *session) play(ctx context.Context, cfg *config.Config) (*Summary, error) {
	drain, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.app.Run(drain, context.Background()) }()

	played := make(chan error, 1)
	var progress platform.Progress
	go func() {
		var err error
		progress, err = s.platform.Run(ctx)
		played <- err
	}()
	var err error
	select {
	case err = <-played:
	case err = <-ended:
		if ctx.Err() == nil {
			return nil, fmt.Errorf("the worker ended early: %w", err)
		}
		ended <- err // for the end
		err = <-played
	}
	if err == nil {
		err = s.settle(ctx, progress)
	}
	var summary *Summary
	if err == nil || ctx.Err() != nil {
		summary, err = s.summary(cfg, progress), nil
		summary.Seconds = time.Since(s.began).Seconds()
	}
	if s.opt.Serve != nil && ctx.Err() == nil && err == nil {
		err = s.serve(ctx, summary, cfg)
	}
	stop()
	return summary, errors.Join(err, <-ended)
}

func (s *session) serve(ctx context.Context, summary *Summary, cfg *config.Config) error {
	now := time.Now()
	s.played.Store(&now)
	if s.opt.Listen == "" {
		return s.opt.Serve(ctx, summary, nil)
	}
	d, err := serve.New(cfg, s.broker, app.TopicNames(cfg), serve.Options{Logger: s.opt.Logger,
		Metrics: serve.NewMetrics(prometheus.NewRegistry()), Now: s.now})
	if err != nil {
		return err
	}
	return s.opt.Serve(ctx, summary, d)
}

// settlePatience bounds the wait for the worker to account for all records.
const settlePatience = 30 * time.Second

// settle lets all deadlines pass and waits until the worker has accounted for every record.
func (s *session) settle(ctx context.Context, p platform.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	if err := s.await(ctx, func(a *partition.Account) bool { return read(a, p) }); err != nil {
		return err
	}
	c := world(s.users)
	end := p.Clock + 2*c.Horizon.Milliseconds()
	if err := s.platform.PassTo(ctx, end); err != nil {
		return fmt.Errorf("letting the last deadlines pass: %w", err)
	}
	return s.await(ctx, func(a *partition.Account) bool { return a.Impressions.Pending == 0 && a.Payoffs.Parked == 0 })
}

func read(a *partition.Account, p platform.Progress) bool {
	return a.Read[event.Impressions] == int64(p.Impressions) && a.Read[event.Selections] == int64(p.Selections) &&
		a.Read[event.Payoffs] == int64(p.Payoffs)
}

func (s *session) await(ctx context.Context, done func(*partition.Account) bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a, _ := s.account()
		if done(&a) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the worker to account for everything: %w (account: %+v; not ready: %v)",
				ctx.Err(), a, s.app.Worker.Unready())
		}
	}
}

// account adds up the partitions' accounts, and the learners' states and accounts by name.
func (s *session) account() (sum partition.Account, byName map[string]partition.LearnerStatus) {
	byName = map[string]partition.LearnerStatus{}
	for _, st := range s.app.Worker.Statuses() {
		if st.Phase == task.Stopped {
			continue
		}
		sum = sum.Plus(st.Account)
		for _, l := range st.Learners {
			all := byName[l.Name]
			all.Fed += l.Fed
			all.Account = all.Account.Plus(l.Account)
			byName[l.Name] = all
		}
	}
	return sum, byName
}

func (s *session) progress(p platform.Progress) {
	if s.opt.Progress == nil {
		return
	}
	_, known := s.account()
	now := Progress{Progress: p, Impressions: s.opt.Impressions,
		Day: time.Duration(p.Clock-world(s.users).Start) * time.Millisecond}
	for i := range s.users {
		u := &s.users[i]
		now.Learners = append(now.Learners, LearnerProgress{Name: u.Learner, Regret: u.Ledger.Regret,
			ByUtility: u.Ledger.RegretUtilityOrder, Fed: known[u.Learner].Fed})
	}
	s.opt.Progress(now)
}

func (s *session) summary(cfg *config.Config, p platform.Progress) *Summary {
	a, known := s.account()
	sum := &Summary{
		Impressions: p.Impressions, Rankings: p.Rankings, Selections: p.Selections, Sent: p.Payoffs,
		Payoffs: payoffsOf(&a), Pending: a.Impressions.Pending, Account: a,
		Simulated: time.Duration(p.Clock-world(s.users).Start) * time.Millisecond,
		Learners:  map[string]*Learner{},
	}
	for i := range s.users {
		u := &s.users[i]
		l, c, st := &u.Ledger, &cfg.Learners[i], known[u.Learner]
		n := float64(max(1, l.Impressions))
		sum.Learners[u.Learner] = &Learner{Policy: string(c.Policy), Delay: string(c.Delay),
			Impressions: u.Impressions, Rankings: l.Impressions, Selections: u.Sent[event.Selections],
			PayoffsSent: u.Sent[event.Payoffs], Payoffs: payoffsOf(&st.Account), Pending: st.Account.Impressions.Pending,
			Regret: l.Regret, RegretUtilityOrder: l.RegretUtilityOrder, Misalignment: l.Misalignment(),
			Payoff: l.Payoff / n, PayoffUtilityOrder: l.PayoffUtilityOrder / n, PayoffBest: l.PayoffBest / n, Fed: st.Fed}
	}
	return sum
}

func payoffsOf(a *partition.Account) Payoffs {
	p := &a.Payoffs
	return Payoffs{p.Applied, p.Duplicate, p.Late, p.Orphan, p.Rejected, p.Parked}
}
