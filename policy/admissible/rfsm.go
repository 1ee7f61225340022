package admissible

import (
	"fmt"
	"math"
)

// Tolerance is how far the sums of a matrix given to RFSM may be off.
const Tolerance = 1e-9

// Weighted is a ranking and its share of a distribution over rankings.
type Weighted struct {
	Weight  float64
	Ranking []int32 // positions in increasing utility, in the order shown
}

// RFSM is the paper's Algorithm 3, Round Fractional Selection Matrix: it decomposes a P ∈ 𝒫 into a distribution over
// rankings whose selection matrices, so weighted, sum to P. By Theorem 4.1 there are at most z−n+1 of them, with z the
// number of entries of P that are not zero. A matrix that is not in 𝒫, by more than Tolerance, is an error that wraps
// ErrNotAdmissible. It takes O(n) for each ranking.
//
// This is the whole of what Sampler.Sample draws from, for those who want to see it.
//
// The algorithm peels: each window's lowest item of positive probability makes an integral matrix, which is taken out
// as often as its smallest entry allows. The paper scales the rest back to one; here the entries are left unscaled, the
// weights come out as they are, and the sum of weights stands for the mass that is gone. The entry that gave the
// smallest value becomes zero by decree, not by subtraction, so that each round ends at least one entry: the bound of
// the theorem holds whatever the rounding. It ends when the first window has nothing left; what then remains elsewhere
// is rounding.
func RFSM(m Matrix) ([]Weighted, error) {
	if err := m.Check(Tolerance); err != nil {
		return nil, err
	}
	n := len(m)
	if n == 0 {
		return nil, fmt.Errorf("%w: the matrix is empty", ErrNotAdmissible)
	}
	next := make([]int, n)     // of each column: the first entry that is not yet gone
	left := make([]float64, n) // what is left of that entry
	for w, column := range m {
		left[w] = column[0].P
	}
	var found []Weighted
	var sum float64
	selected := make([]int32, n)
	for exhausted := false; !exhausted; {
		weight := math.Inf(1)
		lowest := int32(0)
		for w, column := range m {
			// In exact numbers the lowest items grow with w by themselves; rounding may end two entries that should end
			// together one after the other.
			lowest = max(lowest, column[next[w]].Item)
			selected[w] = lowest
			weight = min(weight, left[w])
		}
		ranking := make([]int32, n)
		if err := IntegralPermutation(selected, ranking); err != nil {
			return nil, fmt.Errorf("round %d: %w", len(found)+1, err)
		}
		found = append(found, Weighted{Weight: weight, Ranking: ranking})
		sum += weight
		for w, column := range m {
			if left[w] > weight {
				left[w] -= weight
				continue
			}
			next[w]++
			if next[w] == len(column) {
				exhausted = true
				continue
			}
			left[w] = column[next[w]].P
		}
	}
	for k := range found { // what rounding left over, or the tolerance allowed
		found[k].Weight /= sum
	}
	return found, nil
}

// SelectionMatrix is P(π), the selection matrix of one ranking (section 4.2): window w selects the item of highest
// utility among the first w shown.
func SelectionMatrix(ranking []int32) Matrix {
	m := make(Matrix, len(ranking))
	cells := make([]Cell, len(ranking))
	item := int32(0)
	for w, shown := range ranking {
		item = max(item, shown)
		cells[w] = Cell{Item: item, P: 1}
		m[w] = cells[w : w+1 : w+1]
	}
	return m
}
