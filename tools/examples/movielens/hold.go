package main

import (
	"context"
	"sync"
	"time"
)

// holdEvery is how often the worker is asked whether its learners are on hold; it answers with the state of a few hundred milliseconds ago
// at most.
const holdEvery = 200 * time.Millisecond

// holdClock measures the share of time on hold, on the stream's own clock. The time between two samples counts as on hold for a partition
// whose learner is on hold at the second one. The share is the mean over the partitions. It is safe for concurrent use.
type holdClock struct {
	mu          sync.Mutex
	begun       bool
	last        int64
	held, total float64 // in partition-milliseconds
	partitions  int     // on hold at the last sample
}

// sample takes in which partitions are on hold when the stream's clock shows now.
func (h *holdClock) sample(now int64, onHold []bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.partitions = 0
	for _, on := range onHold {
		if on {
			h.partitions++
		}
	}
	if h.begun && now > h.last {
		passed := float64(now - h.last)
		h.held += passed * float64(h.partitions)
		h.total += passed * float64(len(onHold))
	}
	if !h.begun || now > h.last {
		h.begun, h.last = true, now
	}
}

// share is that of the time so far, and the number of partitions on hold at the last sample. ok is false where no time
// has passed between samples.
func (h *holdClock) share() (share float64, partitions int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total == 0 {
		return 0, h.partitions, false
	}
	return h.held / h.total, h.partitions, true
}

// watch samples until ctx is done. A worker that does not answer once is asked again; if it is gone, others say so.
func (h *holdClock) watch(ctx context.Context, w *worker, clock func() int64) {
	tick := time.NewTicker(holdEvery)
	defer tick.Stop()
	for {
		if held, err := w.onHold(ctx); err == nil {
			if now := clock(); now > 0 { // the first impression was sent
				h.sample(now, held)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
