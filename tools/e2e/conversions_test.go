package e2e

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
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

// converting are the users of the laboratory's scenario `conversions`, several times over, a learner each: ten items of which
// 2 to 10 percent convert, and a payoff that is sent only for a conversion, 3,000 seconds later in the mean.
type converting struct {
	base     event.Millis // of the first impression
	rates    [][]float64  // by learner and item; the items are in the order of their utilities
	lost     []float64    // by learner
	expected []float64    // loss of ranking by utility
}

const (
	conversionItems   = 10
	conversionWait    = 3000.0
	conversionHorizon = 12_000 // seconds, and impressions of a learner
)

func newConverting(seed uint64, learners int, base event.Millis) *converting {
	u := &converting{base: base, lost: make([]float64, learners), expected: make([]float64, learners)}
	for l := range learners {
		rates := make([]float64, conversionItems)
		for k, item := range rand.New(rand.NewPCG(seed, uint64(l))).Perm(conversionItems) {
			rates[item] = 0.02 + 0.08*float64(k)/(conversionItems-1)
		}
		u.rates = append(u.rates, rates)
	}
	return u
}

// of returns an impression's learner, and its random numbers.
func (u *converting) of(n int) (learner int, at event.Millis, rng *rand.Rand) {
	learner = n % len(u.lost)
	return learner, u.base + event.Millis(n/len(u.lost))*1000, rand.New(rand.NewPCG(uint64(n), 77))
}

// Impression implements platform.Users.
func (u *converting) Impression(n int) (event.Impression, event.Millis, []platform.Record) {
	learner, at, _ := u.of(n)
	i := event.Impression{ID: fmt.Appendf(nil, "i-%d", n), Learner: fmt.Appendf(nil, "l%d", learner), HasUtilities: true}
	for item := range conversionItems {
		i.Candidates = append(i.Candidates, event.Candidate{Item: []byte(strconv.Itoa(item)), Utility: float64(item)})
	}
	return i, at, nil
}

// Respond implements platform.Users.
func (u *converting) Respond(n int, items [][]byte) ([]platform.Record, error) {
	learner, at, rng := u.of(n)
	window := 1
	for total, x := (1-math.Pow(0.7, conversionItems))/0.3, rng.Float64(); window < conversionItems; window++ {
		if x -= math.Pow(0.7, float64(window-1)) / total; x < 0 {
			break
		}
	}
	selected, best := 0, 0.0
	for _, name := range items[:window] {
		item, err := strconv.Atoi(string(name))
		if err != nil {
			return nil, err
		}
		selected = max(selected, item)
	}
	rates := u.rates[learner]
	for item := window - 1; item < conversionItems; item++ { // items that a user with this window can be made to select
		best = max(best, rates[item])
	}
	u.lost[learner] += best - rates[selected]
	u.expected[learner] += best - rates[conversionItems-1]
	id := fmt.Appendf(nil, "i-%d", n)
	records := []platform.Record{{At: at + 500, Topic: event.Selections, Selection: event.Selection{ID: id, Item: strconv.AppendInt(nil, int64(selected), 10)}}}
	if luck, late := rng.Float64(), rng.Float64(); luck < rates[selected] {
		wait := -conversionWait * math.Log1p(late*math.Expm1(-conversionHorizon/conversionWait))
		records = append(records, platform.Record{At: at + event.Millis(wait*1000), Topic: event.Payoffs, Payoff: event.Payoff{ID: id, Payoff: 1}})
	}
	return records, nil
}

// TestPipeline_SilenceTeaches: payoffs come only for conversions, and late; a worker is killed, and Redis
// is rolled back. The learners' mean loss equals the laboratory's, to 10 percent and six standard errors (a
// false alarm in 10⁹, if runs were normal), which is below the loss of learners that wait for deadlines.
func TestPipeline_SilenceTeaches(t *testing.T) {
	t.Parallel()
	const learners, each, runs = 5, conversionHorizon, 16
	regret := func(silence ...string) *lab.Result {
		e := &lab.Experiment{Scenario: lab.Conversions, Items: conversionItems, Horizon: each, Runs: runs, Seed: 5}
		combinations, _, err := lab.Combine(e, &lab.Settings{Policies: []string{"moss"}, Silences: silence})
		require.NoError(t, err)
		results, err := lab.Run(t.Context(), e, combinations)
		require.NoError(t, err)
		return results[0]
	}
	there, waits := regret(), regret("waits")
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		base := time.Now().Add(-24 * time.Hour).UnixMilli() // brokers take no times that are far ahead
		w := newWorld(t, env, 1, conversionLearners(learners))
		users := newConverting(9, learners, base)
		got, sent := w.disturbed(t, users, learners*each, 64, false)
		require.Positive(t, got["impressions.defaulted"])
		require.Equal(t, int64(sent.Payoffs), got["payoffs.applied"], "%v", got)

		var mean, expected float64
		for l := range learners {
			mean += users.lost[l] / learners
			expected += users.expected[l] / learners
		}
		deviation := *there.Regret.SD
		most := 1.1*there.Regret.Mean + 6*deviation*math.Sqrt(1.0/learners+1.0/runs)
		t.Logf("lost: %.1f of %.1f (%.1f); the laboratory %.1f, with a deviation of %.1f; if silence waits, %.1f; at most %.1f", mean, expected,
			users.lost, there.Regret.Mean, deviation, waits.Regret.Mean, most)
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
