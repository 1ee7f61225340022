package lab

import (
	"math/bits"
	"math/rand/v2"

	"github.com/ranker-worker/ranker-worker/policy"
)

// purpose is a use of random numbers. Each has a stream of its own in each run, so that users are the same for all policies.
type purpose int32

const (
	forWindows    purpose = iota // users' windows
	forPayoffs                   // one number per impression: the luck of any selection
	forCandidates                // candidates and their utilities
	forDelays                    // payoffs' delays
	forDecisions                 // keys of decisions
	forItems                     // items' means
	forLabels                    // items' numbers for a learner that is not given utilities
	forTastes                    // perceived utilities of users who learn from each other
	forParts                     // sizes and delays of several payments
	forNoise                     // users who select at random, and their selections
	forOwnTastes                 // deviations of users' tastes
)

// stream is a sequence of random numbers: number k is a function of seed, run, purpose and k.
type stream struct {
	key  policy.Key
	next uint64
}

func newStream(seed uint64, run int, p purpose) *stream {
	return &stream{key: policy.DecisionKey(seed, uint64(run), "laboratory", int32(p), 0)}
}

func (s *stream) Uint64() uint64 {
	s.next++
	return s.key.Uint64(s.next - 1)
}

func normalOf(s *stream) func() float64 { return rand.New(s).NormFloat64 }

func (s *stream) float64() float64 {
	s.next++
	return s.key.Float64(s.next - 1)
}

// below is uniform on 0..n-1, up to a bias of n/2⁶⁴.
func (s *stream) below(n int) int {
	high, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(high)
}

func shuffled(n int, draws *stream) []policy.Item {
	order := make([]policy.Item, n)
	for i := range order {
		order[i] = policy.Item(i)
	}
	shuffle(order, draws)
	return order
}

func shuffle(items []policy.Item, draws *stream) {
	for k := len(items) - 1; k > 0; k-- {
		j := draws.below(k + 1)
		items[k], items[j] = items[j], items[k]
	}
}
