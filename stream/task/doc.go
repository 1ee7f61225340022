// Package task is the protocol of one partition number as a pure machine: acquire, fence, check, replay and adopt,
// steady state, checkpoints, drain. Requests go out, replies come in; the shell (package stream) executes them, and
// so does the randomised model. It does no I/O, reads no clock and starts no goroutine.
package task
