package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// retention says how long a learner's items are kept.
//
// An impression keeps its items until ItemRetention after the time from which its deadlines are counted, and at least until its payoff
// deadline. This is rounded up to a tick at which their page of names is due. An item past that is dropped from memory, and by the next seal
// from the store. If it comes again it gets a new number.
//
// A page is due once in each period, at a phase of its own, which differs between partitions. With one phase, all pages of all partitions
// would be written at the same time, by the first impressions of each period.
//
// Impressions past their payoff deadline, not yet reached by the walk, then still refer to the number. They end with the walk, or before
// their next record is processed (expireDue). Their end does not teach about the dropped item (keepsSelected, delay.ItemRemoving's
// PaidForgotten): a faster walk would have made the learner forget it. So dropped items do not depend on the walk's progress. Impressions
// from before a learner had retention may be pending still, if its payoff horizon was shortened. Their payoffs count without their items.
//
// Drops are a function of the steps, so that a replay computes the same numbers: after each step, at its watermark, the first few due items
// are dropped. How the watermark rose, and where a checkpoint was cut off, makes no difference.
type retention struct {
	keep      int64  // milliseconds; 0: for ever
	tick      int64  // milliseconds
	period    uint32 // in ticks
	partition uint32
	// kept is the time until which items are kept that were stored before any was dropped: as if carried when a state was first loaded with
	// retention.
	kept event.Millis

	past   uint32     // the last tick that was over
	sweep  policy.Set // pages that may have items due by past
	sweeps bool       // there are any
}

const (
	periodsKept = 8    // an item is kept too long, and written too often, by at most this part of its retention
	phases      = 1024 // the most ticks in a period
	leastTick   = 1000 // ms: ticks fit into 32 bits until 2106
	endedAtOnce = 256  // the most items that a step drops
	lastTick    = math.MaxUint32 - phases
)

func newRetention(keep int64, partition int32) retention {
	tick := max(keep/(periodsKept*phases), leastTick)
	return retention{keep: keep, tick: tick, period: uint32(max(keep/periodsKept/tick, 1)), partition: uint32(partition)}
}

// tickAt returns the first tick that is not over before a time.
func (r *retention) tickAt(t event.Millis) uint32 {
	if t <= 0 || r.keep == 0 {
		return 0
	}
	return uint32(min((t-1)/r.tick+1, lastTick))
}

// due returns the first tick from least on at which an item's page is due.
func (r *retention) due(i policy.Item, least uint32) uint32 {
	if r.keep == 0 {
		return 0
	}
	phase := (uint32(namesPage(i)) + r.partition) % r.period
	return least + (phase+r.period-least%r.period)%r.period
}

// over returns the last tick that is over at a watermark.
func (r *retention) over(watermark event.Millis) uint32 {
	return uint32(min(max(watermark-1, 0)/r.tick, lastTick-1))
}

func (r *retention) until(tick uint32) event.Millis { return int64(tick) * r.tick }

// pass has the pages up to last swept that were due since the last call, up to a tick.
func (r *retention) pass(past uint32, last int32) {
	for t := max(r.past, past-min(past, r.period)) + 1; t <= past; t++ {
		for page := (t%r.period + r.period - r.partition%r.period) % r.period; page <= uint32(last); page += r.period {
			r.sweep.Add(int32(page))
			r.sweeps = true
		}
	}
	r.past = max(r.past, past)
}
