package delay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// awaiting reckons what selections count as whose payoff is awaited, for SilenceAges: by when they began, by what has become of
// the item's others, and by how late payoffs are. All that is kept is counts, so that it adds up over partitions and does not
// depend on the order of arrival; what follows from them is reckoned when a count changes and when event time enters another
// pass (inflight.Scheme.Tick).
type awaiting struct {
	grid    inflight.Scheme
	inParts bool // what is counted by ages is not payoffs, but how much has come

	own     policy.Pages[inflight.Intervals]      // by item: of this partition
	every   inflight.Intervals                    // of all items: of this partition
	others  policy.Totals[inflight.Intervals]     // by item: of other sources; of our own it holds nothing
	awaited map[inflight.Bucket]inflight.Interval // by block: of all other sources and items
	settled policy.Totals[inflight.Outcomes]      // by item
	all     inflight.Outcomes                     // of all items and sources
	ages    sides                                 // of this partition
	theirs  map[int32]*sourceAges                 // by source
	coming  map[int32]*sourceAges                 // by source that tells all anew, until it has
	rows    [2]map[inflight.Bucket]struct{}       // of ages, that have changed since they were harvested

	pass       int64     // of this partition; inflight.Never before the first
	newest     int64     // the end of the pass in which the newest payoff was paid, of this partition; inflight.Never before the first
	made       estimated // as of the last pass
	unwritten  bool      // it has not been harvested
	newer      bool      // newest has not been harvested
	wroteBelow bool      // what was estimated of payoffs below the default stands in the store

	first int64     // in a whole: the earliest pass of all sources
	whole *awaiting // what is told of all sources, where it is not told here: see share
	heeds uint64    // of whole's estimates: which own spans go by

	none     float64                      // the default, normalised
	worth    policy.Pages[inflight.Worth] // by item: what its awaited selections count as
	silentOf policy.Pages[int64]          // by item: likewise those of this partition alone, in units; see weightUnits
	silent   int64                        // the sum of these
	byBlock  bool                         // what is silent is asked for by when it began
	expects  bool                         // and what was expected of it
	shares   policy.Pages[itemShares]     // by item, with byBlock: as of when some were awaited last
	quiets   []unpaid                     // memory for those of one item
	heardOf  inflight.Intervals           // likewise
}

// estimated is what is known of all items and sources together, as of a pass.
type estimated struct {
	number uint64 // how many there were before; 0 where there is none but what was stored
	heard  int64  // up to when silence counts, see until; inflight.Never before the first
	late   [2]inflight.DelayDistribution
	share  float64 // of all selections, how many are paid
	// below is how many of these are paid below the default; where payoffs come in parts, the share of returns in all parts.
	below float64
	low   float64 // the mean of those, normalised; 0 where payoffs come in parts
}

// sides are ages of payoffs that are not below the default, and of those that are; where payoffs come in parts, of the parts that raise a
// sum, and of returns, which lower it.
type sides [2]inflight.Ages

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
	// newest is the end of the pass in which its newest payoff was paid; inflight.Never before the first.
	newest int64
}

func newSourceAges() *sourceAges { return &sourceAges{newest: inflight.Never} }

func newAwaiting(s Silence) *awaiting {
	a := &awaiting{grid: inflight.NewScheme(s.Horizon), inParts: s.InParts, pass: inflight.Never, newest: inflight.Never, first: inflight.Never, made: estimated{heard: inflight.Never, share: 0.5},
		theirs: map[int32]*sourceAges{}, coming: map[int32]*sourceAges{}, awaited: map[inflight.Bucket]inflight.Interval{}, none: s.Default, byBlock: s.Drift > 0,
		rows: [2]map[inflight.Bucket]struct{}{{}, {}}}
	a.settled = policy.NewTotals(func(_ int32, before, after inflight.Outcomes) {
		a.all = a.all.Add(after).Add(inflight.Outcomes{Paid: -before.Paid, Unpaid: -before.Unpaid, Below: -before.Below, Under: -before.Under})
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
		a.settled.AddOwn(fb.Item, inflight.Outcomes{Paid: 1, Below: 1, Under: history.InUnits(a.none) - history.InUnits(fb.Payoff)}, 1)
	case what == isPaid:
		a.paid(fb, sideAbove, 1)
		a.settled.AddOwn(fb.Item, inflight.Outcomes{Paid: 1}, 1)
	case what == isDefaulted:
		a.settled.AddOwn(fb.Item, inflight.Outcomes{Unpaid: 1}, 1)
	}
	a.reckon(fb.Item)
}

// part notes a part of a payoff of so many units; returns are less than 0.
func (a *awaiting) part(fb *Feedback, size int64) {
	switch {
	case !a.inParts:
	case size > 0:
		a.paid(fb, sideAbove, size)
	case size < 0:
		a.paid(fb, sideBelow, -size)
	}
}

// paid counts a payoff, or so much of one, by its age.
func (a *awaiting) paid(fb *Feedback, side int, n int64) {
	row := a.ages[side].Row(&a.grid, fb.Began, a.pass)
	a.ages[side].Add(&a.grid, row, fb.Age, n)
	a.rows[side][row] = struct{}{}
	a.delivered(fb.Began + fb.Age)
}

// delivered notes that a payoff of a time has been delivered. One whose time is after the pass counts as paid in it, for a clock that
// is ahead must not end the wait for the payoffs that are not delivered yet.
func (a *awaiting) delivered(at int64) {
	if a.pass != inflight.Never {
		at = min(at, a.pass)
	}
	if end := a.grid.Tick(at) + a.grid.TickLength(); end > a.newest {
		a.newest, a.newer = end, true
	}
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
	all, own, shares := a.reckoned(i)
	if a.whole == nil {
		*a.worth.At(i) = all
		if a.byBlock {
			*a.shares.At(i) = shares
		}
	}
	units, before := int64(own.Sum()*weightUnits), a.silentOf.Get(i)
	if units == before {
		return
	}
	a.silent += units - before
	*a.silentOf.At(i) = units
}

// reckoned is what the awaited selections of an item count as: all of them, and those of this partition.
func (a *awaiting) reckoned(i policy.Item) (all, own inflight.Worth, shares itemShares) {
	ours, others := a.own.Get(i), a.elsewhere(i)
	if len(ours) == 0 && len(others) == 0 {
		return all, own, shares
	}
	if !a.inParts { // where payoffs come in parts nothing is silent, and a selection counts as what should have come by now
		e := a.now()
		shares.paid, shares.below = inflight.ItemShares(e.share, e.below, a.settled.Pooled(i), ours, others)
	}
	all = inflight.Weigh(shares.paid, shares.below, ours, others)
	if own = all; len(others) > 0 {
		own = inflight.Weigh(shares.paid, shares.below, ours)
	}
	if a.inParts {
		all.Back = inflight.Back(a.now().below, ours, others)
	}
	return all, own, shares
}

// worthOf is what all awaited selections of an item count as.
func (a *awaiting) worthOf(i policy.Item) inflight.Worth {
	if a.whole == nil {
		return a.worth.Get(i)
	}
	all, _, _ := a.reckoned(i)
	return all
}

// sharesOf are the shares by which awaited selections of an item are weighed.
func (a *awaiting) sharesOf(i policy.Item) itemShares {
	if a.whole == nil {
		return a.shares.Get(i)
	}
	_, _, shares := a.reckoned(i)
	return shares
}

// elsewhere are the selections of an item that other sources await. They hold until the next call.
func (a *awaiting) elsewhere(i policy.Item) inflight.Intervals {
	others := a.others.Pooled(i)
	if a.whole == nil || len(others) == 0 {
		return others
	}
	a.heardOf = append(a.heardOf[:0], others...) // the whole's own must stay as they are
	a.hearIn(a.heardOf)
	return a.heardOf
}

// now is what is known of all items and sources together: what was estimated last, or stored.
func (a *awaiting) now() *estimated {
	if a.whole != nil && a.whole.made.number > 0 {
		return &a.whole.made
	}
	return &a.made
}

// itemShares are how many of an item's selections are paid, and how many of these below the default.
type itemShares struct{ paid, below float64 }

// spansOf are the awaited selections of an item, of all sources, in blocks that do not overlap.
func (a *awaiting) spansOf(i policy.Item) inflight.Intervals {
	ours, others := a.own.Get(i), a.elsewhere(i)
	if len(others) == 0 {
		return ours
	}
	all := ours.Add(others)
	a.hearIn(all)
	return all
}

// unpaid are the awaited selections of an item by when they began, in the order of time, and what they count as. They hold until
// the next call.
func (a *awaiting) quiet(i policy.Item) []unpaid {
	all, c := a.quiets[:0], a.sharesOf(i)
	for _, spans := range [...]inflight.Intervals{a.elsewhere(i), a.own.Get(i)} {
		both := len(all) > 0 && len(spans) > 0
		for k := range spans {
			all = append(all, unpaid{spans[k].Middle(), spans[k].Weigh(c.paid, c.below)})
		}
		if both {
			slices.SortFunc(all, func(x, y unpaid) int {
				return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.Unpaid, y.Unpaid), cmp.Compare(x.Below, y.Below))
			})
		}
	}
	a.quiets = all
	return all
}

// until is up to when silence counts: the earliest pass of all sources, or the end of the pass of the newest payoff of all if that is
// earlier. A partition without an owner reads no payoffs, and a payoff may lie in a file that is delivered at night: selections whose
// payoff cannot have been read yet are not silent.
func (a *awaiting) until() int64 {
	newest := a.newest
	for _, s := range a.theirs {
		newest = max(newest, s.newest)
	}
	return min(a.earliest(), newest)
}

// earliest is the earliest pass of all sources.
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
// have merged, is told to changed. Where a whole estimates, that are the latter alone.
func (a *awaiting) advance(watermark int64, changed func(i policy.Item, merged bool)) {
	pass := a.grid.Tick(watermark)
	if pass <= a.pass {
		return
	}
	behind := a.whole != nil && a.now().heard > a.pass // then silence was heard up to the pass before, and of all
	a.pass, a.unwritten = pass, true
	var merged []policy.Item
	for i, own := range a.own.All() {
		if len(*own) > 0 && own.Merge(&a.grid, pass) {
			merged = append(merged, i)
		}
	}
	a.every.Merge(&a.grid, pass)
	for side := range a.ages {
		a.ages[side].Merge(&a.grid, pass, func(row inflight.Bucket) { a.rows[side][row] = struct{}{} })
	}
	if a.whole != nil && !behind {
		a.hearIn(a.every)
		for _, i := range merged {
			a.hearIn(a.own.Get(i))
			a.reckon(i)
			changed(i, true)
		}
		return
	}
	if a.whole != nil {
		a.hear()
	} else {
		a.estimate(a.until())
	}
	a.eachAwaited(func(i policy.Item) {
		a.reckon(i)
		_, own := slices.BinarySearch(merged, i)
		changed(i, own)
	})
}

// estimate finds how late payoffs are, and how many come, of what was heard up to then. Those below the default are told apart once
// there are any.
func (a *awaiting) estimate(heard int64) {
	e := &a.made
	e.number++
	e.heard = heard
	if a.inParts {
		e.late, e.below = inflight.Apart(&a.grid, heard, history.Units, a.agesOf(sideAbove), a.agesOf(sideBelow))
		a.hear()
		return
	}
	e.late[sideAbove] = a.lateness(sideAbove)
	if e.late[sideBelow] = (inflight.DelayDistribution{}); a.all.Below > 0 {
		e.late[sideBelow] = a.lateness(sideBelow)
	}
	a.hear()
	if e.share, e.below = inflight.Shares(a.all, a.every, a.theirEvery()); e.below > 0 {
		e.low = a.none - float64(a.all.Under)/float64(a.all.Below)/history.Units
	}
}

// lateness is that of one side, of all sources.
func (a *awaiting) lateness(side int) inflight.DelayDistribution {
	return inflight.Estimate(&a.grid, a.made.heard, 1, a.agesOf(side)...)
}

// agesOf are those of one side, of all sources.
func (a *awaiting) agesOf(side int) []*inflight.Ages {
	ages := []*inflight.Ages{&a.ages[side]}
	for _, source := range slices.Sorted(maps.Keys(a.theirs)) {
		ages = append(ages, &a.theirs[source].ages[side])
	}
	return ages
}

// hear finds for all spans how many payoffs have come by their age.
func (a *awaiting) hear() {
	a.hearIn(a.every)
	a.eachAwaited(func(i policy.Item) {
		a.hearIn(a.own.Get(i))
		if a.whole == nil {
			a.hearIn(a.others.Pooled(i))
		}
	})
}

// eachAwaited calls do for each item of which selections are awaited, in ascending order: here or elsewhere, or where a whole has
// those of elsewhere, here.
func (a *awaiting) eachAwaited(do func(policy.Item)) {
	for i := range policy.Item(a.settled.Len()) {
		if len(a.own.Get(i)) > 0 || a.whole == nil && len(a.others.Pooled(i)) > 0 {
			do(i)
		}
	}
}

func (a *awaiting) hearIn(spans inflight.Intervals) {
	for k := range spans {
		a.hearOf(&spans[k])
	}
}

func (a *awaiting) hearOf(x *inflight.Interval) {
	e, heard := a.now(), a.heard()
	x.Above = e.late[sideAbove].Share(&a.grid, x.Bucket, heard)
	x.Come = x.Above
	if e.late[sideBelow].Known() {
		x.Below = e.late[sideBelow].Share(&a.grid, x.Bucket, heard)
	}
}

// heard is up to when silence counts here: none after the own pass, behind which a whole may be ahead that has not been told of it.
func (a *awaiting) heard() int64 { return min(a.now().heard, a.pass) }

// theirEvery is what all other sources await, of all items.
func (a *awaiting) theirEvery() inflight.Intervals {
	spans := inflight.IntervalsOf(a.awaited)
	a.hearIn(spans)
	return spans
}

// count adds selections that are awaited, so many times, to counts by block.
func count(counts map[inflight.Bucket]inflight.Interval, spans inflight.Intervals, times int64) {
	for _, x := range spans {
		if n := counts[x.Bucket].N + times*x.N; n != 0 {
			counts[x.Bucket] = inflight.Interval{Bucket: x.Bucket, N: n, Expected: counts[x.Bucket].Expected + times*x.Expected}
		} else {
			delete(counts, x.Bucket)
		}
	}
}
