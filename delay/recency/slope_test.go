package recency

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// The slope is that of centred sums and a standard error more, drawn towards 1, and between 0 and 1.
func TestSlope_IsTheLiteralOne(t *testing.T) {
	rng := newRand(t, 81)
	const sigma = 0.4
	for _, truth := range []float64{-0.5, 0, 0.3, 0.8, 1, 1.5} {
		var s slope
		var xx, xy float64
		for range 20 {
			var of regression
			own, n := rng.Float64(), 1+rng.IntN(300)
			var x, y []float64
			for range n {
				level := 0.2 * rng.NormFloat64()
				payoff := own + truth*level + sigma*rng.NormFloat64()
				x, y = append(x, level), append(y, payoff)
				of.add(level, 1, payoff)
			}
			s.add(&of)
			mean := func(of []float64) (sum float64) {
				for _, v := range of {
					sum += v / float64(n)
				}
				return sum
			}
			for j := range x {
				xx += (x[j] - mean(x)) * (x[j] - mean(x))
				xy += (x[j] - mean(x)) * (y[j] - mean(y))
			}
		}
		require.InDelta(t, min(1, max(0, (xy+sigma*math.Sqrt(xx)+sigma*sigma)/(xx+sigma*sigma))), s.estimate(sigma), 1e-5, "slope %v", truth)
	}
	require.Equal(t, 1.0, new(slope).estimate(sigma), "no levels")
}

// Payoffs that do not change have no level, even where the expectations that selections recorded have changed. So an item that was
// selected since then alone has its own mean. Without the slope its mean would be 0.1 too high.
func TestEstimate_AnErrorThatScoresKeepIsNoLevel(t *testing.T) {
	k := learns(t, 4)
	rng := newRand(t, 82)
	const seconds = 20_000
	for s := range seconds {
		i, expected := policy.Item(rng.IntN(3)), 0.3
		if s > seconds/2 {
			i, expected = policy.Item(rng.IntN(4)), 0.4
		}
		payoff := 0.0
		if rng.Float64() < 0.3 {
			payoff = 1
		}
		k.feed(i, int64(s)*1000, payoff, 0.25, expected)
	}
	require.Less(t, k.slope, 0.75) // six standard errors above the mean
	for i := range k.items {
		require.InDelta(t, 0.3, k.recent(policy.Item(i)).Mean, 0.06, "item %d", i) // six deviations of 2,500 payoffs
	}
}
