// Package policytest models users in tests: their selections, and their mean payoff under a best permutation.
package policytest

// BestMean returns the expected payoff of a user with a window in 1..n under a best permutation: max_{i≥w} μ_i, with candidates
// from 1 in increasing utility. Items of lower utility cannot be selected, since among w shown there is a better one (Lemma 3.3).
func BestMean(means []float64, window int) float64 {
	best := means[window-1]
	for _, m := range means[window:] {
		best = max(best, m)
	}
	return best
}

// Select returns the position selected by a user with a window in 1..n: the highest utility among the first so many of order.
func Select(order []int32, window int) int32 {
	selected := order[0]
	for _, position := range order[1:window] {
		selected = max(selected, position)
	}
	return selected
}
