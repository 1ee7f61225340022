// Package sizing says what a group of workers needs for a given traffic: what Redis holds and does, the memory and the cores of the
// workers, what Kafka keeps in a day. It is arithmetic: Estimate multiplies what there is of each thing by what one of them costs.
// The costs are the constants of costs.go; they are measured, and the tests hold them against a real Redis, filled by the machine and the
// store that the worker has, and against a machine's heap. A test that fails prints what it measured and which constant to set.
//
// Following goes on from there to many machines: what workers read of each other, and what a rebalance costs.
package sizing
