//go:build !race

package learners

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// late is a payoff on its way.
type late struct {
	at      int
	learner delay.Learner
	outcome delay.Feedback
}

// regretOfPartitions plays lazy windows to one group of learners, one for each partition, that take turns with the impressions.
// They exchange sums every so many impressions, as the worker's followers do. Payoffs are normal with variance 1/4, lag impressions
// late.
func regretOfPartitions(t *testing.T, seed uint64, partitions, horizon, lag, exchange int) float64 {
	t.Helper()
	const n = 10
	cfg := config.DefaultLearner("feed", config.Stochastic)
	build, err := New(&cfg)
	require.NoError(t, err)
	whole := build()
	whole.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	whole.Grow(n)
	all := make([]delay.Learner, partitions)
	for p := range all {
		all[p] = build()
		all[p].Share(whole, int32(p), func(i policy.Item) policy.Item { return i })
		all[p].Grow(n)
		require.NoError(t, all[p].Loaded())
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	items := make([]policy.Item, n)
	for i := range items {
		items[i] = policy.Item(i)
	}
	mean := func(i policy.Item) float64 { return 1 - float64(i)/n }
	var d delay.Decision
	var queue []late
	regret := 0.0
	for now := range horizon {
		for len(queue) > 0 && queue[0].at <= now {
			queue[0].learner.Paid(queue[0].outcome)
			queue = queue[1:]
		}
		if now%exchange == 0 {
			for from, l := range all {
				for _, i := range items {
					whole.SetSource(int32(from), i, l.Sums(i))
				}
			}
			whole.Commit(n)
			for _, l := range all {
				l.Refresh(slices.Values(items))
			}
		}
		l := all[now%partitions]
		l.Decide(items, nil, policy.DecisionKey(seed, 0, "feed", int32(now%partitions), int64(now)), &d)
		window := 1
		for window < n && rng.Float64() < math.Exp(-0.5) {
			window++
		}
		best := d.Order[0] // utility is the item's number
		for _, at := range d.Order[:window] {
			best = max(best, at)
		}
		regret += mean(policy.Item(window-1)) - mean(best)
		fb := delay.Feedback{Ref: int64(now), Item: best, Instance: -1}
		l.Selected(fb)
		fb.Payoff = mean(best) + 0.5*rng.NormFloat64()
		queue = append(queue, late{now + lag + 1, l, fb})
	}
	return regret
}

// TestPartitionsLearnTogether: six partitions learn about as fast as one does from the same traffic, with ten exchanges in the delay of a
// payoff. The cost comes from the age of the sums, not from counting only the own selections in flight. With every impression it is 2 %,
// every 200 of 1,000 10 %. The sum over runs of the difference is compared with the bound plus five of its standard errors. By chance that
// fails less than once in a million times. The seeds are fixed besides. A third of the runs is enough if the difference, with three
// standard errors, is below the bound.
func TestPartitionsLearnTogether(t *testing.T) {
	const runs, horizon, lag, exchange = 24, 40_000, 500, 50
	var one, more, squares float64
	bound := func(n float64) (difference, stderr, atMost float64) {
		mean := more / n
		stderr = math.Sqrt((squares/n - mean*mean) / n)
		t.Logf("%.0f runs: regret of one partition %.0f, of six %.0f ± %.0f more", n, one/n, mean, stderr)
		return mean, stderr, 0.1 * one / n
	}
	for run := range uint64(runs) {
		a := regretOfPartitions(t, 100+run, 1, horizon, lag, exchange)
		b := regretOfPartitions(t, 100+run, 6, horizon, lag, exchange)
		one, more, squares = one+a, more+b-a, squares+(b-a)*(b-a)
		if run+1 == runs/3 {
			if difference, stderr, atMost := bound(runs / 3); difference+3*stderr < atMost {
				return
			}
		}
	}
	difference, stderr, atMost := bound(runs)
	require.Less(t, difference, atMost+5*stderr)
}
