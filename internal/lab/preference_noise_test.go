//go:build !race

package lab

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// TestTastes_FindingTheMeanOrderCostsLittle: users' own utilities deviate from the mean, by up to two gaps between neighbours. The
// burn-in ends. In 20,000 impressions elimination loses no more than 10% more than with the true mean order given, within two
// standard errors. moss, which loses an eighth of that, loses at most a quarter more. A finder without any selections loses more
// than that.
func TestTastes_FindingTheMeanOrderCostsLittle(t *testing.T) {
	for _, c := range []struct {
		policy    string
		deviation float64
		most      float64
	}{{"elimination", 0.5, 1.1}, {"elimination", 2, 1.1}, {"moss", 2, 1.25}} {
		e := &Experiment{Scenario: "stationary", Items: 10, Horizon: 20_000, Tastes: c.deviation, Runs: 8, Seed: 4}
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{c.policy}, Utilities: []string{"given", "sorted"}}))
		require.NoError(t, err)
		given, sorted := results[0].Regret, results[1].Regret
		require.Less(t, sorted.Mean, c.most*given.Mean+2**sorted.Stderr, "%v", c)
		require.Less(t, results[1].BurnIn.Impressions.Max, 2000.0, "%v", c)

		e.Runs = 2
		blind := combine(t, e, Settings{Policies: []string{c.policy}, Utilities: []string{"sorted"}})
		build := blind[0].new
		blind[0].new = func() delay.Learner { return selectionless{build()} }
		learnsNothing, err := Run(context.Background(), e, blind)
		require.NoError(t, err)
		require.Greater(t, learnsNothing[0].Regret.Mean, c.most*given.Mean+2**sorted.Stderr, "%v", c)
	}
}

// selectionless is a learner that receives no selections, only payoffs.
type selectionless struct{ delay.Learner }

func (selectionless) Selected(delay.Feedback) {}

// TestTastes_RegretIsOfEachUsersOwnOrder: with tastes, regret is against the best ranking for this very user; a learner that is
// given that order loses nothing.
func TestTastes_RegretIsOfEachUsersOwnOrder(t *testing.T) {
	e := &Experiment{Scenario: "stationary", Items: 6, Horizon: 200, Tastes: 1.5, Runs: 1, Seed: 1}
	w, err := NewWorld(e, 0)
	require.NoError(t, err)
	changed := 0
	for range 200 {
		w.Next()
		order := w.order
		best := order[w.window-1]
		for _, k := range order[w.window-1:] {
			if w.mean(k) > w.mean(best) {
				best = k
			}
		}
		// That item first, then the items that the user likes less than it, then the rest.
		ranking := []int32{best}
		for _, k := range order {
			if k != best {
				ranking = append(ranking, k)
			}
		}
		require.Equal(t, 0, w.Select(ranking))
		require.InDelta(t, w.Best(), w.mean(best), 1e-15)
		for k, at := range order {
			if int32(k) != at {
				changed++
				break
			}
		}
	}
	require.Greater(t, changed, 150)
	e.Tastes = -1
	require.ErrorContains(t, e.Check(), "tastes")
	e.Tastes, e.Scenario = 1, "ranks"
	require.ErrorContains(t, e.Check(), "ranks of each user's own")
}

// TestUnscored_StandInTheMiddle: items with a utility keep their order, and those without one stand around its median.
func TestUnscored_StandInTheMiddle(t *testing.T) {
	const n = 20
	permutation := shuffled(n, newStream(4, 0, forLabels))
	last, seen := policy.Item(-1), map[policy.Item]bool{}
	for i, label := range scored(permutation, 0.25) {
		require.False(t, seen[label])
		seen[label] = true
		if permutation[i] < n/4 {
			require.GreaterOrEqual(t, label, policy.Item(7), "7 of 15 are below the median")
			require.LessOrEqual(t, label, policy.Item(12), "and 7 above")
			continue
		}
		require.Greater(t, label, last)
		last = label
	}
	require.Len(t, seen, n)
}
