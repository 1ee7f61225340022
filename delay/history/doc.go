// Package history keeps an item's payoffs by start time of their selections, in buckets of event time that grow with age
// (inflight.Scheme). Rows are the buckets with their sums, and Decay weights them where means drift. Sums are counts and integers,
// so that they add up over partitions and do not depend on the order of arrival. The package is pure: no I/O, no clock.
package history
