// Package partition is the pure state machine of one partition. Records and ticks go in. Rankings, dead letters and state changes come out.
// It does no I/O, reads no clock, starts no goroutine and draws no global randomness: equal inputs give equal outputs.
//
// Machine joins impressions, selections and payoffs by id, and feeds learners (package delay). Its life: Load, Loaded, then Step, Tick and
// Expire, with Seal before each checkpoint. AddKnown gives it the stored ids before the first Step. Resolve returns whether a record needs
// a look-up. The caller then reads the store at Places, and passes the result as Input.Found. Step returns a *Wait for a record that cannot
// be stepped yet.
//
// PooledState holds the statistics of all partitions, once for a process; package stream feeds it from other partitions. Package task
// drives a Machine for the worker that owns the partition. Package replay computes logged rankings again. Offline (offline*.go) is a
// machine for the state commands.
package partition
