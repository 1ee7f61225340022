package simulate

// Candidate is an item of an impression as its user sees it.
type Candidate struct {
	Item    string
	Utility float64 // finite
}

// prefers returns whether a user selects a over b: by higher utility, ties by higher id, as labels are ordered in the worker.
func prefers(a, b Candidate) bool {
	if a.Utility != b.Utility {
		return a.Utility > b.Utility
	}
	return a.Item > b.Item
}

// Select returns the position of the candidate that a user selects: the highest utility among the first window shown (paper,
// section 2). order holds positions in candidates in the order shown. window is limited to 1..len(order).
func Select(candidates []Candidate, order []int, window int) int {
	selected := order[0]
	for _, position := range order[1:max(1, min(window, len(order)))] {
		if prefers(candidates[position], candidates[selected]) {
			selected = position
		}
	}
	return selected
}

// Best returns the largest of means that some ranking makes a user with this window select, and its position. An item can be
// selected if and only if at least window-1 others have lower utility (Lemma 3.3). means are in the order of candidates.
func Best(candidates []Candidate, means []float64, window int) (mean float64, position int) {
	window = max(1, min(window, len(candidates)))
	position = -1
	for i, c := range candidates {
		less := 0
		for j := range candidates {
			if j != i && prefers(c, candidates[j]) {
				less++
			}
		}
		if less >= window-1 && (position < 0 || means[i] > mean) {
			mean, position = means[i], i
		}
	}
	return mean, position
}

// Favourite returns the position of the highest utility.
func Favourite(candidates []Candidate) int {
	best := 0
	for i, c := range candidates {
		if prefers(c, candidates[best]) {
			best = i
		}
	}
	return best
}
