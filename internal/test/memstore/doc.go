// Package memstore is a state.Store in memory: for tests and simulations, which can copy a partition's state and put
// an older copy back, as a failover to a stalled replica would.
package memstore
