// Package inflight says what a selection counts as whose payoff is still awaited. Where payoffs are sent only when something
// good happens, that none has come yet is evidence, and the more so the older the selection is: it counts as so much of a
// selection that was never paid as it is likely never to be.
//
// Scheme divides event time into blocks and ages into bins, all that is kept are counts by these. Lateness is how late payoffs
// are, Shares how many of an item's selections are paid, and Weigh what comes of both. The package is pure: it does no I/O and
// reads no clock.
package inflight
