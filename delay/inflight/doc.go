// Package inflight computes the weights of selections in flight, those whose payoff has not come. Where payoffs are sent only for good
// outcomes, a payoff that has not come is evidence: the selection weighs, as one never paid, the probability that it never will be.
//
// Scheme divides event time into buckets and ages into bins; all state is counts by these. DelayDistribution is the distribution of
// payoffs' delays, Shares estimates how many selections are paid, Weigh the weight of those in flight. It is not from the paper.
// The package is pure: no I/O, no clock.
package inflight
