package propensity

// Of appends to dst how likely the item at each position of a ranking is to be selected, from the first on: order holds utility ranks, 0..n−1, in the order
// shown, q the windows folded to n (admissible.Windows.Fold), which add up to 1, and noise, within 0 and 1, the share of
// users who take any item they look at, each as likely as the others. What is appended adds up to 1, but for rounding.
//
// An item leads where none above it has a higher utility. With next(y) the position of the next leader behind y, n+1 behind the last,
//
//	p(y) = (1−ε)·1{y leads}·Σ_{w=pos(y)}^{next(y)−1} q_w + ε·Σ_{w≥pos(y)} q_w/w
//
// The first sum is the paper's window (Section 2, with windows drawn anew for each user).
func Of(dst []float64, order []int32, q []float64, noise float64) []float64 {
	n := len(order)
	start := len(dst)
	for range n {
		dst = append(dst, 0)
	}
	p := dst[start:]
	seen := 0.0 // Σ_{w≥k+1} q_w/w
	for k := n - 1; k >= 0; k-- {
		seen += q[k] / float64(k+1)
		p[k] = noise * seen
	}
	leader := 0
	for k := range n {
		if order[k] > order[leader] {
			leader = k
		}
		p[leader] += (1 - noise) * q[k]
	}
	return dst
}

// Leads tells whether the item at a position of a ranking, from 0, has none of a higher utility above it. Only noise selects another.
func Leads(order []int32, at int) bool {
	for _, rank := range order[:at] {
		if rank > order[at] {
			return false
		}
	}
	return true
}
