package admissible

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotAdmissible is wrapped by the errors that say why probabilities are not in C, or a matrix is not in 𝒫.
var ErrNotAdmissible = errors.New("not admissible")

// Contains returns nil when p is in the set C of admissible selection probabilities for the folded window distribution
// q, which is as long, and else an error that wraps ErrNotAdmissible. No sum may be off by more than tolerance.
//
// The paper defines C = {Pq : P ∈ 𝒫} by the constraints C.1–C.4 on matrices. It has a closed form:
//
//	C = { p ∈ Δ_n : p_1 + … + p_k ≤ q_1 + … + q_k for every k < n },
//
// that is, p stochastically dominates q. Necessary: by C.3, a window of k+1 or more never selects one of the items
// 1..k, so they share at most the probability of the windows 1..k. Sufficient: let T_k = p_k + … + p_n, and let
//
//	F_k(w) = clamp((T_k − Σ_{v>w} q_v) / q_w, 0, 1)
//
// be the probability that window w selects one of the items k..n. It falls with k, is one for k = 1 and grows with w,
// which are C.1, C.2 and C.4; it is one for k = w, which is C.3, exactly when T_w ≥ Σ_{v≥w} q_v; and Σ_w q_w·F_k(w)
// telescopes to T_k, so that P_{k,w} = F_k(w) − F_{k+1}(w) has Pq = p. This P is the comonotone coupling of p and q.
func Contains(p, q []float64, tolerance float64) error {
	if len(p) != len(q) || len(p) == 0 {
		return fmt.Errorf("%w: %d probabilities for %d windows", ErrNotAdmissible, len(p), len(q))
	}
	var sum, cap float64
	for k, v := range p {
		if !(v >= 0) {
			return fmt.Errorf("%w: probability %d is %v", ErrNotAdmissible, k+1, v)
		}
		sum += v
		cap += q[k]
		if k < len(p)-1 && !(sum <= cap+tolerance) {
			return fmt.Errorf("%w: the first %d probabilities sum to %v, the windows to %v", ErrNotAdmissible, k+1, sum, cap)
		}
	}
	if !(math.Abs(sum-1) <= tolerance) {
		return fmt.Errorf("%w: the probabilities sum to %v", ErrNotAdmissible, sum)
	}
	return nil
}

// uniformSlack is what counts as equality.
const uniformSlack = 1e-12

// UniformAdmissible tells whether some distribution over rankings has every candidate selected with the same
// probability (section 4.1): G_k ≥ k/n for every k < n. Lazy windows, q_1 ≥ q_2 ≥ …, have it, yet folding their tail
// onto a short list can lose it, so it is a matter of the list's length. Equality up to rounding counts.
func UniformAdmissible(q []float64) bool {
	n := float64(len(q))
	var sum float64
	for k, v := range q[:len(q)-1] {
		sum += v
		if !(float64(sum*n) >= float64(k+1)*(1-uniformSlack)) {
			return false
		}
	}
	return true
}

// Best is the largest value ⟨values,p⟩ of any p in C, which is also that of the best single ranking in hindsight:
// Σ_w q_w · max_{i≥w} values_i. The ranking is a best one in hindsight (Lemma 3.3).
func Best(values, q []float64) float64 {
	best, sum := math.Inf(-1), 0.0
	for k := len(values) - 1; k >= 0; k-- {
		best = max(best, values[k])
		sum += float64(q[k] * best)
	}
	return sum
}

// Cell is an entry above zero of one column of a selection matrix.
type Cell struct {
	Item int32   // position in increasing utility, from 0
	P    float64 // the probability that it is selected
}

// Matrix is a selection matrix (section 4.2): for each window the distribution of the item that is selected. Element
// w−1 holds the entries of window w that are not zero, in increasing item.
type Matrix [][]Cell

// NonZeros is z, the number of entries that are not zero.
func (m Matrix) NonZeros() int {
	z := 0
	for _, column := range m {
		z += len(column)
	}
	return z
}

// Apply writes Pq to dst: the probability with which each item is selected. Both are as long as the matrix.
func (m Matrix) Apply(q, dst []float64) []float64 {
	clear(dst)
	for w, column := range m {
		for _, c := range column {
			dst[c.Item] += float64(c.P * q[w])
		}
	}
	return dst
}

// Check returns nil when the matrix is in 𝒫, and else an error that wraps ErrNotAdmissible and names the constraint of
// the paper that it breaks. No sum may be off by more than tolerance.
func (m Matrix) Check(tolerance float64) error {
	for w, column := range m {
		var sum float64
		for k, c := range column {
			if !(c.P > 0 && c.P <= 1+tolerance) {
				return fmt.Errorf("%w: C.1: window %d, item %d: %v is not in (0,1]", ErrNotAdmissible, w+1, c.Item+1, c.P)
			}
			if int(c.Item) < w || int(c.Item) >= len(m) || k > 0 && c.Item <= column[k-1].Item {
				return fmt.Errorf("%w: C.3: window %d of %d lists item %d", ErrNotAdmissible, w+1, len(m), c.Item+1)
			}
			sum += c.P
		}
		if !(math.Abs(sum-1) <= tolerance) {
			return fmt.Errorf("%w: C.2: window %d sums to %v", ErrNotAdmissible, w+1, sum)
		}
		if w == 0 {
			continue
		}
		// C.4 holds for any two windows when it holds for neighbours. Below the item, the shorter window has the more.
		before, k := m[w-1], 0
		var short, long float64
		for _, c := range column {
			for k < len(before) && before[k].Item <= c.Item {
				short += before[k].P
				k++
			}
			long += c.P
			if !(long <= short+tolerance) {
				return fmt.Errorf("%w: C.4: up to item %d, window %d has %v and window %d has %v",
					ErrNotAdmissible, c.Item+1, w, short, w+1, long)
			}
		}
	}
	return nil
}

// Coupling finds a P ∈ 𝒫 with p = Pq (the paper's Algorithm 5, line 5), for a p in C and its folded windows q: the
// comonotone coupling, built by the north-west corner rule from the top, with at most 2n−1 entries. Windows of
// probability zero get one entry each.
func Coupling(p, q []float64) Matrix {
	n := len(p)
	m := make(Matrix, n)
	i := n - 1
	left := p[i] // of item i
	for w := n - 1; w >= 0; w-- {
		if q[w] <= 0 {
			for i > w && left <= 0 {
				i--
				left = p[i]
			}
			m[w] = []Cell{{Item: int32(max(i, w)), P: 1}}
			continue
		}
		var column []Cell // in decreasing item, mass as yet
		for open := q[w]; ; {
			if i > w && left <= 0 {
				i--
				left = p[i]
				continue
			}
			// Only item w is left for this window: what rounding took from it is made up for here.
			if i <= w || left >= open {
				column = append(column, Cell{Item: int32(max(i, w)), P: open})
				left -= open
				break
			}
			column = append(column, Cell{Item: int32(i), P: left})
			open -= left
			left = 0
		}
		m[w] = upright(column)
	}
	return m
}

// upright turns a column of masses in decreasing item into one of probabilities in increasing item.
func upright(column []Cell) []Cell {
	var sum float64
	for _, c := range column {
		sum += c.P
	}
	for a, b := 0, len(column)-1; a < b; a, b = a+1, b-1 {
		column[a], column[b] = column[b], column[a]
	}
	kept := column[:0]
	for _, c := range column {
		if c.P /= sum; c.P > 0 { // a mass far below the others can vanish
			kept = append(kept, c)
		}
	}
	return kept
}
