//go:build !race

package lab

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of an item that pays 1 in 7, among others that hardly vary and pay a third less, first payoffs are mostly all 0. A learner that has
// settled on the others after them loses 770 in a run (p = 0.15). Measured in 60 runs with other seeds: moss misses the item in 1,
// thompson and greedy in more than half.
func TestJackpot_IsSeldomMissed(t *testing.T) {
	const runs = 12
	for _, s := range []Scenario{Jackpot, JackpotOften} {
		e := &Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: s.DefaultHorizon(), Runs: runs, Seed: 41}
		all := combine(t, e, Settings{Policies: []string{"moss", "greedy", "utility"}, Delays: []string{"direct"}})
		grid := []int64{e.Horizon}
		missed := map[string]int{}
		lost := func(c *Combination, run int) float64 {
			p, err := play(context.Background(), e, c, run, grid, func(int64) {})
			require.NoError(t, err)
			return p.regret[0]
		}
		// Nothing is as far from the item as the users' own order, in which it comes last.
		most := lost(all[2], 0)
		for _, c := range all {
			for run := range runs {
				if lost(c, run) > most/2 {
					missed[string(c.Learner.Policy)]++
				}
			}
		}
		t.Logf("%s: missed in %d runs: %v; a run that misses it loses %.0f", s, runs, missed, most)
		require.LessOrEqual(t, missed["moss"], runs/6, s)
		require.Greater(t, missed["greedy"], runs/2, s)
		require.Equal(t, runs, missed["utility"], s)
	}
}
