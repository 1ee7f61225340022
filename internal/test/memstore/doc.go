// Package memstore is a state.Store in memory, for tests and simulations. They can restore an older copy of a partition's state, like a
// failover to a stalled replica.
package memstore
