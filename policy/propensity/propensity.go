package propensity

// Of appends the selection probability of each position of a ranking. order holds utility ranks 0..n−1 in the order shown, and q
// the windows folded to n (admissible.Windows.Fold), with sum 1. noise, in [0,1], is the share of users who select any item they
// look at, with equal probability. The result sums to 1, up to rounding.
//
// An item leads if none above it has a higher utility. With next(y) the position of the next leader behind y, n+1 after the last,
//
//	p(y) = (1−ε)·1{y leads}·Σ_{w=pos(y)}^{next(y)−1} q_w + ε·Σ_{w≥pos(y)} q_w/w.
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

// Leads returns whether no item above position at, from 0, has a higher utility. Others are selected by noise only.
func Leads(order []int32, at int) bool {
	for _, rank := range order[:at] {
		if rank > order[at] {
			return false
		}
	}
	return true
}
