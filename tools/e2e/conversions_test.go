package e2e

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestPipeline_SilenceTeaches: payoffs come only for conversions, and late; a worker is killed, and Redis
// is rolled back. The learners' mean loss equals the laboratory's, to 10 percent and six standard errors (a
// false alarm in 10⁹, if runs were normal), which is below the loss of learners that wait for deadlines.
func TestPipeline_SilenceTeaches(t *testing.T) {
	t.Parallel()
	const learners, each, runs = 5, 12_000, 16
	e := &lab.Experiment{Scenario: "conversions", Items: 10, Horizon: each, Runs: runs, Seed: 5}
	regret := func(silence ...string) *lab.Result {
		combinations, _, err := lab.Combine(e, &lab.Settings{Policies: []string{"moss"}, Silences: silence})
		require.NoError(t, err)
		results, err := lab.Run(t.Context(), e, combinations)
		require.NoError(t, err)
		return results[0]
	}
	there, waits := regret(), regret("waits")
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, conversionLearners(learners))
		others := *e
		others.Seed = 9
		users := newLaboratory(t, &others, learners)
		got, sent := w.disturbed(t, users, learners*each, 64, false)
		require.Positive(t, got["impressions.defaulted"])
		require.Equal(t, int64(sent.Payoffs), got["payoffs.applied"], "%v", got)

		var mean float64
		for l := range learners {
			mean += (users.best[l] - users.earned[l]) / learners
		}
		deviation := *there.Regret.SD
		most := 1.1*there.Regret.Mean + 6*deviation*math.Sqrt(1.0/learners+1.0/runs)
		t.Logf("lost: %.1f; the laboratory %.1f, with a deviation of %.1f; if silence waits, %.1f; at most %.1f", mean,
			there.Regret.Mean, deviation, waits.Regret.Mean, most)
		require.Less(t, mean, most)
		require.Less(t, most, waits.Regret.Mean, "or the test would say nothing")
	})
}

// conversionLearners are the lines of the learners behind the first one's `payoffs: stochastic`.
func conversionLearners(n int) string {
	const one = `payoff_horizon: 12000s
    selection_timeout: 60s
    seed: %d`
	// The first is the world's own, which nobody uses.
	lines := "policy: utility\n    default: true"
	for l := range n {
		lines += fmt.Sprintf("\n  l%d:\n    payoffs: stochastic\n    "+one, l, l)
	}
	return lines
}

// disturbed lets users use the pipeline, while a worker is killed and Redis rolled back. Another worker is killed later;
// rebuild then deletes the state in Redis, and rebuilds it. It returns the stored account, and the number of records sent.
func (w *world) disturbed(t *testing.T, users platform.Users, impressions, unanswered int, rebuild bool) (map[string]int64, platform.Progress) {
	t.Helper()
	points, reached := map[int]chan struct{}{}, map[int]chan struct{}{}
	for _, percent := range []int{30, 50, 70} {
		reached[percent] = make(chan struct{})
		points[impressions*percent/100] = reached[percent]
	}
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	p := platform.New(platform.Options{Brokers: w.access.Kafka.Brokers, Transport: w.transport(t), Topics: app.TopicNames(w.cfg), Log: b,
		From: make([]int64, 1), Impressions: impressions, Unanswered: unanswered, Progress: func(p platform.Progress) {
			for n, c := range points {
				if p.Rankings >= n {
					close(c)
					delete(points, n)
				}
			}
		}}, users)
	done := make(chan error, 1)
	var sent platform.Progress
	go func() {
		var err error
		sent, err = p.Run(t.Context())
		done <- err
		close(done)
	}()
	start := func() *running { return w.startAt(t, p.Clock) }
	first := start()
	w.reach(t, reached[30], done)
	first.stop(t)
	old := w.copyStore(t, w.group+":0")
	second := start()
	w.reach(t, reached[50], done)
	second.kill(t)
	w.rollBack(t, old)
	third := start()
	w.reach(t, reached[70], done)
	third.kill(t)
	if rebuild {
		w.lose(t)
		tool, err := admin.New(w.cfg, admin.Options{Now: func() time.Time { return time.UnixMilli(p.Clock()) }})
		require.NoError(t, err)
		_, err = tool.Rebuild(t.Context(), admin.RebuildQuery{})
		require.NoError(t, errors.Join(err, tool.Close()))
	}
	last := start()
	require.NoError(t, <-done)
	got := w.await(t, sent)
	last.stop(t)
	return got, sent
}

// startAt starts a worker with a clock of its own.
func (w *world) startAt(t *testing.T, now func() event.Millis) *running {
	t.Helper()
	w.now = now
	defer func() { w.now = nil }()
	return w.startWith(t, w.cfg)
}

// kill ends a worker where it is: nothing is finished, and nothing saved.
func (r *running) kill(t *testing.T) {
	t.Helper()
	r.force()
	r.drain()
	select {
	case <-r.ended:
	case <-time.After(deadline):
		t.Fatal("the worker did not end")
	}
}

// rollBack replaces the partition's keys in Redis by a copy.
func (w *world) rollBack(t *testing.T, copied map[string]storedKey) {
	t.Helper()
	keys, err := w.redis.Keys(t.Context(), "{"+w.group+":0}:*").Result()
	require.NoError(t, err)
	require.NoError(t, w.redis.Del(t.Context(), keys...).Err())
	putBack(t, w.redis, copied)
}
