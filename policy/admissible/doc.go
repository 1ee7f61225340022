// Package admissible is the paper's section 4.2. A ranking drawn at random gives each candidate a probability of being selected, if users
// look at a random number of results. The admissible set C holds all such probabilities. A policy that explores chooses a point of C, and
// draws a ranking with these probabilities. Windows is the distribution q of the windows, and Fold cuts it to a list's length. Solver writes
// the point of C that OSMD asks for. Sampler reads a point of C and a random number, and writes a ranking. Best returns the largest mean
// payoff over C. Packages policy and delay call Solver and Sampler; configuration, internal/lab and internal/evaluate use Windows.
//
// Candidates are in increasing utility: position 0 is the paper's item 1. A user draws a window w with probability q_w, and selects the
// highest utility among the first w shown. Slices over windows hold w at w−1. The paper's C = {Pq : P ∈ 𝒫}, by constraints C.1–C.4, is
//
//	C = { p ∈ Δ_n : p_1 + … + p_k ≤ q_1 + … + q_k for every k < n }.
//
// The package is pure. Its results are equal to the last bit on every processor: products are rounded before they are added, so that no
// compiler fuses them.
package admissible
