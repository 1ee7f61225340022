package producers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// group is a worker's group with topics of its own.
type group struct {
	cfg    *config.Config
	broker *broker.Client
}

// newGroup makes one whose topics begin with its name and a dash; of selections there is one where it is asked for.
func newGroup(t *testing.T, env testenv.Env, partitions int, selections bool) *group {
	t.Helper()
	return newGroupWith(t, env, partitions, selections, "")
}

// newGroupWith has more lines below kafka.
func newGroupWith(t *testing.T, env testenv.Env, partitions int, selections bool, more string) *group {
	t.Helper()
	name := testenv.Unique(t, "p")
	topic := ""
	if selections {
		topic = name + "-selections"
	}
	cfg, _ := testworker.Load(t, fmt.Sprintf(`
kafka:
  brokers: [%s]
  group: %s
  start: earliest
  topics: {impressions: %[2]s-impressions, selections: %[4]q, payoffs: %[2]s-payoffs, rankings: %[2]s-rankings}
%[5]s
redis: {url: %[3]q}
http: {listen: ""}
learners: {feed: {payoffs: stochastic, policy: utility}}
`, env.Kafka, name, env.RedisURL(), topic, more), os.LookupEnv)
	testworker.MakeTopics(t, cfg, partitions)
	b, err := app.NewBroker(cfg)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return &group{cfg, b}
}

// each gives f the records of a topic's partition in order, until it has had enough.
func (g *group) each(ctx context.Context, t *testing.T, topic event.Topic, p int32, f func(key, value []byte) (more bool)) {
	t.Helper()
	log := g.broker.Partition(p)
	for next := int64(0); ; {
		got, err := log.Fetch(ctx, task.Fetch{Topic: topic, Offset: next, MaxBytes: 1 << 20, MaxWait: time.Second})
		require.NoError(t, ctx.Err())
		require.NoError(t, err)
		for i := range got.Records {
			if !f(got.Records[i].Key, got.Records[i].Value) {
				return
			}
		}
		next = got.Next
	}
}

// all are the records of a topic's partition.
func (g *group) all(ctx context.Context, t *testing.T, topic event.Topic, p int32) (records []partition.Record) {
	t.Helper()
	for next := int64(0); ; {
		got, err := g.broker.Partition(p).Fetch(ctx, task.Fetch{Topic: topic, Offset: next, MaxBytes: 1 << 20, MaxWait: time.Second})
		require.NoError(t, err)
		records = append(records, got.Records...)
		if next = got.Next; got.LastRead {
			return records
		}
	}
}

// readBack compares a partition's records with those written.
func (g *group) readBack(ctx context.Context, t *testing.T, w *works, p int32, row []cell) (records int) {
	t.Helper()
	at, i := 0, 0
	g.each(ctx, t, event.Impressions, p, func(key, value []byte) bool {
		c := &row[at]
		if string(key) != fmt.Sprintf("%s-%d", c.prefix, i) || string(value) != c.value(i, w.rest) {
			t.Fatalf("record %d of %s: key %q, value %.200q", i, c.prefix, key, value)
		}
		records++
		if i++; i == c.records {
			at, i = at+1, 0
		}
		return at < len(row)
	})
	return records
}

// rank lets a worker rank all impressions, and counts the rankings.
func (g *group) rank(ctx context.Context, t *testing.T, rows [][]cell) (ranked int) {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	worker := testworker.Start(t, g.cfg, app.Options{Logger: logger, Registry: prometheus.NewRegistry()})
	for p, row := range rows {
		want := map[string]bool{}
		for i := range row {
			for n := range row[i].records {
				want[fmt.Sprintf("%s-%d", row[i].prefix, n)] = true
			}
		}
		g.each(ctx, t, event.Rankings, int32(p), func(key, _ []byte) bool {
			require.True(t, want[string(key)], "%s", key)
			delete(want, string(key))
			ranked++
			return len(want) > 0
		})
	}
	worker.Stop(t)
	return ranked
}
