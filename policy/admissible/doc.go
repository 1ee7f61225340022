// Package admissible works with the selection probabilities that rankings can bring about when attention windows are
// random (the paper's section 4.2): the set C, learning steps over it, and rankings drawn for one of its members.
//
// Candidates are labelled in increasing utility throughout, as in package policy: position 0 of a slice is the
// candidate of lowest utility, which the paper calls item 1. A user draws a window w from 1..n with probability q_w and
// selects the candidate of highest utility among the first w shown. Slices over windows hold window w at position w−1.
//
// # The set C
//
// The paper defines C = {Pq : P ∈ 𝒫} by the constraints C.1–C.4 on matrices. It has a closed form:
//
//	C = { p ∈ Δ_n : p_1 + … + p_k ≤ q_1 + … + q_k for every k < n },
//
// that is, p stochastically dominates q. Necessary: by C.3, a window of k+1 or more never selects one of the items
// 1..k, so they share at most the probability of the windows 1..k. Sufficient: let T_k = p_k + … + p_n, and let
//
//	F_k(w) = clamp((T_k − Σ_{v>w} q_v) / q_w, 0, 1)
//
// be the probability that window w selects one of the items k..n. It falls with k, is one for k = 1 and grows with w,
// which are C.1, C.2 and C.4; it is one for k = w, which is C.3, exactly when T_w ≥ Σ_{v≥w} q_v; and Σ_w q_w·F_k(w)
// telescopes to T_k, so that P_{k,w} = F_k(w) − F_{k+1}(w) has Pq = p. This P is the comonotone coupling of p and q.
//
// The package is pure: its results are functions of its arguments alone, to the last bit, and the same on every
// processor (products are rounded before they are added, so that no compiler may fuse them).
package admissible
