package admissible

import "math"

// Sampler draws rankings. The zero value is ready. It grows to the longest list and then never allocates; no result depends on
// earlier calls. It serves one call at a time.
//
// It draws from a coupling that also proves the package's form of C. Necessary: by C.3 only windows 1..k select items 1..k.
// Sufficient: with T_k = p_k + … + p_n, let F_k(w) = clamp((T_k − Σ_{v>w} q_v) / q_w, 0, 1) be the probability that window w
// selects one of k..n. It satisfies C.1, C.2 and C.4, is 1 for k = w (C.3) since T_w ≥ Σ_{v≥w} q_v, and Σ_w q_w·F_k(w) telescopes
// to T_k. This is the comonotone coupling of p and q.
type Sampler struct {
	selections []int32
	blocked    []int32 // a heap of unplaced positions below the leader, the largest worth on top
}

// Sample writes to dst the ranking of a number u in [0,1), as positions in the order shown. For uniform u and a window drawn from
// the folded distribution q, the candidate at position i is selected with probability p_i. p must be in C, and the slices equally
// long. It takes O(n).
//
// It replaces the paper's decomposition of P with p = Pq into permutations (RFSM). One number decides for all windows. On [0,1] the
// items lie side by side, the highest first, each as long as its probability. Window w lies at x_w = Σ_{v>w} q_v + u·q_w, and
// selects the item there:
//
//	i_w = max(w, max{k : T_k > x_w}),  T_k = p_k + … + p_n for k > 1, and T_1 = ∞.
//
// Averaged over u this is the comonotone coupling of p and q. For each u selections grow with w, so that a permutation has them
// (Integral-Permutation). T_w ≥ Σ_{v≥w} q_v > x_w in C, so the outer maximum only corrects rounding. Probabilities are p up to
// about 1e-16; 53 bits of u resolve a window's probability q_w to 2⁻⁵³·q_w.
func (s *Sampler) Sample(p, q []float64, u float64, dst []int32) {
	s.draw(p, q, u)
	place(s.selections, dst)
}

// SampleByWorth writes Sample's ranking, except that items which no window selects are placed by falling worth among those that the
// leader blocks, ties by higher utility. worth is by position, without NaN. It takes O(n log n).
func (s *Sampler) SampleByWorth(p, q, worth []float64, u float64, dst []int32) {
	s.draw(p, q, u)
	s.blocked = s.blocked[:0]
	last := int32(-1) // by the previous window
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

func (s *Sampler) draw(p, q []float64, u float64) {
	if cap(s.selections) < len(p) {
		s.selections = make([]int32, len(p), 2*len(p))
		s.blocked = make([]int32, 0, 2*len(p))
	}
	s.selections = s.selections[:len(p)]
	selections(p, q, u, s.selections)
}

func before(worth []float64, a, b int32) bool {
	return worth[a] > worth[b] || worth[a] == worth[b] && a > b
}

func (s *Sampler) push(worth []float64, i int32) {
	s.blocked = append(s.blocked, i)
	at := len(s.blocked) - 1
	for at > 0 && before(worth, i, s.blocked[(at-1)/2]) {
		s.blocked[at] = s.blocked[(at-1)/2]
		at = (at - 1) / 2
	}
	s.blocked[at] = i
}

// pop removes the first position from the heap, which must not be empty.
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

// selections writes to dst each window's selected item for u.
func selections(p, q []float64, u float64, dst []int32) {
	n := len(p)
	q, dst = q[:n], dst[:n]
	i := n - 1
	reach := p[i]    // T_i
	var tail float64 // Σ_{v>w} q_v
	for w := n - 1; w >= 0; w-- {
		x, end := tail+float64(u*q[w]), tail+q[w]
		if x >= end && end > 0 { // rounded up to the end: the next piece begins there, and may belong to the first item with mass
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

// place is the paper's Algorithm 4, Integral-Permutation: it writes the ranking in which window w selects selections[w−1]. Selections
// must not fall as w grows, nor be below w or beyond the list. Where a window selects the same as the previous one, the lowest unplaced
// item goes there. It takes O(n): selected items and those that fill gaps are both placed in increasing order, so two pointers suffice.
func place(selections, dst []int32) {
	dst = dst[:len(selections)]
	last := int32(-1) // by the previous window
	lowest := int32(0)
	leader := 0 // a window whose selection is at least lowest; all windows before it select less
	for w, item := range selections {
		if item != last {
			dst[w] = item
			last = item
			continue
		}
		for selections[leader] <= lowest { // ends before w+1: lowest is below the item, or all are placed
			if selections[leader] == lowest {
				lowest++
			}
			leader++
		}
		dst[w] = lowest
		lowest++
	}
}
