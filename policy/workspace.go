package policy

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// Workspace is the memory that sorting and ranking work in. Its owner passes it to one call at a time, and keeps it:
// it grows to the longest candidate list seen and is then never allocated again. The zero value is ready. Policies keep
// no memory of their own, so that one policy can serve any number of learners at once.
type Workspace struct {
	entries, spare []entry   // SortByUtility
	arms           []arm     // elimination: by position
	heap           []heapArm // elimination: the longer way
	leaders        []int32   // by position a: the leader of the suffix from a on

	mass    []float64 // ε-greedy: by position, its propensity
	solver  admissible.Solver
	sampler admissible.Sampler
}

// sized gives s the length n; its elements are whatever they were.
func sized[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return slices.Grow(s[:0], n)[:n]
}

// place writes one leader and the items that it blocks, those from position first up to the leader's own, to dst, and
// returns what is left of dst. No user can select a blocked item, so any order of them is the same to users; they stand
// in decreasing utility, so that a list that is shown in part looks sensible.
func place(dst []int32, first, leader int32) []int32 {
	for k := range dst[:leader-first+1] {
		dst[k] = leader - int32(k)
	}
	return dst[leader-first+1:]
}

// follow builds a ranking from the leaders of all suffixes.
func follow(leaders, dst []int32) {
	for first := int32(0); len(dst) > 0; {
		leader := leaders[first]
		dst = place(dst, first, leader)
		first = leader + 1
	}
}
