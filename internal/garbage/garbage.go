// Package garbage bounds the memory of a large heap that waits for the garbage collector.
package garbage

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// free is garbage of which less would cost a small heap a tenth of its CPU.
	free = 100 << 20
	// share is the percentage of a large heap. Go's default is 100; a third costs up to 5% of CPU more.
	share   = 33
	initial = 100 // Go's default
	every   = time.Second
)

// Bytes returns the garbage that may wait beside live bytes of the heap.
func Bytes(live uint64) uint64 { return max(live/100*share, min(live, free)) }

// percent returns Bytes as a percentage of live bytes (see [debug.SetGCPercent]).
func percent(live uint64) int {
	if live <= free {
		return initial
	}
	return max(share, int(100*Bytes(live)/live))
}

// Bound adapts Go's garbage collector to the live heap once a second, until stop is called. It does nothing if GOGC is set.
func Bound() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		defer debug.SetGCPercent(initial)
		live, present := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, initial
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			metrics.Read(live)
			if next := percent(live[0].Value.Uint64()); next != present {
				debug.SetGCPercent(next)
				present = next
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
