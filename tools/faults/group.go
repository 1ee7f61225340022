package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Small limits, so that it takes little to exceed them.
const (
	maxRecordBytes = 64 << 10
	maxCandidates  = 30
	parkingTime    = 20 * time.Second
	remember       = 25 * time.Second // so that ended impressions are forgotten during a run
)

// Group is a consumer group with its topics, and slots for its workers.
type Group struct {
	c          *Cluster
	redis      stateStore
	Name       string
	Partitions int
	Topics     [event.Topics]string
	Slots      []*Worker
	Traffic    *Traffic
	settings   Settings
	loads      atomic.Int64        // of our own configuration
	edit       func(string) string // of the configuration's text
	earlier    []*config.Config    // before edit
	ruled      atomic.Int64        // the most rankings that a check compared with pins and caps
}

// Settings are the differences between groups.
type Settings struct {
	Partitions int
	Workers    int
	Seed       uint64
	Rate       int        // impressions per second; 0: no traffic
	Tidy       bool       // traffic is half of Rate, in order and without transactions, for measurements
	Redis      stateStore // nil: the cluster's, with faults
	Learners   string     // lines of the configuration; "": see learners
}

// learners of a group: one whose impressions stay, one whose impressions expire during a run, one
// with instances, one that uses expected payoffs, and one with features, segments and categories.
const learners = `
  feed:  {payoffs: stochastic, policy: elimination, default: true}
  brief: {payoffs: stochastic, policy: greedy, drift: 0.5, payoff_horizon: 20s, selection_timeout: 8s}
  rival: {payoffs: adversarial, policy: ftrl, max_instances: 16, windows: {geometric: 0.6, max: 5}, payoff_horizon: 60s}
` + moves

// The arm hasty waits a millisecond for selections, so that most of its impressions pay
// nothing: its guard trips once some cohorts are counted, whatever faults there are.
const moves = `  moves: {payoffs: adversarial, payoff_horizon: 30s, selection_timeout: 8s}
  knows: {payoffs: stochastic, policy: moss, payoff_horizon: 30s, selection_timeout: 8s, caps: [{category: a, most: 1, first: 3}],
    context: {user: [age], item: [price], cross: [[age, price]], segments: [new, loyal], categories: true, clock: [hour, weekday], age: true}}
  hasty: {payoffs: stochastic, policy: greedy, payoff_horizon: 20s, selection_timeout: 1ms}
experiments:
  brief: {arms: {brief: 0.8, hasty: 0.2}, control: brief, guard: {margin: 0, fallback: brief}}
`

// knows reports whether impression k belongs to the learner with a context.
func (g *Group) knows(k int) bool { return k%3 != 0 && k%7 == 5 && g.settings.Learners == "" }

func (g *Group) learner(k int) string {
	switch {
	case g.settings.Learners != "":
		return ""
	case k%3 == 0:
		return "brief"
	case k%7 == 1:
		return "rival"
	case k%7 == 3:
		return "moves"
	case g.knows(k):
		return "knows"
	}
	return "feed"
}

// NewGroup makes a group's topics; its workers are started one by one.
func (c *Cluster) NewGroup(ctx context.Context, name string, s Settings) (*Group, error) {
	g := &Group{c: c, Name: name, Partitions: s.Partitions, settings: s, edit: func(text string) string { return text }}
	if g.redis = c.Redis; s.Redis != nil {
		g.redis = s.Redis
	}
	for t, what := range []string{"impressions", "selections", "payoffs", "rankings"} {
		g.Topics[t] = name + "-" + what
	}
	for i := range s.Workers {
		w, err := newWorker(g, i)
		if err != nil {
			return nil, err
		}
		g.Slots = append(g.Slots, w)
	}
	if err := g.createTopics(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.Rate > 0 {
		g.Traffic, err = newTraffic(g, s.Seed, s.Rate)
	}
	return g, err
}

func (g *Group) text(kafka []string, redis, listen string) string {
	l := g.settings.Learners
	if l == "" {
		l = learners
	}
	return g.edit(fmt.Sprintf(`kafka:
  brokers: [%s]
  group: %s
  start: earliest
  topics: {impressions: %s, selections: %s, payoffs: %s, rankings: %s}
redis: %s
http: {listen: %q}
join: {parking_time: %s, remember: %s}
limits: {max_candidates: %d, max_record_bytes: %d}
learners:%s`, strings.Join(kafka, ", "), g.Name, g.Topics[0], g.Topics[1], g.Topics[2], g.Topics[3], redis, listen,
		parkingTime, remember, maxCandidates, maxRecordBytes, l))
}

func (g *Group) write(file, text string) (string, error) {
	path := filepath.Join(g.c.dir, file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write a configuration: %w", err)
	}
	return path, nil
}

// Config returns the harness' own configuration of the group, without proxies.
func (g *Group) Config() (*config.Config, error) {
	file, err := g.write(fmt.Sprintf("%s-own-%d.yaml", g.Name, g.loads.Add(1)), g.text(g.c.Kafka.Addrs(), g.redis.section(harness), ""))
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.LoadFile(file, os.LookupEnv)
	return cfg, errors.Join(err, os.Remove(file))
}

func (g *Group) createTopics(ctx context.Context) error {
	cfg, err := g.Config()
	if err != nil {
		return err
	}
	b, err := app.NewBroker(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	err = until(ctx, time.Minute, "the topics of "+g.Name+" are there", func() (bool, error) {
		// Another fault may have a broker down just now. Existing topics stay as they are.
		if _, err := b.Create(ctx, broker.Spec{Partitions: g.Partitions, Replication: len(g.c.Kafka.Brokers)}); err != nil {
			return false, fmt.Errorf("create the topics of %s: %w", g.Name, err)
		}
		problems, err := b.Check(ctx)
		if err != nil || len(problems) > 0 {
			return false, errors.Join(err, fmt.Errorf("%v", problems))
		}
		_, err = g.endsNow(ctx)
		return true, err
	})
	if err != nil {
		return err
	}
	// A dead letter with a wrong clock's time is refused.
	for t := range roles {
		for _, name := range []string{"message.timestamp.after.max.ms", "message.timestamp.before.max.ms"} {
			if err := g.alter(ctx, g.Topics[t]+".dlq", name, "60000"); err != nil {
				return err
			}
		}
	}
	return nil
}

// endsPatience is how long a leader may not know where a topic ends.
const endsPatience = 30 * time.Second

// ends returns the ends of all partitions, by topic.
func (g *Group) ends(ctx context.Context) (ends [event.Topics][]int64, err error) {
	err = until(ctx, endsPatience, "the brokers know where the topics end", func() (bool, error) {
		ends, err = g.endsNow(ctx)
		return true, err
	})
	return ends, err
}

func (g *Group) endsNow(ctx context.Context) (ends [event.Topics][]int64, err error) {
	listed, err := g.c.admin.ListEndOffsets(ctx, g.Topics[:]...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return ends, fmt.Errorf("list offsets: %w", err)
	}
	for t, topic := range g.Topics {
		ends[t] = make([]int64, g.Partitions)
		for p := range ends[t] {
			at, ok := listed.Lookup(topic, int32(p))
			if !ok {
				return ends, fmt.Errorf("list offsets: no answer for %s[%d]", topic, p)
			}
			ends[t][p] = at.Offset
		}
	}
	return ends, nil
}

// stored returns the partitions' stored meta.
func (g *Group) stored(ctx context.Context) (metas []map[string]string, err error) {
	err = g.redis.use(func(c goredis.UniversalClient) error {
		for p := range g.Partitions {
			meta, err := c.HGetAll(ctx, fmt.Sprintf("{%s:%d}:meta", g.Name, p)).Result()
			if err != nil {
				return fmt.Errorf("reading the stored state: %w", err)
			}
			metas = append(metas, meta)
		}
		return nil
	})
	return metas, err
}

var roles = [event.Inputs]string{"impressions", "selections", "payoffs"}

// Lag returns the number of records, markers included, in the topics and not yet in the stored state.
func (g *Group) Lag(ctx context.Context) (lag int64, err error) {
	ends, err := g.ends(ctx)
	if err != nil {
		return 0, err
	}
	metas, err := g.stored(ctx)
	if err != nil {
		return 0, err
	}
	for p, meta := range metas {
		for t, role := range roles {
			at, _ := strconv.ParseInt(meta["offset."+role], 10, 64) // none: 0
			lag += ends[t][p] - at
		}
	}
	return lag, nil
}

func (g *Group) Account(ctx context.Context) (map[string]int64, error) {
	metas, err := g.stored(ctx)
	sum := map[string]int64{}
	for _, meta := range metas {
		for field, value := range meta {
			if name, ok := strings.CutPrefix(field, "account."); ok {
				n, _ := strconv.ParseInt(value, 10, 64)
				sum[name] += n
			}
		}
	}
	return sum, err
}

// Settle waits until everything in the topics is in the stored state, with traffic held
// and faults healed. A timeout is a violation: whatever died, another worker must go on.
func (g *Group) Settle(ctx context.Context, patience time.Duration) error {
	for _, w := range g.Slots {
		if !w.Running() {
			if err := w.Start(); err != nil {
				return err
			}
		}
	}
	var lag int64
	err := until(ctx, patience, "all that was sent is stored", func() (bool, error) {
		var err error
		lag, err = g.Lag(ctx)
		return lag == 0, err
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	var why strings.Builder
	for _, w := range g.Slots {
		ready, text := w.Ready(ctx)
		fmt.Fprintf(&why, "\nworker %d: ready: %t: %s", w.slot, ready, strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	}
	return fmt.Errorf("%d records are not taken in: %w%s", lag, err, why.String())
}

// follow holds traffic while the workers' lag is too large.
func (g *Group) follow(ctx context.Context, most int64) {
	every(ctx, 500*time.Millisecond, func() {
		if lag, err := g.Lag(ctx); err == nil {
			g.Traffic.behind.Store(lag > most)
		}
	})
}

// startAll starts all workers, and waits until each works on all its partitions.
func (g *Group) startAll(ctx context.Context) error {
	for _, w := range g.Slots {
		if err := w.Start(); err != nil {
			return err
		}
	}
	for _, w := range g.Slots {
		if err := w.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// play runs the traffic, until the returned function ends it and the group.
func (g *Group) play(ctx context.Context) (end func() error) {
	playing, stop := context.WithCancel(ctx)
	played := make(chan error, 1)
	go func() { played <- g.Traffic.Run(playing, g.settings.Seed) }()
	return func() error {
		stop()
		err := errors.Join(<-played, g.Close())
		g.drop(context.WithoutCancel(ctx))
		return err
	}
}

// Close kills the workers. A worker that crashed in its life is a violation, however soon a fault started it again.
func (g *Group) Close() error {
	var errs []error
	for _, w := range g.Slots {
		errs = append(errs, w.Kill(), w.crashed())
	}
	return errors.Join(errs...)
}
