// Package memcap measures the memory that code allocates, for tests that bound it. Input from outside must be checked
// against its limits before memory is allocated for it.
package memcap

import "runtime"

// Allocated is how many bytes f allocates, whether or not they are in use afterwards. Other goroutines must be quiet.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
