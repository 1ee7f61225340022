package preference

import (
	"math/bits"

	"github.com/ranker-worker/ranker-worker/policy"
)

// relation is a transitively closed strict partial order of items 0..n-1: the known order of utilities, in n² bits.
type relation struct {
	rows    []uint64 // stride words per item: bits of the items below it
	stride  int
	below   []int32 // by item: number of items below it
	above   []int32 // by item: number of items above it
	decided int64   // pairs
}

func (r *relation) Len() int { return len(r.below) }

// Grow makes room for items 0..items-1. It never shrinks.
func (r *relation) Grow(items int) {
	n := len(r.below)
	if items <= n {
		return
	}
	if words := (items + 63) / 64; words > r.stride {
		// A row that is too short is moved; a quarter more keeps moves few without doubling memory.
		stride := words
		if r.stride > 0 {
			stride = max(words, r.stride+r.stride/4)
		}
		rows := make([]uint64, items*stride)
		for i := range n {
			copy(rows[i*stride:], r.row(policy.Item(i)))
		}
		r.rows, r.stride = rows, stride
	}
	r.rows = policy.Extend(r.rows, items*r.stride-len(r.rows))
	r.below = policy.Extend(r.below, items-n)
	r.above = policy.Extend(r.above, items-n)
}

func (r *relation) row(i policy.Item) []uint64 {
	return r.rows[int(i)*r.stride : (int(i)+1)*r.stride]
}

// Above returns whether a is known to have the higher utility.
func (r *relation) Above(a, b policy.Item) bool {
	return r.rows[int(a)*r.stride+int(b)/64]>>(uint(b)%64)&1 != 0
}

// Decided returns whether the order of two different items is known.
func (r *relation) Decided(a, b policy.Item) bool { return r.Above(a, b) || r.Above(b, a) }

// Position estimates an item's place among all, in (0,1): (b+1)/(a+b+2) with b items known to be below and a above, its mean place
// if these were all. It rises along the relation, so that sorting by it extends the relation.
func (r *relation) Position(i policy.Item) float64 {
	below, above := float64(r.below[i]), float64(r.above[i])
	return (below + 1) / (below + above + 2)
}

// Add notes that better is above worse, and all that follows. It returns false without a change if the opposite is known or the
// items are equal. It takes O(n²/64).
func (r *relation) Add(better, worse policy.Item) bool {
	if better == worse || r.Above(worse, better) {
		return false
	}
	if r.Above(better, worse) {
		return true
	}
	down := r.row(worse)
	r.lower(better, worse, down)
	// Items above better get the same; better's own row is needed to find them, so it goes first.
	word, bit := int(better)/64, uint(better)%64
	for u, left := 0, r.above[better]; left > 0; u++ {
		if r.rows[u*r.stride+word]>>bit&1 != 0 {
			left--
			r.lower(policy.Item(u), worse, down)
		}
	}
	return true
}

// lower puts worse, and everything below it, below i.
func (r *relation) lower(i, worse policy.Item, down []uint64) {
	row := r.row(i)
	for w, d := range down {
		if int(worse)/64 == w {
			d |= 1 << (uint(worse) % 64)
		}
		fresh := d &^ row[w]
		if fresh == 0 {
			continue
		}
		row[w] |= fresh
		count := bits.OnesCount64(fresh)
		r.below[i] += int32(count)
		r.decided += int64(count)
		for ; fresh != 0; fresh &= fresh - 1 {
			r.above[w*64+bits.TrailingZeros64(fresh)]++
		}
	}
}

func (r *relation) clear() {
	clear(r.rows)
	clear(r.below)
	clear(r.above)
	r.decided = 0
}
