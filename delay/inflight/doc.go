// Package inflight weighs selections in flight, whose final payoff has not come. Package delay calls it. It is not from the paper. Where
// payoffs are sent only for good outcomes, each selection in flight counts in part as never paid. That part is its probability of staying
// unpaid, by its age, the payoffs' delays and the item's share of paid selections. Payoffs below the default may come later than others, so
// Worth has a second weight for these.
//
// Ages count payoffs by age, and Estimate returns their DelayDistribution. Outcomes count ended selections, and Intervals those in flight.
// From both, Shares returns the share paid, and that of payoffs below the default. Weigh returns the Worth of Intervals, given these
// shares. Among partial payoffs, returns lower a sum, and may come later. Apart estimates their delays, and their share of all amounts.
// Back returns the share of present sums that returns will take off.
//
// Scheme divides event time into buckets and ages into bins; delay/history, delay/recency and tools/checker use it too. The package is
// pure: no I/O, no clock.
package inflight
