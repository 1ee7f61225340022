package admissible

import (
	"fmt"
	"math"
)

// entry is an entry above zero of one column of a selection matrix.
type entry struct {
	item int32   // position in increasing utility, from 0
	p    float64 // the probability that it is selected
}

// matrix is a selection matrix (section 4.2): for each window the distribution of the item that is selected. Element
// w−1 holds the entries of window w that are not zero, in increasing item.
type matrix [][]entry

// nonZeros is z, the number of entries that are not zero.
func (m matrix) nonZeros() int {
	z := 0
	for _, column := range m {
		z += len(column)
	}
	return z
}

// apply writes Pq to dst: the probability with which each item is selected. Both are as long as the matrix.
func (m matrix) apply(q, dst []float64) []float64 {
	clear(dst)
	for w, column := range m {
		for _, c := range column {
			dst[c.item] += float64(c.p * q[w])
		}
	}
	return dst
}

// check returns nil when the matrix is in 𝒫, and else an error that names the constraint of the paper that it breaks.
// No sum may be off by more than tolerance.
func (m matrix) check(tolerance float64) error {
	for w, column := range m {
		var sum float64
		for k, c := range column {
			if !(c.p > 0 && c.p <= 1+tolerance) {
				return fmt.Errorf("C.1: window %d, item %d: %v is not in (0,1]", w+1, c.item+1, c.p)
			}
			if int(c.item) < w || int(c.item) >= len(m) || k > 0 && c.item <= column[k-1].item {
				return fmt.Errorf("C.3: window %d of %d lists item %d", w+1, len(m), c.item+1)
			}
			sum += c.p
		}
		if !(math.Abs(sum-1) <= tolerance) {
			return fmt.Errorf("C.2: window %d sums to %v", w+1, sum)
		}
		if w == 0 {
			continue
		}
		// C.4 holds for any two windows when it holds for neighbours. Below the item, the shorter window has the more.
		before, k := m[w-1], 0
		var short, long float64
		for _, c := range column {
			for k < len(before) && before[k].item <= c.item {
				short += before[k].p
				k++
			}
			long += c.p
			if !(long <= short+tolerance) {
				return fmt.Errorf("C.4: up to item %d, window %d has %v and window %d has %v", c.item+1, w, short, w+1, long)
			}
		}
	}
	return nil
}

// coupling finds a P ∈ 𝒫 with p = Pq (the paper's Algorithm 5, line 5), for a p in C and its folded windows q. It is the comonotone
// coupling, built by the north-west corner rule from the top, with at most 2n−1 entries. Windows of probability zero get one entry
// each.
func coupling(p, q []float64) matrix {
	n := len(p)
	m := make(matrix, n)
	i := n - 1
	left := p[i] // of item i
	for w := n - 1; w >= 0; w-- {
		if q[w] <= 0 {
			for i > w && left <= 0 {
				i--
				left = p[i]
			}
			m[w] = []entry{{int32(max(i, w)), 1}}
			continue
		}
		var column []entry // in decreasing item, mass as yet
		for open := q[w]; ; {
			if i > w && left <= 0 {
				i--
				left = p[i]
				continue
			}
			// Only item w is left for this window: it takes the rest that rounding lost.
			if i <= w || left >= open {
				column = append(column, entry{int32(max(i, w)), open})
				left -= open
				break
			}
			column = append(column, entry{int32(i), left})
			open -= left
			left = 0
		}
		m[w] = upright(column)
	}
	return m
}

// upright turns a column of masses in decreasing item into one of probabilities in increasing item.
func upright(column []entry) []entry {
	var sum float64
	for _, c := range column {
		sum += c.p
	}
	for a, b := 0, len(column)-1; a < b; a, b = a+1, b-1 {
		column[a], column[b] = column[b], column[a]
	}
	kept := column[:0]
	for _, c := range column {
		if c.p /= sum; c.p > 0 { // a mass far below the others can vanish
			kept = append(kept, c)
		}
	}
	return kept
}
