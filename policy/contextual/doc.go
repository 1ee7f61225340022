// Package contextual is a linear mixed model of payoffs that depend on features of user and candidate, and on groups of an item:
// its cells, the item, its category. Model holds it, Linear its sums over all payoffs. It is not from the paper. The package is
// pure. A payoff r of cell i with features x, x_1 = 1, is
//
//	r = θᵀx + a_i + b_(parent of i) + … + ε,   ε ~ (0, σ²),   a ~ N(0, σ²/κ_1),  b ~ N(0, σ²/κ_2), …,   θ_j ~ N(θ⁰_j, σ²/λ_j).
//
// θ are the effects of features, a and b those of cells and of the groups above them, and κ and λ the priors in payoffs. Model has the
// equations of the posterior.
package contextual
