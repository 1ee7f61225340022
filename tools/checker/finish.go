package checker

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// finish compares everything that is known at the end.
func (f *fold) finish() {
	f.checkWitnesses()
	f.held = max(f.held, int64(len(f.lives)))
	for id, l := range f.lives {
		f.compare(id, l)
	}
	for id, e := range f.state.entries {
		if f.lives[id] == nil && !f.partial {
			f.phantom(id, e)
		} else {
			f.out.ok(entriesPhantom, true)
		}
	}
	f.checkStored()
	f.checkLearners()
	f.checkAccount()
	f.checkShares()
	f.checkIndex()
	f.checkDeltas(f.state.writer)
	if f.ranked.foreign > 0 {
		f.out.skip("%d rankings name this group, and none of its workers has written them", f.ranked.foreign)
	}
	if f.unordered > 0 && !f.partial {
		f.out.skip("of %d records nothing tells in which order they were taken in: what became of what they are about is not compared", f.unordered)
	}
}

// checkWitnesses: the witness is the last record before the checkpoint.
func (f *fold) checkWitnesses() {
	for t := range f.topics {
		tf := &f.topics[t]
		if !tf.on || f.read[t] == 0 {
			continue
		}
		found := f.state.inputs[event.Topic(t)].witness.offset
		if found < 0 && len(f.state.skipped[t]) > 0 { // it cannot be read any more
			continue
		}
		equal(f.out, metaWitness, roles[t]+": offset of the witness", tf.seen, found)
	}
}

// checkStored compares the account's counts of what is stored with what is.
func (f *fold) checkStored() {
	if !f.state.complete {
		return
	}
	var open int64
	var waits [event.Inputs]int64
	for _, e := range f.state.entries {
		if e.kind == pending {
			open++
		}
		for i := range e.parked {
			if t := e.parked[i].topic; t < event.Inputs {
				waits[t]++
			}
		}
	}
	equal(f.out, accountOutcomes, "impressions.pending, as they are stored", open, f.state.account["impressions.pending"])
	equal(f.out, accountOutcomes, "selections.parked, as they are stored", waits[event.Selections], f.state.account["selections.parked"])
	equal(f.out, accountOutcomes, "payoffs.parked, as they are stored", waits[event.Payoffs], f.state.account["payoffs.parked"])
}

// bucketWidth is how much event time, in milliseconds, a bucket of the expiry index spans.
const bucketWidth = 10_000

// checkIndex: every id stands in the bucket that its entry names, which is none later than that of its next deadline; else
// it would never expire. Buckets that the walk has begun may also hold ids that are gone.
func (f *fold) checkIndex() {
	walked := f.state.watermark / bucketWidth
	for id, e := range f.state.entries {
		_, there := f.state.due[e.bucket][id]
		latest := max(max(e.nextDeadline(), 0)/bucketWidth, walked)
		if !f.out.ok(index, there && e.bucket >= f.state.floor && e.bucket <= latest) {
			f.out.breach(index, id, fmt.Sprintf("in a bucket within %d and %d", f.state.floor, latest), fmt.Sprintf("bucket %d, in the index: %t", e.bucket, there))
		}
	}
	for bucket, ids := range f.state.due {
		if _, listed := f.state.buckets[bucket]; !f.out.ok(index, listed) {
			f.out.breach(index, fmt.Sprintf("bucket %d", bucket), "listed among those that are not empty", "not")
		}
		for id := range ids {
			e := f.state.entries[id]
			if f.out.ok(index, e != nil && e.bucket == bucket || bucket <= walked || !f.state.complete) {
				continue
			}
			f.out.breach(index, id, "an entry in this bucket", fmt.Sprintf("bucket %d, and no such entry", bucket))
		}
	}
}
