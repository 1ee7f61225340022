package checker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestMemoryFollowsWhatIsPending: of impressions of eleven hours the checker holds those that are not over, and yet finds
// what is spoilt of what the others taught.
func TestMemoryFollowsWhatIsPending(t *testing.T) {
	const impressions, step = 4000, 10 * time.Second
	for _, c := range []struct{ name, learner string }{
		{"qpmd", "  feed: {payoffs: stochastic, policy: greedy, payoff_horizon: 10m, selection_timeout: 2m}"},
		{"bold", "  feed: {payoffs: adversarial, policy: ftrl, loss_index: rank, max_instances: 4, payoff_horizon: 10m, selection_timeout: 2m}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, worker := longAgo(t, c.learner, impressions, step)
			worker.stop(t)
			options := func(o *Options) { o.Now = v.now }
			r := v.check(t, options)
			requireClean(t, r)
			p := &r.Partitions[0]
			// Twelve minutes, and one of lag, and twice as many as that before they are looked through.
			require.Less(t, p.Held, int64(2*14*time.Minute/step))
			require.Greater(t, p.Forgotten, int64(impressions*9/10))
			for _, l := range p.Laws {
				switch l.Law {
				case "items.sums", "account.outcomes", "bold.rounds":
					require.Zero(t, l.Open, "%s: nothing was left open", l.Law)
				}
			}
			undo := v.stats(t, "feed", `"n":`, `"n":1`)
			requireBroken(t, v.check(t, options), itemsSums)
			undo()
			undo = both(v.add(t, "meta", "account.impressions.paid", 1), v.add(t, "meta", "account.impressions.expired", -1))
			requireBroken(t, v.check(t, options), accountOutcomes)
			undo()
			if c.name == "bold" {
				undo = v.unset(t, v.key(0, "feed:vectors"), v.anyField(t, "feed:vectors"))
				requireBroken(t, v.check(t, options), boldVectors)
				undo()
			}
		})
	}
}

// longAgo has a worker take in impressions that came one after the other, and waits until it has forgotten all but the last.
func longAgo(t *testing.T, learner string, impressions int, step time.Duration) (*victim, *running) {
	t.Helper()
	v := &victim{world: newWorld(t, testenv.Embedded(t), 1, learner, "join: {parking_time: 2m}"), offsets: map[string]int64{}}
	v.clock.Store(start + int64(impressions)*step.Milliseconds())
	for topic, n := range v.fill(t, time.UnixMilli(start), impressions, step) {
		v.offsets[topic] = int64(n)
	}
	worker := v.start(t, v.now)
	v.settle(t)
	v.awaitForgotten(t, impressions-200)
	return v, worker
}

// awaitForgotten waits until the worker's walk over the deadlines has passed an impression of fill.
func (w *world) awaitForgotten(t testing.TB, n int) {
	t.Helper()
	id := fmt.Sprintf("impression-%08d", n)
	require.Eventually(t, func() bool {
		for p := range w.partitions {
			if there, err := w.redis.HExists(t.Context(), w.shard(p, id), id).Result(); there || err != nil {
				return false
			}
		}
		return true
	}, deadline, 10*time.Millisecond)
}

// TestRecordsOfForgottenIDs: duplicates, records that date themselves in time and come hours later, and an id that is used
// again, when the checker has forgotten the id.
func TestRecordsOfForgottenIDs(t *testing.T) {
	const impressions, step = 1000, 10 * time.Second
	v, worker := longAgo(t, "  feed: {payoffs: stochastic, policy: greedy, payoff_horizon: 10m, selection_timeout: 2m}", impressions, step)
	id := func(n int) string { return fmt.Sprintf("impression-%08d", n) }
	early := fmt.Sprintf(`"time":%q`, time.UnixMilli(start).UTC().Format(time.RFC3339Nano))
	v.put(t, "payoffs", id(1), `"payoff":0.5`)         // of one that was paid
	v.put(t, "payoffs", id(10), `"payoff":0.5`)        // of one that was not, too late
	v.put(t, "payoffs", id(20), `"payoff":0.5,`+early) // in time by its own account
	v.put(t, "selections", id(30), `"item":"x",`+early)
	v.settle(t)
	v.clock.Add(5 * time.Minute.Milliseconds()) // what of it waited in vain is given up
	for _, n := range []int{1, 10, 20, 30} {
		v.awaitForgotten(t, n)
	}
	options := func(o *Options) { o.Now = v.now }
	r := v.check(t, options)
	requireClean(t, r)
	require.Positive(t, r.Partitions[0].Forgotten)
	require.Contains(t, strings.Join(r.Unchecked, "\n"), "long after they were forgotten")
	undo := v.add(t, "meta", "account.impressions.paid", 40)
	requireBroken(t, v.check(t, options), accountOutcomes)
	undo()

	v.impression(t, id(2), "feed")
	v.settle(t)
	worker.stop(t)
	r = v.check(t, options)
	requireClean(t, r)
	require.Contains(t, strings.Join(r.Unchecked, "\n"), "1 ids had several impressions ranked")
	require.Equal(t, [event.Topics]int64{impressions + 1, impressions + 1, impressions*9/10 + 3, impressions + 1}, r.Partitions[0].Read)
}
