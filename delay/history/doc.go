// Package history keeps what was paid for the selections of an item by when these began, in blocks of event time that are longer
// the longer ago they are (inflight.Scheme), and says what that is worth now where means drift. All that is kept is counts and
// integer sums, so that it adds up over partitions and does not depend on the order of arrival. The package is pure: it does no
// I/O and reads no clock.
package history
