// Package contextual predicts an item's payoff for a user, from features of both and from the item's past payoffs, by a linear mixed model.
// Items with few payoffs are predicted by features and by similar items. Package delay calls it, and passes predictions to policies in
// policy.Known. It is not from the paper. It is pure. A cell is one item, for one group of users and of times of the day; package delay
// splits it into finer cells. Levels above the cells are items and categories, where configured. Set writes a cell's
// sums into a Model. Total, a Linear, has sums over all cells; after changes the caller calls Fit. Known returns a cell's mean and weight
// in payoffs. A partition's model below a global one (Share) uses the global fit. Changes compares recent payoffs with earlier ones. A
// payoff r of cell i with features x, x_1 = 1, is
//
//	r = θᵀx + a_i + b_(parent of i) + … + ε,   ε ~ (0, σ²),   a ~ N(0, σ²/κ_1),  b ~ N(0, σ²/κ_2), …,   θ_j ~ N(θ⁰_j, σ²/λ_j).
//
// θ are the effects of features, a and b those of cells and of the levels above them, and κ and λ the priors in payoffs. Model has the
// equations of the posterior.
package contextual
