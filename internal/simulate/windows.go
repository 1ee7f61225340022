package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// ErrConfig is wrapped by errors about a configuration.
var ErrConfig = errors.New("faulty configuration")

// Windows is a distribution of attention windows.
type Windows struct {
	upTo []float64 // upTo[w-1] = P(window ≤ w); the last is 1
}

// Geometric returns P(w) ∝ ratio^(w-1) on 1..longest, for 0 < ratio ≤ 1; 1 is uniform. It fails with ErrConfig.
func Geometric(ratio float64, longest int) (Windows, error) {
	if !(ratio > 0 && ratio <= 1) || longest < 1 {
		return Windows{}, fmt.Errorf("windows ∝ %g^(w-1) on 1..%d: %w", ratio, longest, ErrConfig)
	}
	weights := make([]float64, longest)
	for i := range weights {
		weights[i] = math.Pow(ratio, float64(i))
	}
	return Weighted(weights)
}

// Weighted returns P(w) ∝ weights[w-1]. It fails with ErrConfig.
func Weighted(weights []float64) (Windows, error) {
	upTo := make([]float64, len(weights))
	var sum float64
	for i, weight := range weights {
		if !(weight >= 0) || math.IsInf(weight, 0) {
			return Windows{}, fmt.Errorf("weight %g of window %d: %w", weight, i+1, ErrConfig)
		}
		sum += weight
		upTo[i] = sum
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return Windows{}, fmt.Errorf("weights of the windows add up to %g: %w", sum, ErrConfig)
	}
	for i := range upTo {
		upTo[i] /= sum
	}
	return Windows{upTo}, nil
}

// Fold returns the probabilities of windows 1..longest, longest ≥ 1; longer ones count as the longest.
func (w Windows) Fold(longest int) []float64 {
	q, before := make([]float64, longest), 0.0
	for i := range q {
		upTo := 1.0
		if i < len(w.upTo) && i < longest-1 {
			upTo = w.upTo[i]
		}
		q[i], before = upTo-before, upTo
	}
	return q
}

// Draw draws a window from 1..longest, longest ≥ 1; longer ones count as the longest.
func (w Windows) Draw(rng *rand.Rand, longest int) int {
	u := rng.Float64()
	// The first window with P(window ≤ w) > u; it never has weight 0.
	i, _ := slices.BinarySearchFunc(w.upTo, u, func(upTo, u float64) int {
		if upTo > u {
			return 1
		}
		return -1
	})
	return min(i+1, longest)
}
