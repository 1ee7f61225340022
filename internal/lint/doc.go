// Package lint holds the rules about what may import and use what, as a test. The core of the worker is a function of
// what it is given: no clock, network, goroutine, lock, logger or global source of random numbers. That is what makes
// a replay come to the same state, and no reviewer can be relied on to see every violation.
package lint
