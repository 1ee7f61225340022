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
	means          []float64 // by position: blocked items are ordered by it

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
// returns the rest of dst. The blocked items stand in decreasing utility. The paper leaves their order open, since none of its
// users selects a blocked item.
func place(dst []int32, first, leader int32) []int32 {
	for k := range dst[:leader-first+1] {
		dst[k] = leader - int32(k)
	}
	return dst[leader-first+1:]
}

// follow builds the paper's ranking of the positions from first on from the leaders of all suffixes.
func follow(leaders []int32, first int32, dst []int32) {
	for len(dst) > 0 {
		leader := leaders[first]
		dst = place(dst, first, leader)
		first = leader + 1
	}
}

// byMean builds a ranking from the leaders of all suffixes and the means of all items: ws.leaders and ws.means.
//
// The blocked items of each leader stand in falling mean. None of the model's users selects one, so their order is free. Users
// whose tastes differ from the utilities, or who select anything in their window, do select them, and then the mean is their worth.
func (ws *Workspace) byMean(dst []int32) {
	for first := int32(0); len(dst) > 0; {
		leader := ws.leaders[first]
		dst[0] = leader
		ws.block(dst[1:leader-first+1], first)
		dst = dst[leader-first+1:]
		first = leader + 1
	}
}

// block fills dst with the positions from first on in falling mean, of equal means the one of higher utility first.
func (ws *Workspace) block(dst []int32, first int32) {
	if len(dst) < radixFrom {
		for k := range dst {
			at, mean := k, ws.means[first+int32(k)]
			for ; at > 0 && ws.means[dst[at-1]] <= mean; at-- {
				dst[at] = dst[at-1]
			}
			dst[at] = first + int32(k)
		}
		return
	}
	ws.entries, ws.spare = sized(ws.entries, len(dst)), sized(ws.spare, len(dst))
	for k := range dst {
		i := first + int32(len(dst)-1-k)
		ws.entries[k] = entry{^orderedBits(ws.means[i]), i}
	}
	radixSort(ws.entries, ws.spare)
	for k, e := range ws.entries {
		dst[k] = e.position
	}
}
