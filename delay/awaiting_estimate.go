package delay

import (
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// until returns the time up to which a missing payoff is evidence: the earliest tick of all sources, or the end of the newest
// payoff's tick if that is earlier. A partition without an owner reads no payoffs, and a nightly file delivers them late: a
// selection whose payoff cannot have been read yet is no evidence.
func (a *awaiting) until() int64 {
	newest := a.newest
	for _, s := range a.theirs {
		newest = max(newest, s.newest)
	}
	return min(a.earliest(), newest)
}

// earliest returns the earliest tick of all sources.
func (a *awaiting) earliest() int64 {
	tick := a.tick
	for _, s := range a.theirs {
		if s.tickRead {
			tick = min(tick, s.tick)
		}
	}
	return tick
}

// readTicks reads the sources' ticks, and returns whether an estimate is due.
func (a *awaiting) readTicks() bool {
	before, first := a.tick, a.first
	a.tick = inflight.Never
	for _, s := range a.theirs {
		if s.tickRead {
			a.tick = max(a.tick, s.tick)
		}
	}
	a.first = a.earliest()
	return a.tick > before || a.tick != inflight.Never && a.first != first
}

// advance moves event time on. At a new tick it merges buckets and recomputes the estimate and all weights. It calls changed for
// each item with selections in flight, or, where a global learner estimates, for items whose intervals have merged.
func (a *awaiting) advance(watermark int64, changed func(i policy.Item, merged bool)) {
	behind := a.global != nil && a.now().until > a.tick // the weights are as of the previous tick then, all of them
	merged, ticked := a.reach(watermark)
	if !ticked {
		return
	}
	if a.global != nil && !behind {
		a.updateSharesIn(a.every)
		for _, i := range merged {
			a.updateSharesIn(a.ours(i))
			a.reweigh(i)
			changed(i, true)
		}
		return
	}
	if a.global != nil {
		a.updateShares()
	} else {
		a.estimate(a.until())
	}
	a.eachAwaited(func(i policy.Item) {
		a.reweigh(i)
		_, own := slices.BinarySearch(merged, i)
		changed(i, own)
	})
}

// reach merges buckets if a watermark begins a new tick, and returns the items whose intervals have merged.
func (a *awaiting) reach(watermark int64) (merged []policy.Item, ticked bool) {
	tick := a.grid.Tick(watermark)
	if tick <= a.tick {
		return nil, false
	}
	a.tick, a.unwritten = tick, true
	if len(a.every) > 0 && a.every[0].End() <= a.since { // a bucket with since in it has merged, and may have no earlier selection
		a.since = a.every[0].Start()
	}
	return a.mergeBuckets(), true
}

// mergeBuckets merges all buckets to those of the tick, and returns the items whose intervals have merged. Lengths of buckets and ticks
// follow the time that this partition's selections cover. Since and the tick change together, so that all buckets are as of one length,
// and a restored learner has the same.
func (a *awaiting) mergeBuckets() (merged []policy.Item) {
	a.grid.Cover(a.tick - a.since)
	for i, own := range a.column.EachOwn() {
		if own.Spans.Merge(&a.grid, a.tick) {
			merged = append(merged, i)
		}
	}
	a.every.Merge(&a.grid, a.tick)
	for side := range a.ages {
		a.ages[side].Merge(&a.grid, a.tick, func(row inflight.Bucket) { a.rows[side][row] = struct{}{} })
	}
	return merged
}

// estimate computes delay distributions and payment shares from records up to until. Payoffs below the default have a distribution
// of their own once there are any.
func (a *awaiting) estimate(until int64) {
	e := &a.made
	e.number++
	e.until = until
	if a.law.InParts {
		e.late, e.below = inflight.Apart(&a.grid, until, history.Units, a.agesOf(sideAbove), a.agesOf(sideBelow))
		a.updateShares()
		return
	}
	e.late = [2]inflight.DelayDistribution{inflight.Estimate(&a.grid, until, 1, a.agesOf(sideAbove)...)}
	if a.all.Below > 0 {
		e.late[sideBelow] = inflight.Estimate(&a.grid, until, 1, a.agesOf(sideBelow)...)
	}
	a.updateShares()
	if e.share, e.below = inflight.Shares(a.all, a.every, a.theirEvery()); e.below > 0 {
		e.low = float64(a.all.Low) / float64(a.all.Below) / history.Units
	}
	e.compare(a)
}

// agesOf returns the delays of one side, by source, our own first.
func (a *awaiting) agesOf(side int) []*inflight.Ages {
	ages := []*inflight.Ages{&a.ages[side]}
	for _, source := range slices.Sorted(maps.Keys(a.theirs)) {
		ages = append(ages, &a.theirs[source].ages[side])
	}
	return ages
}
