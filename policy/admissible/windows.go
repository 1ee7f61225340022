package admissible

import (
	"errors"
	"fmt"
	"math"
)

// MaxWindow is the longest window of a distribution.
const MaxWindow = 1 << 16

// sumTolerance is the largest error of a given distribution's sum; within it the distribution is scaled to sum 1.
const sumTolerance = 1e-6

// ErrWindows is wrapped by errors about window distributions.
var ErrWindows = errors.New("invalid window distribution")

// Windows is a distribution q of the attention window over 1..Max(). It is immutable.
type Windows struct {
	q    []float64 // sums to one up to rounding; the last is positive
	tail []float64 // tail[k] = q[k] + q[k+1] + …, added from the end, where small numbers tend to be
}

// NewWindows takes the probabilities of windows 1, 2, …: 1 to MaxWindow finite numbers from 0 on, with sum 1 within sumTolerance.
// It copies q. It fails with ErrWindows.
func NewWindows(q []float64) (*Windows, error) {
	if len(q) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrWindows)
	}
	if len(q) > MaxWindow {
		return nil, fmt.Errorf("%w: %d windows are more than %d", ErrWindows, len(q), MaxWindow)
	}
	var sum float64
	for k, v := range q {
		if !(v >= 0) || math.IsInf(v, 1) { // NaN too
			return nil, fmt.Errorf("%w: window %d has probability %v", ErrWindows, k+1, v)
		}
		sum += v
	}
	if !(math.Abs(sum-1) <= sumTolerance) {
		return nil, fmt.Errorf("%w: it sums to %v instead of 1 (within %v)", ErrWindows, sum, sumTolerance)
	}
	return newWindows(q), nil
}

// newWindows scales weights from 0 on, whose sum is positive and finite.
func newWindows(weights []float64) *Windows {
	last := len(weights)
	for last > 1 && weights[last-1] == 0 {
		last--
	}
	w := &Windows{q: make([]float64, last), tail: make([]float64, last)}
	var sum float64
	for k := last - 1; k >= 0; k-- {
		sum += weights[k]
	}
	var tail float64
	for k := last - 1; k >= 0; k-- {
		w.q[k] = weights[k] / sum
		tail += w.q[k]
		w.tail[k] = tail
	}
	w.tail[0] = 1 // a single candidate's propensity, which the sum can miss by rounding
	return w
}

// Geometric returns q_w ∝ ratio^w on 1..longest: users look at one more with probability ratio, in (0,1]; or ErrWindows.
func Geometric(ratio float64, longest int) (*Windows, error) {
	if !(ratio > 0 && ratio <= 1) {
		return nil, fmt.Errorf("%w: a geometric ratio must lie in (0,1], not %v", ErrWindows, ratio)
	}
	return shaped(longest, func(w float64) float64 { return math.Pow(ratio, w-1) })
}

// Zipf returns q_w ∝ w^(−s) on 1..longest, for a finite s ≥ 0. It fails with ErrWindows.
func Zipf(s float64, longest int) (*Windows, error) {
	if !(s >= 0) || math.IsInf(s, 1) {
		return nil, fmt.Errorf("%w: a Zipf exponent must be finite and not negative, not %v", ErrWindows, s)
	}
	return shaped(longest, func(w float64) float64 { return math.Pow(w, -s) })
}

func shaped(longest int, weight func(w float64) float64) (*Windows, error) {
	if longest < 1 || longest > MaxWindow {
		return nil, fmt.Errorf("%w: its longest window must lie in 1..%d, not be %d", ErrWindows, MaxWindow, longest)
	}
	weights := make([]float64, longest)
	for k := range weights {
		weights[k] = weight(float64(k + 1))
	}
	return newWindows(weights), nil // the first weight is 1
}

// Max returns the longest window of positive probability.
func (w *Windows) Max() int { return len(w.q) }

// Fold writes the distribution for lists of len(dst) candidates, at least one, and returns dst. Longer windows see the whole list:
// their probability is added to the last; windows beyond Max get zero.
func (w *Windows) Fold(dst []float64) []float64 {
	n := len(dst)
	copied := copy(dst, w.q)
	clear(dst[copied:])
	if n <= len(w.q) {
		dst[n-1] = w.tail[n-1]
	}
	return dst
}

// UniformFrom returns the least list length in 2..longest at which all candidates can be selected with equal probability
// (UniformAdmissible); 0 if there is none.
func (w *Windows) UniformFrom(longest int) int {
	var sum, need float64 // the least length that windows up to n−1 allow
	for n := 2; n <= longest; n++ {
		if k := n - 1; k <= len(w.q) {
			sum += w.q[k-1]
			need = max(need, float64(k)/sum)
		}
		if float64(n) >= float64(need*(1-uniformSlack)) {
			return n
		}
	}
	return 0
}

// Prefix writes the sums G_k = q_1 + … + q_k of a folded distribution to dst, of equal length; the last is exactly 1.
func Prefix(q, dst []float64) []float64 {
	var sum float64
	for k, v := range q {
		sum += v
		dst[k] = min(sum, 1)
	}
	dst[len(q)-1] = 1
	return dst
}
