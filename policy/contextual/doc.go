// Package contextual is a linear mixed model of payoffs that depend on features of user and candidate, and on groups of an item:
// its cells, the item, its category. Model holds it, Linear its sums over all payoffs. It is not from the paper. The package is
// pure. A payoff r of cell i with features x, x_1 = 1, is
//
//	r = θᵀx + a_i + b_(parent of i) + … + ε,   ε ~ (0, σ²),   a ~ N(0, σ²/κ_1),  b ~ N(0, σ²/κ_2), …,   θ_j ~ N(θ⁰_j, σ²/λ_j).
//
// State is integer sums, which do not depend on order or partitioning. They are N, R = Σr and S = Σx by cell, and in all G = Σxxᵀ,
// h = Σxr, Q = Σr². The rest is a function of them and of the last fit. Effects are integrated out level by level, finest first,
// from A = Λ+G, f = h+Λθ⁰, e = Q+θ⁰ᵀΛθ⁰. With y = 1/(N+κ) of a node,
//
//	A −= y·SSᵀ,   f −= y·S·R,   e −= y·R²,   and κy·N, κy·R, κy·S go to the node's parent;
//
// then θ̂ = A⁻¹f. A candidate's posterior mean m and weight ω = σ²/variance are, with g_1 = 1 and g_(l+1) = g_l·κ_l·y_l,
//
//	z = x − Σ g_l·y_l·S_l,   m = Σ g_l·y_l·R_l + zᵀθ̂,   1/ω = Σ g_l²·y_l + zᵀA⁻¹z
//
// (C. R. Henderson, "Best linear unbiased estimation and prediction under a selection model", Biometrics 31, 1975). Variances
// follow the fixed point of D. MacKay ("Bayesian interpolation", Neural Computation 4, 1992).
package contextual
