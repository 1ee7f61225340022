package recency

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// ErrHalfLives is wrapped by errors about half-lives.
var ErrHalfLives = errors.New("recency: half-lives are invalid")

const (
	// MostHalfLives bounds the number of half-lives, without the infinite one.
	MostHalfLives = 8
	horizons      = MostHalfLives + 1
	// gone is the number of half-lives after which weights are 0.
	gone = 50
	// contradiction is the number of deviations that two nested means must differ by.
	contradiction = 3
	// tailContradiction is the same for tails, of which many are tested, again and again.
	tailContradiction = 4
	// wholeContradiction is the same for half-lives that contradict the whole past, which each payoff of each candidate tests.
	wholeContradiction = 4
)

// DefaultHalfLives are used unless configured.
func DefaultHalfLives() []time.Duration {
	return []time.Duration{time.Second, 8 * time.Second, time.Minute, 8 * time.Minute, time.Hour, 9 * time.Hour}
}

type perHorizon = [horizons]float64

// halves are the half-lives in ascending order; the infinite one is implied.
type halves struct {
	lives []int64 // ms
}

// newHalves checks half-lives, see NewEstimate.
func newHalves(lives []time.Duration) (h halves, err error) {
	if len(lives) == 0 || len(lives) > MostHalfLives {
		return h, fmt.Errorf("%w: there must be 1 to %d, not %d", ErrHalfLives, MostHalfLives, len(lives))
	}
	least := time.Second
	for _, life := range lives {
		if life < least || life%time.Millisecond != 0 {
			return h, fmt.Errorf("%w: %v: the shortest is 1s at least, each at least twice the one before, and all whole milliseconds",
				ErrHalfLives, life)
		}
		least = 2 * life
		h.lives = append(h.lives, life.Milliseconds())
	}
	return h, nil
}

func (h *halves) count() int { return len(h.lives) + 1 }

// weight returns the weight at half-life k of an age in milliseconds; 1 for negative ages.
func (h *halves) weight(k int, age int64) float64 {
	if k == len(h.lives) || age <= 0 {
		return 1
	}
	lives := float64(age) / float64(h.lives[k])
	if lives > gone {
		return 0
	}
	return math.Exp2(-lives)
}

// stamp caches 2^(time/half-life) as a fraction in [1,2) and an exponent: weights between stamps need no exponential.
type stamp struct {
	up    perHorizon
	down  perHorizon // 1/up
	whole [horizons]int64
}

func (h *halves) stampOf(time int64) (s stamp) {
	for k, life := range h.lives {
		rest := (time%life + life) % life
		s.up[k], s.whole[k] = math.Exp2(float64(rest)/float64(life)), (time-rest)/life
		s.down[k] = 1 / s.up[k]
	}
	s.up[len(h.lives)], s.down[len(h.lives)] = 1, 1
	return s
}

func (h *halves) stampOfBlock(b inflight.Bucket) stamp { return h.stampOf(b.Middle()) }

// since returns the weight at half-life k of an earlier stamp as of this one.
func (s *stamp) since(earlier *stamp, k int) float64 {
	apart := s.whole[k] - earlier.whole[k]
	if apart > gone {
		return 0
	}
	return earlier.up[k] * s.down[k] * math.Float64frombits(uint64(1023-apart)<<52)
}

// longest returns the longest of some nested pasts, shortest first, whose mean no shorter one contradicts: Lepski's rule (O.
// Lepski, Theory of Probability and its Applications, 1991). Means of fewer than least payoffs contradict nothing.
func longest(mean, worth []float64, least, deviations, sigma float64) int {
	for next := 1; next < len(mean); next++ {
		if anyContradicts(mean[:next], worth[:next], mean[next], least, deviations, sigma) {
			return next - 1
		}
	}
	return len(mean) - 1
}

// anyContradicts returns whether one of some means, of least payoffs or more, contradicts another.
func anyContradicts(mean, worth []float64, other, least, deviations, sigma float64) bool {
	for k := range mean {
		if worth[k] >= least && contradicts(mean[k], worth[k], other, deviations, sigma) {
			return true
		}
	}
	return false
}

// contradicts returns whether a mean of n payoffs differs from another by more than so many σ/√n, plus a margin that makes a single
// payoff, however large, no contradiction.
func contradicts(mean, n, other, deviations, sigma float64) bool {
	single := max(0, 1-deviations*sigma)
	return math.Abs(other-mean) > deviations*sigma/math.Sqrt(n)+single/n
}
