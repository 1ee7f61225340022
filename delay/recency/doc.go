// Package recency estimates means that change, from recent payoffs as far back as they agree. State is rows by bucket of event time
// (package history): Selections by item, and residuals (Residual) of all items. They are integers, which add up over sources and do not
// depend on the order of arrival. An Estimate holds the common levels and the spread of all items; its Read turns an item's rows into
// the recent mean that policy.Robust decides with. It is not from the paper. The package is pure: no I/O, and no clock but event time.
package recency
