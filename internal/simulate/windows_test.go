package simulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
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
	upTo := make([]float64, len(weights))
	for k, weight := range weights {
		upTo[k] = weight / 6
	}
	admissible.Prefix(upTo, upTo)
	const seed, n = 3, 100_000
	rng := rand.New(rand.NewPCG(seed, 0))
	counts := make([]int, len(weights)+1)
	for range n {
		counts[Window(upTo, rng.Float64())]++
	}
	for w, weight := range weights {
		near(t, "window", counts[w+1], n, weight/6)
	}
}
