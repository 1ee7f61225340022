package admissible

import "math"

// uniformSlack is what counts as equality.
const uniformSlack = 1e-12

// UniformAdmissible tells whether some distribution over rankings has every candidate selected with the same
// probability (section 4.1): G_k ≥ k/n for every k < n. Lazy windows, q_1 ≥ q_2 ≥ …, have it, yet folding their tail
// onto a short list can lose it, so it is a matter of the list's length. Equality up to rounding counts.
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

// Best is the largest value ⟨values,p⟩ of any p in C, which is also that of the best single ranking in hindsight:
// Σ_w q_w · max_{i≥w} values_i. The ranking is a best one in hindsight (Lemma 3.3).
func Best(values, q []float64) float64 {
	best, sum := math.Inf(-1), 0.0
	for k := len(values) - 1; k >= 0; k-- {
		best = max(best, values[k])
		sum += float64(q[k] * best)
	}
	return sum
}
