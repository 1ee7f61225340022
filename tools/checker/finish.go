package checker

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

func (f *fold) finish() {
	f.checkWitnesses()
	f.doubtKept()
	f.held = max(f.held, int64(len(f.lives)))
	texts := make(map[string]string, len(f.lives))
	for id, l := range f.lives {
		texts[storedID(id)] = id
		f.compare(id, l)
	}
	for id, e := range f.state.entries {
		if _, lives := texts[id]; !lives && !f.partial {
			f.phantom(fmt.Sprintf("%x", id), e)
		} else {
			f.out.ok(entriesPhantom, true)
		}
	}
	f.checkStored()
	f.checkLearners()
	f.checkExperiments()
	f.checkAccount()
	f.checkShares()
	f.checkWarmed()
	f.checkIndex()
	f.checkDeltas(f.state.writer)
	if f.ranked.foreign > 0 {
		f.out.skip("%d rankings name this group, and none of its workers has written them", f.ranked.foreign)
	}
	if f.unordered > 0 && !f.partial {
		f.out.skip("the order of %d records is not in the log: outcomes of their impressions are not compared", f.unordered)
	}
}

// checkWitnesses checks that each input's witness is the last record before the checkpoint, and that of rankings a record.
func (f *fold) checkWitnesses() {
	at := f.state.rankings.witness.offset
	f.out.must(metaWitness, f.ranked.witnessed || at < f.ranked.from, roles[event.Rankings], say("a record at offset %d", at), "none")
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

// checkStored compares the account's counts of stored entries with the entries.
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

// checkIndex checks that every entry is in a listed page of an open bucket. The bucket is no later than the entry's next deadline, by at
// most 10 s or 1/256 of the distance. Else the entry would expire late, or never. No listed page is empty.
func (f *fold) checkIndex() {
	walked := f.state.watermark / bucketWidth
	used := map[string]bool{}
	for id, e := range f.state.entries {
		used[e.page] = true
		bucket, listed := f.state.pages[e.page]
		deadline := max(e.nextDeadline(), 0)
		away := deadline
		if e.kind == pending {
			away = max(deadline-max(e.began, 0), 0)
		}
		latest := max(deadline/bucketWidth+away/256/bucketWidth, walked)
		f.out.must(index, listed && bucket >= f.state.floor && bucket <= latest, say("%x", id),
			say("in a page of a bucket within %d and %d", f.state.floor, latest),
			say("page %s of bucket %d, listed: %t", e.page, bucket, listed))
	}
	for page, bucket := range f.state.pages {
		f.out.must(index, used[page] || !f.state.complete, "page "+page, "an entry in it", say("none, listed in bucket %d", bucket))
	}
}
