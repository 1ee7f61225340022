// Package memstore is a state.Store in memory, for tests and simulations. They can copy a partition's state and
// restore an older copy, as a failover to a stalled replica would.
package memstore
