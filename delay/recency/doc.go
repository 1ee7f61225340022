// Package recency estimates means that change. An estimate goes back in time as far as recent and earlier payoffs have the same mean.
// policy.Robust decides with it. It is not from the paper. Payoffs are counted by bucket of event time (package history): by item in
// Selections, and over all items in residuals, payoffs less their items' means (Residual). Counts are integers, so neither partitions nor
// the order of arrival change a sum. An Estimate holds the levels common to all items, and how far items differ. Its Read turns an item's
// counts into its recent mean. The package is pure: no I/O, and no clock but event time.
package recency
