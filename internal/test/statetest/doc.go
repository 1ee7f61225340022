// Package statetest is the conformance suite of state.Store and its sub-interfaces. It tests each guarantee that the
// protocol relies on, and is imported by tests only.
package statetest
