//go:build !race

package lab

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartitions_PoolWhatTheyLearn: four partitions that publish at once lose about as much as one, with pooled unpaid selections
// too. Four that never publish lose much more. The seed is fixed. Of ten others, twice the ratio of the former was above 1.7 (on
// lazy, in 3 runs), 1.04 in the geometric mean. That of the latter was from 1.7 to 3.9.
func TestPartitions_PoolWhatTheyLearn(t *testing.T) {
	lost := func(s Scenario, partitions int, every int64) float64 {
		e := defaults(s, 3)
		e.Horizon, e.Runs, e.Partitions, e.ShareEvery = 6000, 3, partitions, every
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{"moss"}}))
		require.NoError(t, err)
		return results[0].Regret.Mean
	}
	for _, s := range []Scenario{"lazy", "conversions", "customers"} {
		one, pooled, apart := lost(s, 1, 0), lost(s, 4, 20), lost(s, 4, 1<<40)
		t.Logf("%s: %.1f over one partition, %.1f over four, %.1f over four apart", s, one, pooled, apart)
		require.Less(t, pooled, 1.7*one)
		require.Greater(t, apart, 1.7*one)
	}
}
