package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// retention says how long a learner's items are kept.
//
// An impression keeps its items until ItemRetention after the time from which its deadlines are counted, and at least until its payoff
// deadline, rounded up to a period. An item past that is dropped from memory, and by the next seal from the store. If it comes again it
// gets a new number.
//
// Only impressions past their payoff deadline, not yet reached by the walk, then still refer to the number. They end with the walk, or
// before their next record is processed (expireDue). Their end does not teach about the dropped item (keepsSelected, delay.Forgetting's
// PaidForgotten): a faster walk would have made the learner forget it. So dropped items do not depend on the walk's progress.
//
// Drops are a function of the steps, so that a replay computes the same numbers: after each step, at its watermark, the first few due items
// are dropped. How the watermark rose, and where a checkpoint was cut off, makes no difference.
type retention struct {
	keep  int64 // milliseconds; 0: for ever
	width int64 // of a period, in milliseconds
	// stored is the period until which items are kept that were stored before any was dropped: as if carried when a state was first loaded
	// with retention.
	stored uint32
	// Of the last past period: all due items were dropped, or those below cursor.
	past   uint32
	swept  bool
	cursor policy.Item
}

const (
	periodsKept = 8    // an item is kept too long, and written too often, by at most this part of its retention
	leastPeriod = 1000 // ms: periods fit into 32 bits until 2106
	endedAtOnce = 256  // the most items that a step drops
)

func newRetention(keep int64) retention {
	return retention{keep: keep, width: max(keep/periodsKept, leastPeriod)}
}

// period returns the first period that is not over before a time.
func (r *retention) period(t event.Millis) uint32 {
	if t <= 0 || r.keep == 0 {
		return 0
	}
	return uint32(min((t-1)/r.width+1, math.MaxUint32))
}

// over returns the last period that is over at a watermark.
func (r *retention) over(watermark event.Millis) uint32 {
	return uint32(min(max(watermark-1, 0)/r.width, math.MaxUint32-1))
}

func (r *retention) until(period uint32) event.Millis { return int64(period) * r.width }
