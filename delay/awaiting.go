package delay

import (
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/silence"
	"github.com/ranker-worker/ranker-worker/policy"
)

// awaiting reckons what selections count as whose payoff is awaited, for SilenceAges: by when they began, by what has become of
// the item's others, and by how late payoffs are. All that is kept is counts, so that it adds up over partitions and does not
// depend on the order of arrival; what follows from them is reckoned when a count changes and when event time enters another
// pass (silence.Grid.Pass).
type awaiting struct {
	grid    silence.Grid
	inParts bool // what is counted by ages is not payoffs, but how much has come

	own     []silence.Spans                 // by item: of this partition
	every   silence.Spans                   // of all items: of this partition
	others  policy.Totals[silence.Spans]    // by item: of other sources; of our own it holds nothing
	awaited map[silence.Block]silence.Span  // by block: of all other sources and items
	settled policy.Totals[silence.Outcomes] // by item
	all     silence.Outcomes                // of all items and sources
	ages    silence.Ages                    // of this partition
	theirs  map[int32]*sourceAges           // by source
	rows    map[silence.Block]struct{}      // of ages, that have changed since they were harvested

	// As of the last pass, silence.Never before the first:
	pass      int64 // of this partition
	heard     int64 // up to when silence counts: the earliest pass of all sources
	late      silence.Lateness
	share     float64 // of all selections, how many are paid
	unwritten bool    // it has not been harvested

	weight   []float64 // by item: what its awaited selections count as
	silentOf []int64   // by item: likewise those of this partition alone, in units; see weightUnits
	silent   int64     // the sum of these
}

// sourceAges is what another source has told of ages.
type sourceAges struct {
	ages silence.Ages
	pass int64
	told bool // pass is known
}

func newAwaiting(s Silence) *awaiting {
	a := &awaiting{grid: silence.NewGrid(s.Horizon), inParts: s.InParts, share: 0.5, pass: silence.Never, heard: silence.Never,
		theirs: map[int32]*sourceAges{}, awaited: map[silence.Block]silence.Span{}, rows: map[silence.Block]struct{}{}}
	a.settled = policy.NewTotals(func(_ int32, before, after silence.Outcomes) {
		a.all.Paid += after.Paid - before.Paid
		a.all.Unpaid += after.Unpaid - before.Unpaid
	})
	return a
}

func (a *awaiting) grow(items int) {
	a.others.Grow(items)
	a.settled.Grow(items)
	a.own = extend(a.own, items-len(a.own))
	a.weight = extend(a.weight, items-len(a.weight))
	a.silentOf = extend(a.silentOf, items-len(a.silentOf))
}

// begin notes a selection.
func (a *awaiting) begin(i policy.Item, began int64) {
	a.every.Begin(&a.grid, began, a.pass)
	x := a.own[i].Begin(&a.grid, began, a.pass)
	x.Come = a.late.By(&a.grid, x.Age(a.heard))
	a.reckon(i)
}

// end notes what has become of a selection that was awaited, one of so many of the item. Where it is not known when it began,
// it is one that no span has; or if all have one (it was selected before a reset of the learner, and so was not counted), the
// oldest is taken, so that no span is left behind for ever.
func (a *awaiting) end(fb *Feedback, what outcome, awaited policy.Count) {
	own, began := &a.own[fb.Item], fb.Began
	ended := own.End(began)
	if !ended && own.Count() >= int64(awaited) {
		began = (*own)[0].Start()
		ended = own.End(began)
	}
	if ended {
		a.every.End(began)
	}
	switch {
	case a.inParts:
	case what == isPaid:
		a.paid(fb, 1)
		a.settled.AddOwn(fb.Item, silence.Outcomes{Paid: 1}, 1)
	case what == isDefaulted:
		a.settled.AddOwn(fb.Item, silence.Outcomes{Unpaid: 1}, 1)
	}
	a.reckon(fb.Item)
}

// part notes that so many units of a payoff have come, or were taken back.
func (a *awaiting) part(fb *Feedback, size int64) {
	if a.inParts && size > 0 {
		a.paid(fb, size)
	}
}

// paid counts a payoff, or so much of one, by its age.
func (a *awaiting) paid(fb *Feedback, n int64) {
	row := a.ages.Row(&a.grid, fb.Began, a.pass)
	a.ages.Add(&a.grid, row, fb.Age, n)
	a.rows[row] = struct{}{}
}

// outcome is what has become of a selection.
type outcome uint8

const (
	isDropped   outcome = iota // its payoff is not known, and never will be
	isPaid                     // its payoff has come
	isDefaulted                // it has expired
)

// reckon says what the awaited selections of an item count as.
func (a *awaiting) reckon(i policy.Item) {
	ours, others := a.own[i], a.others.Pooled(i)
	var all, own float64
	if len(ours) > 0 || len(others) > 0 {
		c := 0.0 // where payoffs come in parts nothing is silent, and a selection counts as what should have come by now
		if !a.inParts {
			c = silence.ItemShare(a.share, a.settled.Pooled(i), ours, others)
		}
		all = silence.Weight(c, ours, others)
		if own = all; len(others) > 0 {
			own = silence.Weight(c, ours)
		}
	}
	a.weight[i] = all
	units := int64(own * weightUnits)
	a.silent += units - a.silentOf[i]
	a.silentOf[i] = units
}

// earliest is the earliest pass of all sources. Of a partition that has no owner for a while nobody hears whether payoffs come,
// and so its silence means nothing.
func (a *awaiting) earliest() int64 {
	pass := a.pass
	for _, s := range a.theirs {
		if s.told {
			pass = min(pass, s.pass)
		}
	}
	return pass
}

// advance takes event time on. With a new pass, blocks merge, and all is reckoned anew; each item that is awaited, or whose spans
// have merged, is told to changed.
func (a *awaiting) advance(watermark int64, changed func(i policy.Item, merged bool)) {
	pass := a.grid.Pass(watermark)
	if pass <= a.pass {
		return
	}
	a.pass, a.unwritten = pass, true
	a.heard = a.earliest()
	merged := make([]bool, len(a.own))
	for i := range a.own {
		merged[i] = len(a.own[i]) > 0 && a.own[i].Merge(&a.grid, pass)
	}
	a.every.Merge(&a.grid, pass)
	a.ages.Merge(&a.grid, pass, func(row silence.Block) { a.rows[row] = struct{}{} })
	ages := []*silence.Ages{&a.ages}
	for _, source := range slices.Sorted(maps.Keys(a.theirs)) {
		ages = append(ages, &a.theirs[source].ages)
	}
	a.late = silence.Estimate(&a.grid, a.heard, a.onePayoff(), ages...)
	a.hear()
	if !a.inParts {
		a.share = silence.Share(a.all, a.every, a.theirEvery())
	}
	for i := range a.own {
		if len(a.own[i]) > 0 || len(a.others.Pooled(policy.Item(i))) > 0 {
			a.reckon(policy.Item(i))
			changed(policy.Item(i), merged[i])
		}
	}
}

// onePayoff is what one payoff amounts to by which ages are counted.
func (a *awaiting) onePayoff() float64 {
	if a.inParts {
		return partUnits
	}
	return 1
}

// hear finds for all spans how many payoffs have come by their age.
func (a *awaiting) hear() {
	a.hearIn(a.every)
	for i := range a.own {
		a.hearIn(a.own[i])
		a.hearIn(a.others.Pooled(policy.Item(i)))
	}
}

func (a *awaiting) hearIn(spans silence.Spans) {
	for k := range spans {
		spans[k].Come = a.late.By(&a.grid, spans[k].Age(a.heard))
	}
}

// theirEvery is what all other sources await, of all items.
func (a *awaiting) theirEvery() silence.Spans {
	spans := silence.SpansOf(a.awaited)
	a.hearIn(spans)
	return spans
}

// count adds selections that are awaited, so many times, to counts by block.
func count(counts map[silence.Block]silence.Span, spans silence.Spans, times int64) {
	for _, x := range spans {
		if n := counts[x.Block].N + times*x.N; n != 0 {
			counts[x.Block] = silence.Span{Block: x.Block, N: n}
		} else {
			delete(counts, x.Block)
		}
	}
}
