// Package admissible computes with the selection probabilities that rankings can have when attention windows are random (paper,
// section 4.2). Windows is a window distribution q, Solver makes learning steps over the admissible set C, and Sampler draws a
// ranking with given probabilities in C.
//
// Candidates are in increasing utility: position 0 is the paper's item 1. A user draws a window w with probability q_w and selects
// the highest utility among the first w shown; slices over windows hold w at w−1.
//
// The paper defines C = {Pq : P ∈ 𝒫} by constraints C.1–C.4. It equals
//
//	C = { p ∈ Δ_n : p_1 + … + p_k ≤ q_1 + … + q_k for every k < n }.
//
// The package is pure, and its results are equal to the last bit on every processor: products are rounded before they are added, so
// that no compiler fuses them.
package admissible
