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
		{"lazy", "utility", 10}, {"lazy", "elimination", 10}, {"lazy", "greedy", 10}, {"lazy", "egreedy", 10}, {"changing", "elimination", 10}, {"lazy", "elimination", 1000},
		{"stationary", "elimination", 10}, {"stationary", "ftrl", 10}, {"stationary", "osmd", 10}, {"ranks", "ftrl", 10}, {"conversions", "moss", 10}, {"churn", "moss", 200}, {"wandering", "moss", 10}, {"stationary", "ftrl", 1000}, {"catalog", "greedy", 2000},
	} {
		b.Run(fmt.Sprintf("%s/%s/%d", c.scenario, c.policy, c.items), func(b *testing.B) {
			e := &Experiment{Scenario: c.scenario, Items: c.items, Runs: 1, Seed: 1}
			if !c.scenario.OwnDelays() {
				e.PayoffDelay.Mean = 100
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
