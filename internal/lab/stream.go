package lab

import (
	"math/bits"
	"math/rand/v2"

	"github.com/ranker-worker/ranker-worker/policy"
)

// purpose is what random numbers are for. Each has a stream of its own in each run, so that what is drawn for one never
// depends on how much was drawn for another: whatever a policy does, the users are the same.
type purpose int32

const (
	forWindows    purpose = iota // the users' windows
	forPayoffs                   // one number for each impression: the luck of whatever is selected
	forCandidates                // candidates and their utilities
	forDelays                    // how late payoffs come
	forDecisions                 // the keys of decisions
	forItems                     // the items' means
	forLabels                    // the numbers under which a learner sees items that is not given utilities
	forTastes                    // what users who learn from each other make of what they know
	forParts                     // how large payments in parts are, and how late
	forNoise                     // which users select at random, and what
	forOwnTastes                 // how users' tastes differ from the mean
)

// stream is a source of random numbers that is read in order: number k is a function of seed, run, purpose and k.
type stream struct {
	key  policy.Key
	next uint64
}

func newStream(seed uint64, run int, p purpose) *stream {
	return &stream{key: policy.DecisionKey(seed, uint64(run), "laboratory", int32(p), 0)}
}

// Uint64 implements rand.Source.
func (s *stream) Uint64() uint64 {
	s.next++
	return s.key.Uint64(s.next - 1)
}

// normal draws standard normal variables.
func normal(s *stream) func() float64 { return rand.New(s).NormFloat64 }

// float64 is uniform on [0,1).
func (s *stream) float64() float64 {
	s.next++
	return s.key.Float64(s.next - 1)
}

// below is uniform on 0..n-1, but for a bias of at most n/2⁶⁴.
func (s *stream) below(n int) int {
	high, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(high)
}

// shuffled is 0..n-1 in random order.
func shuffled(n int, draws *stream) []policy.Item {
	order := make([]policy.Item, n)
	for i := range order {
		order[i] = policy.Item(i)
	}
	for k := n - 1; k > 0; k-- {
		j := draws.below(k + 1)
		order[k], order[j] = order[j], order[k]
	}
	return order
}
