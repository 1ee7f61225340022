//go:build !race

package lab

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of an item that pays 1 in 7, among others that hardly vary and pay a third less, first payoffs are mostly all 0. A learner that has
// settled on the others after them loses 770 in a run (p = 0.15). Measured in 60 runs with other seeds: moss misses the item in 1,
// thompson and greedy in more than half.
func TestJackpot_IsSeldomMissed(t *testing.T) {
	const runs = 12
	for _, s := range []Scenario{"jackpot", "jackpot-0.3"} {
		e := &Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: s.DefaultHorizon(), Runs: runs, Seed: 41}
		all := combine(t, e, Settings{Policies: []string{"moss", "greedy", "utility"}, Delays: []string{"direct"}})
		grid := []int64{e.Horizon}
		missed := map[string]int{}
		lost := func(c *Combination, run int) float64 {
			p, err := play(context.Background(), e, c, run, grid, func(int64) {})
			require.NoError(t, err)
			return p.regret[0]
		}
		// Nothing is as far from the item as the users' own order, in which it comes last, in each run.
		most := lost(all[2], 0)
		require.Greater(t, lost(all[2], 1), most/2, s)
		for _, c := range all[:2] {
			for run := range runs {
				if lost(c, run) > most/2 {
					missed[string(c.Learner.Policy)]++
				}
			}
		}
		t.Logf("%s: missed in %d runs: %v; a run that misses it loses %.0f", s, runs, missed, most)
		require.LessOrEqual(t, missed["moss"], runs/6, s)
		require.Greater(t, missed["greedy"], runs/2, s)
	}
}

// Jackpot: item 1 pays 1 or nothing, others 0.1 with deviation 0.01; 7 standard errors of 100,000 (3·10⁻¹² each).
func TestJackpot_PayoffsAreAsDefined(t *testing.T) {
	const draws = 100_000
	for s, p := range map[Scenario]float64{"jackpot": 0.15, "jackpot-0.3": 0.3} {
		w, err := NewWorld(defaults(s, 15), 0)
		require.NoError(t, err)
		var won, sum, squares float64
		for range draws {
			w.Next()
			first, second := w.Reply(0), w.Reply(1)
			require.True(t, first.Payoff == 0 || first.Payoff == 1)
			require.True(t, first.Paid && second.Paid)
			won += first.Payoff
			sum += second.Payoff - 0.1
			squares += (second.Payoff - 0.1) * (second.Payoff - 0.1)
		}
		require.InDelta(t, p, won/draws, 7*math.Sqrt(p*(1-p)/draws))
		require.InDelta(t, 0, sum/draws, 7*0.01/math.Sqrt(draws))
		require.InDelta(t, 0.01, math.Sqrt(squares/draws), 7*0.01/math.Sqrt(2*draws))
	}
}
