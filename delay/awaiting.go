package delay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
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

	own     policy.Pages[silence.Spans]     // by item: of this partition
	every   silence.Spans                   // of all items: of this partition
	others  policy.Totals[silence.Spans]    // by item: of other sources; of our own it holds nothing
	awaited map[silence.Block]silence.Span  // by block: of all other sources and items
	settled policy.Totals[silence.Outcomes] // by item
	all     silence.Outcomes                // of all items and sources
	ages    sides                           // of this partition
	theirs  map[int32]*sourceAges           // by source
	rows    [2]map[silence.Block]struct{}   // of ages, that have changed since they were harvested

	// As of the last pass, silence.Never before the first:
	pass       int64 // of this partition
	heard      int64 // up to when silence counts: the earliest pass of all sources
	late       [2]silence.Lateness
	share      float64 // of all selections, how many are paid
	below      float64 // of these, how many below the default
	low        float64 // and what those are paid in the mean, normalised
	unwritten  bool    // it has not been harvested
	wroteBelow bool    // what was estimated of payoffs below the default stands in the store

	none     float64                     // the default, normalised
	worth    policy.Pages[silence.Worth] // by item: what its awaited selections count as
	silentOf policy.Pages[int64]         // by item: likewise those of this partition alone, in units; see weightUnits
	silent   int64                       // the sum of these
	byBlock  bool                        // what is silent is asked for by when it began
	expects  bool                        // and what was expected of it
	shares   policy.Pages[itemShares]    // by item, with byBlock: as of when some were awaited last
	quiets   []quiet                     // memory for those of one item
}

// sides are ages of payoffs that are not below the default, and of those that are.
type sides [2]silence.Ages

// The sides of sides.
const (
	sideAbove = iota
	sideBelow
)

// sourceAges is what another source has told of ages.
type sourceAges struct {
	ages sides
	pass int64
	told bool // pass is known
}

func newAwaiting(s Silence) *awaiting {
	a := &awaiting{grid: silence.NewGrid(s.Horizon), inParts: s.InParts, share: 0.5, pass: silence.Never, heard: silence.Never,
		theirs: map[int32]*sourceAges{}, awaited: map[silence.Block]silence.Span{}, none: s.Default, byBlock: s.Drift > 0,
		rows: [2]map[silence.Block]struct{}{{}, {}}}
	a.settled = policy.NewTotals(func(_ int32, before, after silence.Outcomes) {
		a.all = a.all.Add(after).Add(silence.Outcomes{Paid: -before.Paid, Unpaid: -before.Unpaid, Below: -before.Below, Under: -before.Under})
	})
	return a
}

func (a *awaiting) grow(items int) {
	a.others.Grow(items)
	a.settled.Grow(items)
}

// begin notes a selection.
func (a *awaiting) begin(fb *Feedback) {
	expected := a.expected(fb)
	a.hearOf(a.every.Begin(&a.grid, fb.Began, a.pass, expected))
	a.hearOf(a.own.At(fb.Item).Begin(&a.grid, fb.Began, a.pass, expected))
	a.reckon(fb.Item)
}

// expected is what the decision expected of the selection above the default, where it said so.
func (a *awaiting) expected(fb *Feedback) int64 {
	if !a.expects || !fb.HasExpected {
		return 0
	}
	return history.InUnits(fb.Expected) - history.InUnits(a.none)
}

// end notes what has become of a selection that was awaited, one of so many of the item. Where it is not known when it began,
// it is one that no span has; or if all have one (it was selected before a reset of the learner, and so was not counted), the
// oldest is taken, so that no span is left behind for ever.
func (a *awaiting) end(fb *Feedback, what outcome, awaited policy.Count) {
	own, began := a.own.At(fb.Item), fb.Began
	expected, ended := own.End(began, a.expected(fb))
	if !ended && own.Count() >= int64(awaited) {
		began = (*own)[0].Start()
		expected, ended = own.End(began, a.expected(fb))
	}
	if ended {
		a.every.End(began, expected)
	}
	switch {
	case a.inParts:
	case what == isPaid && fb.Payoff < a.none:
		a.paid(fb, sideBelow, 1)
		a.settled.AddOwn(fb.Item, silence.Outcomes{Paid: 1, Below: 1, Under: history.InUnits(a.none) - history.InUnits(fb.Payoff)}, 1)
	case what == isPaid:
		a.paid(fb, sideAbove, 1)
		a.settled.AddOwn(fb.Item, silence.Outcomes{Paid: 1}, 1)
	case what == isDefaulted:
		a.settled.AddOwn(fb.Item, silence.Outcomes{Unpaid: 1}, 1)
	}
	a.reckon(fb.Item)
}

// part notes that so many units of a payoff have come, or were taken back.
func (a *awaiting) part(fb *Feedback, size int64) {
	if a.inParts && size > 0 {
		a.paid(fb, sideAbove, size)
	}
}

// paid counts a payoff, or so much of one, by its age. Parts are all on one side: what they come to is not known yet.
func (a *awaiting) paid(fb *Feedback, side int, n int64) {
	row := a.ages[side].Row(&a.grid, fb.Began, a.pass)
	a.ages[side].Add(&a.grid, row, fb.Age, n)
	a.rows[side][row] = struct{}{}
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
	ours, others := a.own.Get(i), a.others.Pooled(i)
	var all, own silence.Worth
	if len(ours) > 0 || len(others) > 0 {
		c, low := 0.0, 0.0 // where payoffs come in parts nothing is silent, and a selection counts as what should have come by now
		if !a.inParts {
			c, low = silence.ItemShares(a.share, a.below, a.settled.Pooled(i), ours, others)
		}
		if a.byBlock {
			*a.shares.At(i) = itemShares{c, low}
		}
		all = silence.Weigh(c, low, ours, others)
		if own = all; len(others) > 0 {
			own = silence.Weigh(c, low, ours)
		}
	}
	*a.worth.At(i) = all
	units, before := int64(own.Sum()*weightUnits), a.silentOf.At(i)
	a.silent += units - *before
	*before = units
}

// itemShares are how many of an item's selections are paid, and how many of these below the default.
type itemShares struct{ paid, below float64 }

// spansOf are the awaited selections of an item, of all sources, in blocks that do not overlap.
func (a *awaiting) spansOf(i policy.Item) silence.Spans {
	ours, others := a.own.Get(i), a.others.Pooled(i)
	if len(others) == 0 {
		return ours
	}
	all := ours.Add(others)
	a.hearIn(all)
	return all
}

// quiet are the awaited selections of an item by when they began, in the order of time, and what they count as. They hold until
// the next call.
func (a *awaiting) quiet(i policy.Item) []quiet {
	all, c := a.quiets[:0], a.shares.Get(i)
	for _, spans := range [...]silence.Spans{a.others.Pooled(i), a.own.Get(i)} {
		both := len(all) > 0 && len(spans) > 0
		for k := range spans {
			all = append(all, quiet{spans[k].Middle(), spans[k].Weigh(c.paid, c.below)})
		}
		if both {
			slices.SortFunc(all, func(x, y quiet) int {
				return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.Unpaid, y.Unpaid), cmp.Compare(x.Below, y.Below))
			})
		}
	}
	a.quiets = all
	return all
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
	merged := make([]bool, a.settled.Len())
	for i, own := range a.own.All() {
		if len(*own) > 0 {
			merged[i] = own.Merge(&a.grid, pass)
		}
	}
	a.every.Merge(&a.grid, pass)
	for side := range a.ages {
		a.ages[side].Merge(&a.grid, pass, func(row silence.Block) { a.rows[side][row] = struct{}{} })
	}
	a.estimate()
	a.eachAwaited(func(i policy.Item) {
		a.reckon(i)
		changed(i, merged[i])
	})
}

// estimate finds how late payoffs are, and how many come. Those below the default are told apart once there are any.
func (a *awaiting) estimate() {
	a.late[sideAbove] = a.lateness(sideAbove)
	if a.late[sideBelow] = (silence.Lateness{}); a.all.Below > 0 {
		a.late[sideBelow] = a.lateness(sideBelow)
	}
	a.hear()
	if a.inParts {
		return
	}
	if a.share, a.below = silence.Shares(a.all, a.every, a.theirEvery()); a.below > 0 {
		a.low = a.none - float64(a.all.Under)/float64(a.all.Below)/history.Units
	}
}

// lateness is that of one side, of all sources.
func (a *awaiting) lateness(side int) silence.Lateness {
	ages := []*silence.Ages{&a.ages[side]}
	for _, source := range slices.Sorted(maps.Keys(a.theirs)) {
		ages = append(ages, &a.theirs[source].ages[side])
	}
	return silence.Estimate(&a.grid, a.heard, a.onePayoff(), ages...)
}

// onePayoff is what one payoff amounts to by which ages are counted.
func (a *awaiting) onePayoff() float64 {
	if a.inParts {
		return history.Units
	}
	return 1
}

// hear finds for all spans how many payoffs have come by their age.
func (a *awaiting) hear() {
	a.hearIn(a.every)
	a.eachAwaited(func(i policy.Item) {
		a.hearIn(a.own.Get(i))
		a.hearIn(a.others.Pooled(i))
	})
}

// eachAwaited calls do for each item of which selections are awaited, here or elsewhere.
func (a *awaiting) eachAwaited(do func(policy.Item)) {
	for i := range policy.Item(a.settled.Len()) {
		if len(a.own.Get(i)) > 0 || len(a.others.Pooled(i)) > 0 {
			do(i)
		}
	}
}

func (a *awaiting) hearIn(spans silence.Spans) {
	for k := range spans {
		a.hearOf(&spans[k])
	}
}

func (a *awaiting) hearOf(x *silence.Span) {
	x.Above = a.late[sideAbove].Of(&a.grid, x.Block, a.heard)
	x.Come = x.Above
	if a.late[sideBelow].Known() {
		x.Below = a.late[sideBelow].Of(&a.grid, x.Block, a.heard)
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
			counts[x.Block] = silence.Span{Block: x.Block, N: n, Expected: counts[x.Block].Expected + times*x.Expected}
		} else {
			delete(counts, x.Block)
		}
	}
}
