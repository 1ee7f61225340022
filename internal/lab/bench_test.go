package lab

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// One operation is one impression: users, decision, selection, and payoff, 100 impressions late
// unless the scenario has delays of its own.
func BenchmarkPlay(b *testing.B) {
	for _, c := range []struct {
		scenario Scenario
		policy   string
		items    int
	}{
		{Lazy, "utility", 10}, {Lazy, "elimination", 10}, {Lazy, "greedy", 10}, {Lazy, "egreedy", 10}, {Changing, "elimination", 10}, {Lazy, "elimination", 1000},
		{Stationary, "elimination", 10}, {Stationary, "ftrl", 10}, {Stationary, "osmd", 10}, {Ranks, "ftrl", 10}, {Conversions, "moss", 10}, {Churn, "moss", 200}, {Wandering, "moss", 10}, {Stationary, "ftrl", 1000}, {Catalog, "greedy", 2000},
	} {
		b.Run(fmt.Sprintf("%s/%s/%d", c.scenario, c.policy, c.items), func(b *testing.B) {
			e := &Experiment{Scenario: c.scenario, Items: c.items, Runs: 1, Seed: 1}
			if !c.scenario.OwnDelays() {
				e.Lateness.Mean = 100
			}
			e.Horizon = int64(b.N)
			all, _, err := Combine(e, &Settings{Policies: []string{c.policy}})
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			_, err = play(context.Background(), e, all[0], 0, Grid(e.Horizon), func(int64) {})
			require.NoError(b, err)
		})
	}
}
