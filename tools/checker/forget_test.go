package checker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestMemoryFollowsWhatIsPending: of eleven hours of impressions the checker holds
// those that are not over, and still finds corrupted statistics of the others.
func TestMemoryFollowsWhatIsPending(t *testing.T) {
	t.Parallel()
	const impressions, step = 4000, 10 * time.Second
	for _, c := range []struct{ name, learner string }{
		{"qpmd", "  feed: {payoffs: stochastic, policy: greedy, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop}"},
		{"bold", "  feed: {payoffs: adversarial, policy: ftrl, loss_index: rank, max_instances: 4, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, worker := longAgo(t, c.learner, impressions, step)
			worker.stop(t)
			r := v.check(t)
			requireClean(t, r)
			p := &r.Partitions[0]
			// Twelve minutes, the records read at once, and twice as many until the sweep.
			require.Less(t, p.Held, 2*(int64(12*time.Minute/step)+2*inStep))
			require.Greater(t, p.Forgotten, int64(impressions*9/10))
			for _, l := range p.Laws {
				switch l.Law {
				case "items.sums", "account.outcomes", "bold.rounds":
					require.Zero(t, l.Open, "%s: nothing was left open", l.Law)
				}
			}
			undo := v.stats(t, "feed", `"n":`, `"n":1`)
			requireBroken(t, v.check(t), itemsSums)
			undo()
			undo = both(v.add(t, "meta", "account.impressions.paid", 1), v.add(t, "meta", "account.impressions.expired", -1))
			requireBroken(t, v.check(t), accountOutcomes)
			undo()
			if c.name == "bold" {
				undo = v.unset(t, v.key(0, "feed:vectors"), v.anyField(t, "feed:vectors"))
				requireBroken(t, v.check(t), boldVectors)
				undo()
			}
		})
	}
}

const inStep = 50

// longAgo has a worker take in impressions that came one after the other, and waits until it has forgotten all but the last.
func longAgo(t *testing.T, learner string, impressions int, step time.Duration) (*victim, *running) {
	t.Helper()
	v := &victim{world: newWorld(t, testenv.Embedded(t), 1, learner, "join: {parking_time: 2m, remember: 2m}"), offsets: map[string]int64{}}
	v.clock.Store(start)
	worker := v.start(t, v.now)
	for n := 0; n < impressions; n += inStep { // so that no topic is read far ahead of the others
		for topic, k := range v.fill(t, time.UnixMilli(v.now()), n, n+inStep, step) {
			v.offsets[topic] += int64(k)
		}
		v.clock.Add(inStep * step.Milliseconds())
		v.settle(t)
	}
	v.awaitForgotten(t, impressions-200)
	return v, worker
}

// awaitForgotten waits until the worker's walk over the deadlines has passed an impression of fill.
func (w *world) awaitForgotten(t testing.TB, n int) {
	t.Helper()
	id := fmt.Sprintf("impression-%08d", n)
	require.Eventually(t, func() bool {
		for p := range w.partitions {
			if there, err := w.redis.HExists(t.Context(), w.page(p, id), storedID(id)).Result(); there || err != nil {
				return false
			}
		}
		return true
	}, deadline, 10*time.Millisecond)
}

// TestRecordsOfForgottenIDs: duplicates, records that date themselves in time and come hours later, and an id that is used
// again, when the checker has forgotten the id.
func TestRecordsOfForgottenIDs(t *testing.T) {
	t.Parallel()
	const impressions, step = 1000, 10 * time.Second
	v, worker := longAgo(t, "  feed: {payoffs: stochastic, policy: greedy, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop}", impressions, step)
	id := func(n int) string { return fmt.Sprintf("impression-%08d", n) }
	early := fmt.Sprintf(`"time":%q`, time.UnixMilli(start).UTC().Format(time.RFC3339Nano))
	v.put(t, "payoffs", id(1), `"payoff":0.5`)         // of one that was paid
	v.put(t, "payoffs", id(10), `"payoff":0.5`)        // of one that was not, too late
	v.put(t, "payoffs", id(20), `"payoff":0.5,`+early) // in time by its own account
	v.put(t, "selections", id(30), `"item":"x",`+early)
	v.settle(t)
	v.clock.Add(5 * time.Minute.Milliseconds()) // records that waited in vain are given up
	for _, n := range []int{1, 10, 20, 30} {
		v.awaitForgotten(t, n)
	}
	r := v.check(t)
	requireExact(t, r)
	require.Positive(t, r.Partitions[0].Forgotten)
	undo := v.add(t, "meta", "account.impressions.paid", 1)
	requireBroken(t, v.check(t), accountOutcomes)
	undo()

	v.impression(t, id(2), "feed")
	v.settle(t)
	worker.stop(t)
	r = v.check(t)
	requireExact(t, r)
	require.Empty(t, r.Unchecked)
	require.Equal(t, [event.Topics]int64{impressions + 1, impressions + 1, impressions*9/10 + 3, impressions + 1}, r.Partitions[0].Read)
}
