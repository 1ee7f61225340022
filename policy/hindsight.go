package policy

// BestOrder fills dst, which is as long as means, with a best permutation in hindsight (Lemma 3.3): leaders in
// decreasing mean, each followed by the items it blocks. Means are those of the candidates in increasing utility, and
// dst takes positions, as in Policy.Rank. For every window it gives the largest mean that any permutation can give.
// Of equal means the highest utility leads. It takes O(n).
func BestOrder(means []float64, ws *Workspace, dst []int32) {
	n := int32(len(means))
	ws.leaders = sized(ws.leaders, int(n))
	leader := n - 1
	for i := n - 1; i >= 0; i-- {
		if means[i] > means[leader] {
			leader = i
		}
		ws.leaders[i] = leader
	}
	follow(ws.leaders, dst)
}

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
