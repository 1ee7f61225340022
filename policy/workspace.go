package policy

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// Workspace is the memory for sorting and ranking. Its owner passes it to one call at a time. It grows to the longest candidate list
// and then never allocates. The zero value is ready. Policies have no memory of their own, so that one serves any number of learners.
type Workspace struct {
	entries, spare []entry   // SortByUtility
	arms           []arm     // elimination: by position
	heap           []heapArm // elimination: the heap
	leaders        []int32   // by position a: the leader of the suffix from a on
	means          []float64 // by position, for the order of blocked items
	ranks          []int32   // by blocked position
	common         common    // Index

	mass    []float64 // ε-greedy: by position, its propensity
	solver  admissible.Solver
	sampler admissible.Sampler
}

func sized[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return slices.Grow(s[:0], n)[:n]
}

// place writes one leader and its blocked items, those from position first up to the leader's, to dst, and returns the rest of dst.
// Blocked items are in decreasing utility; the paper leaves their order open.
func place(dst []int32, first, leader int32) []int32 {
	for k := range dst[:leader-first+1] {
		dst[k] = leader - int32(k)
	}
	return dst[leader-first+1:]
}

func follow(leaders []int32, first int32, dst []int32) {
	for len(dst) > 0 {
		leader := leaders[first]
		dst = place(dst, first, leader)
		first = leader + 1
	}
}

// byMean builds a ranking from ws.leaders and ws.means.
//
// Each leader's blocked items are in falling mean. The model's users select none of them, so their order is free; users with other
// tastes, or who select any item in their window, do.
func (ws *Workspace) byMean(dst []int32) {
	for first := int32(0); len(dst) > 0; {
		leader := ws.leaders[first]
		dst[0] = leader
		ws.block(dst[1:leader-first+1], first)
		dst = dst[leader-first+1:]
		first = leader + 1
	}
}

// block fills dst with the positions from first on in falling mean, ties by higher utility.
func (ws *Workspace) block(dst []int32, first int32) {
	if len(dst) < radixFrom {
		ws.countRanks(ws.means[first:][:len(dst)])
		for k, rank := range ws.ranks {
			dst[rank] = first + int32(k)
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

// countRanks sets ws.ranks to the means' ranks: 0 for the largest, ties by higher position. It compares all pairs. No branch depends on the
// means: those of a sort are mispredicted, which costs more than the pairs (BenchmarkWorkspace_Block).
func (ws *Workspace) countRanks(means []float64) {
	ws.ranks = sized(ws.ranks, len(means))
	for k, mean := range means {
		before := ws.ranks[:k]
		behind := int32(0) // lower positions that rank behind k
		for j, other := range means[:k] {
			var is int32
			if other <= mean {
				is = 1
			}
			before[j] += is
			behind += is
		}
		ws.ranks[k] = int32(k) - behind
	}
}
