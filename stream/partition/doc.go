// Package partition is the pure state machine of one partition number: impressions, selections, payoffs and ticks
// go in; rankings, dead letters and state changes come out. It does no I/O, reads no clock, starts no goroutine and
// draws no global randomness; what it does is a function of what it was given.
package partition
