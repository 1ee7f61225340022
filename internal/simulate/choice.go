package simulate

// Candidate is one item of an impression as its user sees it.
type Candidate struct {
	Item    string
	Utility float64 // finite
}

// prefers reports whether a user who sees both selects a and not b: the higher utility, and of two equal ones the item
// with the higher id, which is the order of the labels in the paper and in the worker.
func prefers(a, b Candidate) bool {
	if a.Utility != b.Utility {
		return a.Utility > b.Utility
	}
	return a.Item > b.Item
}

// Select is the position of the candidate that a user with this window selects from a ranking: the one of highest
// utility among the first window shown (section 2 of the paper). order holds positions in candidates, in the order in
// which they are shown. A window beyond the ranking's end is its end; one below 1 is 1, since everybody sees something.
func Select(candidates []Candidate, order []int, window int) int {
	selected := order[0]
	for _, position := range order[1:max(1, min(window, len(order)))] {
		if prefers(candidates[position], candidates[selected]) {
			selected = position
		}
	}
	return selected
}

// Best is the largest of means that any ranking can make a user with this window select, and where it is. Such a user
// sees that many items and selects the best-liked of them, so an item can be selected exactly if at least window-1
// others are liked less (Lemma 3.3): with labels in increasing utility, the best is the maximum over labels ≥ window.
// means stand in the order of candidates.
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

// Favourite is the position of the candidate of highest utility: what every user selects when it is shown first.
func Favourite(candidates []Candidate) int {
	best := 0
	for i, c := range candidates {
		if prefers(c, candidates[best]) {
			best = i
		}
	}
	return best
}
