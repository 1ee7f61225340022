// Package contextual predicts payoffs from features of user and candidate, and from the item, by a linear mixed model. It is not from the
// paper. Package delay calls it, and passes estimates to policies in policy.Known. The package is pure. A cell is an item for some user
// segments or times of the clock; package delay calls it a group of cells. Levels above the cells are items and categories, where
// configured. Set writes a cell's sums into a Model. Total, a Linear, has sums over all cells; after changes the caller calls Fit. Known
// returns a cell's mean and weight in payoffs. A partition's model below a global one (Share) uses the global fit. Changes compares recent
// payoffs with earlier ones. A payoff r of cell i with features x, x_1 = 1, is
//
//	r = θᵀx + a_i + b_(parent of i) + … + ε,   ε ~ (0, σ²),   a ~ N(0, σ²/κ_1),  b ~ N(0, σ²/κ_2), …,   θ_j ~ N(θ⁰_j, σ²/λ_j).
//
// θ are the effects of features, a and b those of cells and of the levels above them, and κ and λ the priors in payoffs. Model has the
// equations of the posterior.
package contextual
