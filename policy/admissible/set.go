package admissible

import "math"

// uniformSlack is the tolerance of equality.
const uniformSlack = 1e-12

// UniformAdmissible returns whether rankings can select all candidates with equal probability (section 4.1): G_k ≥ k/n for every k
// < n, up to rounding. Lazy windows, q_1 ≥ q_2 ≥ …, allow it, but folded to a short list they may not.
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

// Best returns the largest ⟨values,p⟩ over C, which is that of the best ranking in hindsight: Σ_w q_w · max_{i≥w} values_i (Lemma 3.3).
func Best(values, q []float64) float64 {
	best, sum := math.Inf(-1), 0.0
	for k := len(values) - 1; k >= 0; k-- {
		best = max(best, values[k])
		sum += float64(q[k] * best)
	}
	return sum
}
