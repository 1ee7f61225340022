// Package features turns declared features of users and candidates into vectors of small integers for contextual learners. Declaration
// declares features, segments, categories and clock; Space makes the vectors, products of features (Declaration.Cross) included.
//
// A number becomes one of 255 steps of its range. Sums of products are then integers, which do not depend on order, and a vector
// takes a byte per number. It is not from the paper. The package is pure.
package features
