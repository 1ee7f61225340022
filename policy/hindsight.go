package policy

// BestMean is the mean payoff that a user with the given window (1..n) brings under a best permutation: the largest
// mean among the candidates from that window's rank up, max_{i≥w} μ_i with candidates labelled from 1 in increasing
// utility. Items of lower utility cannot be selected, for among w shown there is always a better one (Lemma 3.3).
func BestMean(means []float64, window int) float64 {
	best := means[window-1]
	for _, m := range means[window:] {
		best = max(best, m)
	}
	return best
}

// Select is the position of the candidate that a user with the given window (1..n) selects from an order: the one of
// highest utility among the first so many.
func Select(order []int32, window int) int32 {
	selected := order[0]
	for _, position := range order[1:window] {
		selected = max(selected, position)
	}
	return selected
}
