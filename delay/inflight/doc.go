// Package inflight weighs selections in flight, whose final payoff has not come. Where payoffs are sent only for good outcomes, each
// counts in part as never paid. That part is its probability of staying unpaid, by its age, the payoffs' delays and the item's share of
// paid selections. Payoffs below the default may come later than others, so Worth has a second weight for these.
//
// Estimate makes a DelayDistribution from Ages. Shares returns the shares paid and below the default; Weigh returns the Worth. Apart and
// Back estimate the returns that will reduce partial payoffs. Scheme divides event time into buckets and ages into bins; packages history,
// recency and tools/checker use it too. Package delay is the caller. It is not from the paper. The package is pure: no I/O, no clock.
package inflight
