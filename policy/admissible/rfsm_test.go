package admissible

import "math"

// weighted is a ranking and its share of a distribution over rankings.
type weighted struct {
	weight  float64
	ranking []int32 // positions in increasing utility, in the order shown
}

// rfsm is the paper's Algorithm 3, Round Fractional Selection Matrix. It decomposes a P ∈ 𝒫 into a distribution over rankings whose
// selection matrices, so weighted, sum to P. By Theorem 4.1 there are at most z−n+1 of them, with z the number of entries of P that
// are not zero. Sampler.Sample draws from this distribution.
//
// The algorithm peels: each window's lowest item of positive probability makes an integral matrix. It is subtracted as often as its
// smallest entry allows. The paper scales the rest back to one. Here the entries are left unscaled, and the sum of weights is the
// mass subtracted so far. The entry with the smallest value is set to zero rather than subtracted, so that each round ends at least
// one entry. The bound of the theorem thus holds whatever the rounding. It ends when the first window is empty; the rest of the
// other windows is rounding.
func rfsm(m matrix) []weighted {
	n := len(m)
	next := make([]int, n)     // of each column: the first entry that is not yet gone
	left := make([]float64, n) // the rest of that entry
	for w, column := range m {
		left[w] = column[0].p
	}
	var found []weighted
	var sum float64
	selected := make([]int32, n)
	for exhausted := false; !exhausted; {
		weight := math.Inf(1)
		lowest := int32(0)
		for w, column := range m {
			// In exact numbers the lowest items grow with w by themselves; rounding may end two entries that should end
			// together one after the other.
			lowest = max(lowest, column[next[w]].item)
			selected[w] = lowest
			weight = min(weight, left[w])
		}
		ranking := make([]int32, n)
		place(selected, ranking)
		found = append(found, weighted{weight, ranking})
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
			left[w] = column[next[w]].p
		}
	}
	for k := range found { // the rest, by rounding or within the tolerance
		found[k].weight /= sum
	}
	return found
}

// selectionMatrix is P(π), the selection matrix of one ranking (section 4.2): window w selects the item of highest
// utility among the first w shown.
func selectionMatrix(ranking []int32) matrix {
	m := make(matrix, len(ranking))
	cells := make([]entry, len(ranking))
	item := int32(0)
	for w, shown := range ranking {
		item = max(item, shown)
		cells[w] = entry{item, 1}
		m[w] = cells[w : w+1 : w+1]
	}
	return m
}
