package checker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// deadline bounds each wait of these tests.
const deadline = 60 * time.Second

// world is one group on an embedded Kafka and Redis, with the real worker.
type world struct {
	partitions int
	group      string
	selections string // topic; empty: none
	cfg        *config.Config
	redis      redis.UniversalClient
	writer     *kafka.Writer
}

// newWorld makes topics and a configuration; learners are the lines of that section, further those of others.
func newWorld(t testing.TB, env testenv.Env, partitions int, learners, further string) *world {
	t.Helper()
	return newWorldOn(t, env, partitions, learners, fmt.Sprintf("redis: {url: %q}\n%s", env.RedisURL(), further),
		redis.NewClient(&redis.Options{Addr: env.Redis}))
}

// newWorldOn makes one whose Redis further says, and that the test reaches by a client of its own.
func newWorldOn(t testing.TB, env testenv.Env, partitions int, learners, further string, client redis.UniversalClient) *world {
	t.Helper()
	w := &world{partitions: partitions, group: testenv.Unique(t, "check"), redis: client}
	if !strings.Contains(t.Name(), "no_selections") {
		w.selections = w.group + "-selections"
	}
	w.cfg = w.configure(t, env, learners, further)
	testworker.MakeTopics(t, w.cfg, partitions)
	transport := &kafka.Transport{}
	w.writer = &kafka.Writer{Transport: transport, Addr: kafka.TCP(env.Kafka), Balancer: kafka.Murmur2Balancer{},
		BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll}
	t.Cleanup(func() {
		w.redis.Close()
		w.writer.Close()
		transport.CloseIdleConnections()
	})
	return w
}

func (w *world) configure(t testing.TB, env testenv.Env, learners, further string) *config.Config {
	t.Helper()
	cfg, _, err := config.Load("worker.yaml", fmt.Appendf(nil, `
kafka:
  brokers: [%s]
  group: %s
  start: earliest
  topics: {impressions: %[2]s-impressions, selections: %[5]q, payoffs: %[2]s-payoffs, rankings: %[2]s-rankings}
http: {listen: ""}
%[3]s
learners:
%[4]s
`, env.Kafka, w.group, further, learners, w.selections), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return cfg
}

// running is a worker.
type running struct{ *testworker.Worker }

func (w *world) start(t testing.TB, now func() event.Millis) *running {
	t.Helper()
	return &running{testworker.Start(t, w.cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Now: now})}
}

func (r *running) stop(t testing.TB) {
	t.Helper()
	r.Stop(t)
}

// crash ends the worker at once, without a last checkpoint.
func (r *running) crash(t testing.TB) {
	t.Helper()
	_ = r.Kill(t)
}

// end crashes the worker, or lets it drain.
func (r *running) end(t testing.TB, crash bool) {
	t.Helper()
	if crash {
		r.crash(t)
	} else {
		r.stop(t)
	}
}

// play lets simulated users use the pipeline, in real time.
func (w *world) play(t testing.TB, impressions int, seed uint64, progress func(platform.Progress)) chan error {
	t.Helper()
	c := simulate.Defaults(seed)
	c.Late, c.Payoffs, c.Duplicates, c.Orphans = 0, simulate.Gaussian, 0.05, 0.02
	population, err := simulate.NewPopulation(c)
	require.NoError(t, err)
	b, err := app.NewBroker(w.cfg)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	p := platform.New(platform.Options{Brokers: w.cfg.Kafka.Brokers, Topics: app.TopicNames(w.cfg),
		Log: b, From: make([]int64, w.partitions), Impressions: impressions, Progress: progress,
		Stamp: func(event.Millis) event.Millis { return time.Now().UnixMilli() }}, platform.Simulated{{Population: population}})
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	go func() {
		sent, err := p.Run(ctx)
		if err == nil {
			err = w.await(ctx, map[string]int{"impressions": sent.Impressions, "selections": sent.Selections, "payoffs": sent.Payoffs})
		}
		done <- err
	}()
	return done
}

// await waits until the stored accounts say that so many records were read.
func (w *world) await(ctx context.Context, records map[string]int) error {
	for {
		left := map[string]int{}
		for topic, n := range records {
			left[topic] = n
		}
		for p := range w.partitions {
			meta, err := w.redis.HGetAll(ctx, w.key(p, "meta")).Result()
			if err != nil {
				return err
			}
			for topic := range records {
				n, _ := strconv.Atoi(meta["account."+topic+".read"])
				left[topic] -= n
			}
		}
		done := true
		for _, n := range left {
			done = done && n == 0
		}
		if done {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the worker to read all: left are %v: %w", left, err)
		}
	}
}

func (w *world) key(p int, name string) string { return fmt.Sprintf("{%s:%d}:%s", w.group, p, name) }

// send publishes records: topic role, key, value.
func (w *world) send(t testing.TB, records ...[3]string) {
	t.Helper()
	topics := w.cfg.Kafka.Topics
	names := map[string]string{"impressions": topics.Impressions, "selections": topics.Selections, "payoffs": topics.Payoffs, "rankings": topics.Rankings}
	var batch []kafka.Message
	for _, r := range records {
		batch = append(batch, kafka.Message{Topic: names[r[0]], Key: []byte(r[1]), Value: []byte(r[2])})
	}
	require.NoError(t, w.writer.WriteMessages(t.Context(), batch...))
}

// check runs the checker.
func (w *world) check(t testing.TB, change ...func(*Options)) Report {
	t.Helper()
	o := Options{Config: w.cfg}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	r, err := Check(ctx, o)
	require.NoError(t, err)
	return r
}

func requireClean(t testing.TB, r Report) {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.Print(&b))
	require.True(t, r.OK(), "%s", b.String())
}
