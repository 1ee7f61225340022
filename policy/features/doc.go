// Package features turns what is known of a user and of a candidate into a vector of small integers, by which a learner can tell what
// a payoff depends on besides the item. The package is pure.
//
// Features are declared, each with its range. A number becomes one of 255 steps of its range, and what learns from it is defined on
// these: so sums of products of features are integers, which add up to the same in whatever order, and a vector takes a byte a number.
// Products of features (Declaration.Cross) are made here of the steps, so that nobody has to send them.
package features
