// Package memcap measures allocated memory, for tests that input is checked against its limits before memory is allocated for it.
package memcap

import "runtime"

// Allocated returns the bytes that f allocates, in use or not. Other goroutines must not allocate.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
