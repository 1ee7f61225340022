// Package inflight estimates the worth of a selection in flight: one whose final payoff has not come. Package delay calls it. It is not from
// the paper. Where only good outcomes are sent, silence is information. A selection in flight counts in part as never paid: by its
// probability of staying unpaid. That depends on its age, the payoffs' delays and the item's share of paid selections.
//
// Ages count payoffs by age, and Estimate returns their DelayDistribution. Outcomes count ended selections. An Interval counts selections in
// flight that began in one bucket of time. From both, Shares returns the share paid, and the share of payoffs below the default, the payoff
// of a selection that is never paid. Weigh returns an interval's Worth: the weight of never paid, and one for payoffs below the default,
// which may come later. A partial payoff can be negative: a refund. Apart estimates the delays of refunds and their share of all amounts.
// Back returns the share of the present sums that refunds to come will take off.
//
// Scheme divides event time into buckets and ages into bins; delay/history, delay/recency and tools/checker use it too. The package is
// pure: no I/O, no clock.
package inflight
