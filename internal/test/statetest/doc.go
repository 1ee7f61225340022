// Package statetest is the suite that every state.Store passes: what the protocol relies on, sentence by sentence.
// It is for tests only.
package statetest
