// Package statetest is the conformance suite of state.Store and its sub-interfaces: each guarantee that the protocol relies on. Only tests
// import it.
package statetest
