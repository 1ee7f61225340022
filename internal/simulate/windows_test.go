package simulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// near fails unless a count of n independent events of probability p is within Bernstein's bound of its expectation:
// a false alarm has a probability below 1e-8.
func near(t *testing.T, what string, count, n int, p float64) {
	t.Helper()
	const log2byAlarm = 19.2 // log(2/1e-8)
	mean := float64(n) * p
	slack := log2byAlarm/3 + math.Sqrt(log2byAlarm*log2byAlarm/9+2*log2byAlarm*mean*(1-p))
	require.InDelta(t, mean, float64(count), slack, "%s: %d of %d, expected a share of %g", what, count, n, p)
}

func TestWindowsFollowTheirWeights(t *testing.T) {
	weights := []float64{0, 3, 0, 0, 1, 2, 0}
	windows, err := Weighted(weights)
	require.NoError(t, err)
	const seed, n, longest = 3, 100_000, 6
	rng := rand.New(rand.NewPCG(seed, 0))
	var counts [longest + 2]int
	for range n {
		counts[windows.Draw(rng, longest)]++
	}
	for w, weight := range weights {
		near(t, "window", counts[w+1], n, weight/6)
	}
	for range n {
		require.LessOrEqual(t, windows.Draw(rng, 3), 3, "the tail is folded onto the last")
	}
}

func TestGeometricWindows(t *testing.T) {
	windows, err := Geometric(0.7, 4)
	require.NoError(t, err)
	sum := 1 + 0.7 + 0.49 + 0.343
	require.InDeltaSlice(t, []float64{1 / sum, 1.7 / sum, 2.19 / sum, 1}, windows.upTo, 1e-12)
	require.Equal(t, 1.0, windows.upTo[3])
}

func TestFaultyWindowsAreRefused(t *testing.T) {
	for _, ratio := range []float64{0, -1, 1.1, math.NaN()} {
		_, err := Geometric(ratio, 3)
		require.ErrorIs(t, err, ErrConfig)
	}
	_, err := Geometric(0.5, 0)
	require.ErrorIs(t, err, ErrConfig)
	for _, weights := range [][]float64{nil, {0, 0}, {1, -1}, {math.NaN()}, {math.Inf(1)}, {math.MaxFloat64, math.MaxFloat64}} {
		_, err := Weighted(weights)
		require.ErrorIs(t, err, ErrConfig, "%v", weights)
	}
}
