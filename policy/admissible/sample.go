package admissible

import "math"

// Sampler draws rankings. The zero value is ready; it grows to the longest list seen and then allocates no more. Its
// owner uses it for one call at a time, and no result depends on what it was used for before.
type Sampler struct {
	selections []int32
	blocked    []int32 // a heap: positions below the leader that are not placed yet, the one of most worth first
}

// Sample writes to dst the ranking that belongs to the number u, in [0,1): positions in increasing utility, in the order
// in which they are shown. For a uniform u, and a window drawn from the folded distribution q, the candidate at position
// i is selected with probability p_i; p must be in C, and all three slices are equally long. It takes O(n).
//
// It stands for the paper's way, a matrix P with p = Pq, its decomposition into permutations (RFSM) and a draw of one.
// One number decides for all windows at once: window w is put on the point x_w = Σ_{v>w} q_v + u·q_w of [0,1], on which
// the items lie side by side, the highest first, each as long as its probability, and selects the item it falls on:
//
//	i_w = max(w, max{k : T_k > x_w}),  T_k = p_k + … + p_n for k > 1, and T_1 = ∞.
//
// Averaged over u, that is the comonotone coupling of p and q; for each u the selections grow with w, so
// that a permutation has them (Integral-Permutation). For a p in C, T_w ≥ Σ_{v≥w} q_v > x_w: the outer maximum only
// makes good what rounding takes. The probabilities served are p up to rounding, some 1e-16 each; a u of 53 random bits
// resolves the windows of probability q_w to 2⁻⁵³·q_w.
func (s *Sampler) Sample(p, q []float64, u float64, dst []int32) {
	s.draw(p, q, u)
	place(s.selections, dst)
}

// SampleByWorth writes the ranking that Sample writes, but for the items that no window selects: where one is needed, the one of
// most worth is placed of all that the leader blocks, of equal ones the one of highest utility. worth is by position, without NaN. It
// takes O(n log n).
func (s *Sampler) SampleByWorth(p, q, worth []float64, u float64, dst []int32) {
	s.draw(p, q, u)
	s.blocked = s.blocked[:0]
	last := int32(-1) // selected by the window before
	for w, item := range s.selections {
		if item == last {
			dst[w] = s.pop(worth)
			continue
		}
		for i := last + 1; i < item; i++ {
			s.push(worth, i)
		}
		dst[w], last = item, item
	}
}

// draw finds the item that each window selects.
func (s *Sampler) draw(p, q []float64, u float64) {
	if cap(s.selections) < len(p) {
		s.selections = make([]int32, len(p), 2*len(p))
		s.blocked = make([]int32, 0, 2*len(p))
	}
	s.selections = s.selections[:len(p)]
	selections(p, q, u, s.selections)
}

// before tells whether position a is placed before b, where both are blocked.
func before(worth []float64, a, b int32) bool {
	return worth[a] > worth[b] || worth[a] == worth[b] && a > b
}

// push adds a position to the heap.
func (s *Sampler) push(worth []float64, i int32) {
	s.blocked = append(s.blocked, i)
	at := len(s.blocked) - 1
	for at > 0 && before(worth, i, s.blocked[(at-1)/2]) {
		s.blocked[at] = s.blocked[(at-1)/2]
		at = (at - 1) / 2
	}
	s.blocked[at] = i
}

// pop takes the first position out of the heap, which is not empty.
func (s *Sampler) pop(worth []float64) int32 {
	h := s.blocked
	first, i := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	s.blocked = h
	at := 0
	for child := 1; child < len(h); child = 2*at + 1 {
		if child+1 < len(h) && before(worth, h[child+1], h[child]) {
			child++
		}
		if !before(worth, h[child], i) {
			break
		}
		h[at] = h[child]
		at = child
	}
	if len(h) > 0 {
		h[at] = i
	}
	return first
}

// selections writes to dst the item that each window selects for the number u.
func selections(p, q []float64, u float64, dst []int32) {
	n := len(p)
	q, dst = q[:n], dst[:n]
	i := n - 1
	reach := p[i]    // T_i
	var tail float64 // Σ_{v>w} q_v
	for w := n - 1; w >= 0; w-- {
		x, end := tail+float64(u*q[w]), tail+q[w]
		if x >= end && end > 0 { // by rounding: the next window's piece begins there, and may be the first item's that has any mass
			x = math.Nextafter(end, 0)
		}
		for i > 0 && reach <= x {
			i--
			reach += p[i]
		}
		dst[w] = int32(max(i, w))
		tail = end
	}
}

// place is the paper's Algorithm 4, Integral-Permutation: it writes to dst the ranking under which window w selects item
// selections[w−1], for every w. Such a ranking exists when the selections do not fall as w grows, and none is below its
// window or beyond the list, which is the caller's part. Where a window selects what the one before it did, the item of
// lowest utility that is not yet placed goes there. It takes O(n): the items that the windows select are placed in
// increasing order, and so are those that fill the gaps, so that two pointers find the lowest that is not yet placed.
func place(selections, dst []int32) {
	dst = dst[:len(selections)]
	last := int32(-1) // selected by the window before
	lowest := int32(0)
	leader := 0 // a window whose selection is lowest or above; windows before it select below
	for w, item := range selections {
		if item != last {
			dst[w] = item
			last = item
			continue
		}
		for selections[leader] <= lowest { // ends before w+1: lowest is below the item, or all is placed
			if selections[leader] == lowest {
				lowest++
			}
			leader++
		}
		dst[w] = lowest
		lowest++
	}
}
