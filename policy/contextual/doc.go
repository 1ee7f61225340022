// Package contextual knows what a payoff is expected to be where it depends on more than the item: on numbers that are known of the user
// and of the candidate, and on groups that an item belongs to. The package is pure.
//
// A payoff r of cell i, shown with features x, x_1 = 1, is taken to be
//
//	r = θᵀx + a_i + b_(parent of i) + … + ε,   ε ~ (0, σ²),   a ~ N(0, σ²/κ_1),  b ~ N(0, σ²/κ_2), …,   θ_j ~ N(θ⁰_j, σ²/λ_j).
//
// What is kept of the payoffs is sums: of each cell N, R = Σr and S = Σx, and of all G = Σxxᵀ, h = Σxr and Q = Σr² (Linear). They are
// integers, so that they add up to the same in whatever order payoffs come, over however many partitions. All else is a function of them,
// and of when the model was fitted last.
//
// The effects a, b, … are integrated out one by one, from the finest level on. With y = 1/(N+κ) for each node of a level,
//
//	A −= y·SSᵀ,   f −= y·S·R,   e −= y·R²,   and κy·N, κy·R, κy·S go to the node's parent,
//
// from A = Λ+G, f = h+Λθ⁰ and e = Q+θ⁰ᵀΛθ⁰ on; then θ̂ = A⁻¹f. Of a candidate, with g_1 = 1 and g_(l+1) = g_l·κ_l·y_l over its levels,
//
//	z = x − Σ g_l·y_l·S_l,   m = Σ g_l·y_l·R_l + zᵀθ̂,   1/ω = Σ g_l²·y_l + zᵀA⁻¹z
//
// are its expected payoff and how many payoffs' worth is known of that: the posterior's mean and σ² over its variance. It is Henderson's
// mixed model (C. R. Henderson, "Best linear unbiased estimation and prediction under a selection model", Biometrics 31, 1975), with the
// variances by the fixed point of D. MacKay ("Bayesian interpolation", Neural Computation 4, 1992).
package contextual
