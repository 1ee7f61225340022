package inflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Age is the way back from By, wherever By rises.
func TestAge_IsTheInverseOfBy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewScheme(rapid.Int64Range(1, 90*86_400_000).Draw(t, "horizon"))
		var l DelayDistribution
		require.False(t, l.Known())
		if rapid.Bool().Draw(t, "known") {
			var ages Ages
			for range rapid.IntRange(0, 20).Draw(t, "payoffs") {
				ages.Add(&g, ages.Row(&g, 0, 10*g.Horizon()), rapid.Int64Range(0, g.Horizon()).Draw(t, "age"), 1)
			}
			l = Estimate(&g, 10*g.Horizon(), 1, &ages)
			require.True(t, l.Known())
		}
		share := rapid.Float64Range(0.001, 0.999).Draw(t, "share")
		age := l.Age(&g, share)
		require.GreaterOrEqual(t, age, int64(0))
		require.LessOrEqual(t, age, g.Horizon())
		require.LessOrEqual(t, l.By(&g, age-1), share)
		require.GreaterOrEqual(t, l.By(&g, age+1), share)
	})
}
