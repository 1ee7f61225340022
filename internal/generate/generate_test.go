package generate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	deadline = time.Minute
	parts    = 2
)

// configured is a group on a pair of servers, with its topics; further lines are those of the section kafka.
func configured(t *testing.T, env testenv.Env, topics string) *config.Config {
	t.Helper()
	cfg, _, err := config.Load("worker.yaml", fmt.Appendf(nil, `
kafka: {brokers: [%s], group: g, start: earliest%s}
redis: {url: %q}
http: {listen: ""}
learners:
  feed: {default: true, payoffs: stochastic, payoff_range: [0, 10]}
  # Payoffs come within three seconds.
  quick: {payoffs: stochastic, payoff_range: [-1, 1], payoff_horizon: 4s}
`, env.Kafka, topics, env.RedisURL()), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	testworker.MakeTopics(t, cfg, parts)
	return cfg
}

// worker runs a worker until the test ends, and returns it for its counts.
func worker(t *testing.T, cfg *config.Config) *app.App {
	t.Helper()
	w := testworker.Start(t, cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	t.Cleanup(func() { w.Stop(t) })
	return w.App
}

// until sends traffic to its end, which is when enough has happened.
func until(t *testing.T, cfg *config.Config, opt Options, enough func(platform.Progress) bool) (platform.Progress, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var log strings.Builder
	var last platform.Progress
	opt.Logger, opt.Every = slog.New(slog.NewTextHandler(&log, nil)), 50*time.Millisecond
	opt.Report = func(p platform.Progress) {
		if last = p; enough(p) {
			cancel()
		}
	}
	require.NoError(t, Run(ctx, cfg, opt))
	require.True(t, enough(last), "%+v\n%s", last, log.String())
	return last, log.String()
}

// TestGenerate: impressions are ranked; their users' reactions arrive, are joined and learned from. A second run does
// the same, with ids of its own.
func TestGenerate(t *testing.T) {
	env := testenv.Embedded(t)
	cfg := configured(t, env, "")
	a := worker(t, cfg)
	answered := func(p platform.Progress) bool { return p.Rankings >= 100 && p.Selections >= 20 && p.Payoffs >= 10 }
	first, log := until(t, cfg, Options{Rate: 100, Seed: 1}, answered)
	assert.Contains(t, log, "invented traffic is sent")
	for _, word := range []string{" impressions=", " rankings=", " mean_latency=", " feed.mean_payoff=", " quick.by_utility="} {
		assert.Contains(t, log, word)
	}
	second, _ := until(t, cfg, Options{Rate: 100, Seed: 1, Learner: "quick"}, answered)
	require.Eventually(t, func() bool {
		var read [event.Inputs]int64
		var applied int64
		for _, s := range a.Worker.Statuses() {
			for topic, n := range s.Account.Read {
				read[topic] += n
			}
			applied += s.Account.Payoffs.Applied
			assert.Zero(t, s.Account.Impressions.Duplicate+s.Account.Impressions.Rejected, "ids are of their run")
			assert.Zero(t, s.Account.Selections.Rejected+s.Account.Payoffs.Rejected)
			assert.Zero(t, s.Account.PayoffsClamped, "payoffs are within their learner's range")
			assert.Zero(t, s.Account.Misplaced, "keys are placed by murmur2")
		}
		return applied > 0 && read == [event.Inputs]int64{int64(first.Impressions + second.Impressions),
			int64(first.Selections + second.Selections), int64(first.Payoffs + second.Payoffs)}
	}, deadline, 20*time.Millisecond)
}

// TestUsersComeBack: impressions have users with several each, for experiments by user.
func TestUsersComeBack(t *testing.T) {
	all, err := newUsers([]config.Learner{config.DefaultLearner("feed", config.Stochastic), config.DefaultLearner("quick", config.Stochastic)}, 6, 1, "g-")
	require.NoError(t, err)
	seen := map[string]int{}
	for n := range 4 * returning {
		i, _, _ := all.Impression(n)
		seen[string(i.User)]++
	}
	assert.Greater(t, len(seen), returning*9/10)
	assert.LessOrEqual(t, len(seen), returning)
	assert.NotContains(t, seen, "")
}

// TestGenerateWithoutAWorker, and without a topic of selections: impressions go on, and nobody selects.
func TestGenerateWithoutAWorker(t *testing.T) {
	cfg := configured(t, testenv.Embedded(t), ", topics: {selections: ''}")
	p, log := until(t, cfg, Options{Rate: 1000, Seed: 1}, func(p platform.Progress) bool { return p.Impressions >= 300 })
	assert.Zero(t, p.Rankings+p.Selections)
	assert.NotContains(t, log, "mean_latency")
}

// TestGenerateRefuses a learner and topics that are not there, and topics that somebody else writes to.
func TestGenerateRefuses(t *testing.T) {
	env := testenv.Embedded(t)
	cfg := configured(t, env, "")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	opt := Options{Rate: 1000, Seed: 1}
	refused := func(cfg *config.Config, opt Options) error {
		opt.Logger, opt.Every, opt.Report = slog.New(slog.DiscardHandler), time.Hour, nil
		return Run(ctx, cfg, opt)
	}
	assert.ErrorIs(t, refused(cfg, Options{Rate: 1, Learner: "feet"}), ErrUnknownLearner)
	other := *cfg
	other.Kafka.Topics.Rankings = "elsewhere"
	assert.ErrorContains(t, refused(&other, opt), `topic "elsewhere" does not exist`)

	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{Transport: transport, Addr: kafka.TCP(env.Kafka), Topic: cfg.Kafka.Topics.Payoffs, RequiredAcks: kafka.RequireAll}
	defer w.Close()
	require.NoError(t, w.WriteMessages(ctx, kafka.Message{Key: []byte("i-1"), Value: []byte(`{}`)}))
	err := refused(cfg, opt)
	assert.ErrorIs(t, err, ErrShared)
	assert.ErrorContains(t, err, `topic "payoffs", partition `)
	opt.AnyTopic = true
	until(t, cfg, opt, func(p platform.Progress) bool { return p.Impressions > 0 })
}

// TestCompressedDelays fit the learner's horizons, however short.
func TestCompressedDelays(t *testing.T) {
	for _, l := range []config.Learner{
		{PayoffHorizon: time.Second, SelectionTimeout: time.Second}, {PayoffHorizon: 7 * 24 * time.Hour, SelectionTimeout: 30 * time.Minute},
		{PayoffHorizon: time.Minute, SelectionTimeout: time.Hour}, {PayoffHorizon: time.Millisecond, SelectionTimeout: time.Millisecond},
	} {
		_, err := newUsers([]config.Learner{l}, 1, 1, "")
		assert.NoError(t, err, "%+v", l)
	}
}
