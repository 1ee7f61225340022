package recency

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// ErrHalfLives says that half-lives make no sense.
var ErrHalfLives = errors.New("lately: half-lives are faulty")

const (
	// MostHalfLives bounds their number, without the one that is added.
	MostHalfLives = 8
	horizons      = MostHalfLives + 1
	// gone is the number of half-lives after which nothing counts.
	gone = 50
	// contradiction is how many deviations the means of two pasts must differ by, one within the other.
	contradiction = 3
	// tailContradiction is the same for tails, which are many, and looked at again and again.
	tailContradiction = 4
)

// DefaultHalfLives are what is used unless configured.
func DefaultHalfLives() []time.Duration {
	return []time.Duration{time.Second, 8 * time.Second, time.Minute, 8 * time.Minute, time.Hour, 9 * time.Hour}
}

// perHorizon is a number for each horizon, the shortest first.
type perHorizon = [horizons]float64

// halves are the horizons of a past in which what is a half-life older counts half: half-lives ascending, and last for ever.
type halves struct {
	lives []int64 // ms
}

// newHalves checks half-lives: 1 to MostHalfLives of them, the first at least a second and each at least twice the one before.
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

// count is the number of horizons.
func (h *halves) count() int { return len(h.lives) + 1 }

// weight is what counts at horizon k of what is so old, in milliseconds; what is younger than 0 counts as of 0.
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

// stamp is a time as weights need it: for each half-life 2^(time/half-life), as a fraction within [1,2) and a power of two. It
// costs an exponential for each, and the weight of one stamp as of another none.
type stamp struct {
	up    perHorizon
	down  perHorizon // 1/up
	whole [horizons]int64
}

// stampOf is that of a time in milliseconds.
func (h *halves) stampOf(time int64) (s stamp) {
	for k, life := range h.lives {
		rest := (time%life + life) % life
		s.up[k], s.whole[k] = math.Exp2(float64(rest)/float64(life)), (time-rest)/life
		s.down[k] = 1 / s.up[k]
	}
	s.up[len(h.lives)], s.down[len(h.lives)] = 1, 1
	return s
}

// stampOfBlock is that of a block's middle.
func (h *halves) stampOfBlock(b inflight.Bucket) stamp { return h.stampOf(b.Middle()) }

// since is what counts at horizon k of what is of an earlier stamp.
func (s *stamp) since(earlier *stamp, k int) float64 {
	apart := s.whole[k] - earlier.whole[k]
	if apart > gone {
		return 0
	}
	return earlier.up[k] * s.down[k] * math.Float64frombits(uint64(1023-apart)<<52)
}

// longest is the longest of some nested pasts, given shortest first, whose mean no shorter one contradicts: O. Lepski's rule
// (Theory of Probability and its Applications, 1991). Means that are worth less than least payoffs contradict nothing.
func longest(mean, worth []float64, least, deviations, sigma float64) int {
	for next := 1; next < len(mean); next++ {
		for k := range next {
			if worth[k] >= least && contradicts(mean[k], worth[k], mean[next], deviations, sigma) {
				return next - 1
			}
		}
	}
	return len(mean) - 1
}

// contradicts tells whether a mean that is worth n payoffs contradicts another: where they differ by so many σ/√n, and by one
// payoff range where n is 1. A single payoff, however large, is no contradiction.
func contradicts(mean, n, other, deviations, sigma float64) bool {
	single := max(0, 1-deviations*sigma)
	return math.Abs(other-mean) > deviations*sigma/math.Sqrt(n)+single/n
}
