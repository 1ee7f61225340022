//go:build !race

package e2e

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestUnraced_SilenceTeaches: payoffs come only for conversions, and late; a worker is killed, and Redis is rolled back. The learners' mean
// loss equals the laboratory's, to 10 percent and six standard errors (a false alarm in 10⁹, if runs were normal). That is below the loss
// of learners that wait for deadlines.
func TestUnraced_SilenceTeaches(t *testing.T) {
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
