// Package contextual predicts payoffs from features of user and candidate, and from the item, by a linear mixed model. It is not from the
// paper. Model has sums by cell, the finest of up to three levels; above it are the item and its category, where configured. A cell is an
// item for some user segments or times of the clock; package delay calls it a group of cells. Linear has products of features and payoffs
// over all cells. Fit makes estimates, which policies read in policy.Known; Changes compares recent payoffs with earlier ones. Package
// delay is the caller. The package is pure. A payoff r of cell i with features x, x_1 = 1, is
//
//	r = θᵀx + a_i + b_(parent of i) + … + ε,   ε ~ (0, σ²),   a ~ N(0, σ²/κ_1),  b ~ N(0, σ²/κ_2), …,   θ_j ~ N(θ⁰_j, σ²/λ_j).
//
// θ are the effects of features, a and b those of cells and of the groups above them, and κ and λ the priors in payoffs. Model has the
// equations of the posterior.
package contextual
