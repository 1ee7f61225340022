package delay

import (
	"cmp"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// awaiting holds, for SilenceAges, the selections in flight by item and start time, the outcomes of past selections, and the delays
// of their payoffs. From these it computes the weight that each selection in flight has as an unpaid one.
// Only counts are stored, so that they add up over partitions and do not depend on the order of arrival. Weights are computed when
// a count changes and at each tick (inflight.Scheme.Tick).
type awaiting struct {
	grid inflight.Scheme
	law  Silence                       // with partial payoffs ages count amounts that have come, not payoffs
	sums func(policy.Item) policy.Sums // of an item's payoffs, of all sources; nil where values are not estimated

	column  *column[itemFlights]                  // by item
	every   inflight.Intervals                    // of all items, of this partition
	awaited map[inflight.Bucket]inflight.Interval // by bucket, of all other sources and items
	settled column[inflight.Outcomes]             // by item; empty with partial payoffs
	all     inflight.Outcomes                     // of all items and sources
	ages    sides                                 // delays of this partition's payoffs
	theirs  map[int32]*sourceAges                 // by source
	coming  map[int32]*sourceAges                 // by source, during a resync
	rows    [2]map[inflight.Bucket]struct{}       // rows of ages changed since the last harvest

	since      int64     // start of this partition's earliest bucket, when it was first seen at a tick; -inflight.Never before the first
	tick       int64     // the last tick of this partition; inflight.Never before the first
	newest     int64     // end of the tick of this partition's newest payoff; inflight.Never before the first
	made       estimated // estimate as of the last tick
	unwritten  bool      // the estimate has not been harvested
	newer      bool      // newest has not been harvested
	wroteBelow bool      // the store holds an estimate for payoffs below the default

	first  int64     // in a global learner: the earliest tick of all sources
	global *awaiting // the global learner's, which then makes the estimates; nil where there is none, see share
	heeds  uint64    // number of the global estimate in use

	worth         policy.Pages[inflight.Worth] // by item: weight of its selections in flight
	ownWeight     policy.Pages[unitWeights]    // by item: weight of this partition's own
	ownWeights    unitWeights                  // the sum of ownWeight
	byBlock       bool                         // shares are kept by item, for weights by start time
	expects       bool                         // expected payoffs are summed, too
	shares        policy.Pages[itemShares]     // by item, with byBlock: as of the last change
	unpaidScratch []unpaid                     // scratch for one item
	elsewhereCopy inflight.Intervals           // scratch for one item
}

// itemFlights are the selections in flight of one item. Our own number rises with a selection, falls when it ends, and never goes
// below 0. A payoff whose selection was not seen, after a reset of the learner, changes nothing.
type itemFlights struct {
	N     policy.Count
	Spans inflight.Intervals // with SilenceAges: of those whose start times are known
}

// Add implements policy.Summand.
func (f itemFlights) Add(o itemFlights) itemFlights {
	return itemFlights{f.N + o.N, f.Spans.Add(o.Spans)}
}

func (f itemFlights) equal(o itemFlights) bool {
	return f.N == o.N && slices.EqualFunc(f.Spans, o.Spans, func(x, y inflight.Interval) bool { // without derived fields
		return x.Bucket == y.Bucket && x.N == y.N && x.Expected == y.Expected
	})
}

// estimated is the estimate over all items and sources at one tick.
type estimated struct {
	number uint64 // of the estimate, from 1 on; 0 where there is none but a stored one
	until  int64  // time up to which a missing payoff is evidence, see until; inflight.Never before the first
	late   [2]inflight.DelayDistribution
	share  float64 // share of all selections that are paid, in [0,1]
	// below is the share of payoffs below the default; with partial payoffs, the share of returns in all amounts.
	below float64
	low   float64 // mean payoff below the default, normalised; 0 with partial payoffs
	values
}

// values is an estimate of how much items differ in the payoff of a paid selection. An item's mean payoff is its share of paid
// selections times their value. Sizes of orders and shares of returns vary much from one payoff to the next, and may be alike in all
// items. The value is then better known from all items, and only the share paid from the item's own selections.
type values struct {
	high float64 // mean of payoffs that are not below the default, normalised
	// own is the credibility of one payoff: its weight, in [0,1], in its item's value beside that of all items. With n payoffs it is
	// n/(n+κ), where own = 1/(1+κ), and κ is the variance within items over that between them.
	own float64
	// spread is the credibility of the mean number of payoffs of an item: the share of the variance within items that still matters.
	spread float64
	used   bool // own has been below 1
}

func (v *values) set(high, own, spread float64) {
	*v = values{high, own, spread, v.used || own < 1}
}

// sides are the delays of payoffs at or above the default, and of those below it. With partial payoffs they are the delays of
// amounts that raise a sum, and of returns.
type sides [2]inflight.Ages

const (
	sideAbove = iota
	sideBelow
)

// sourceAges are the delays that another source has published.
type sourceAges struct {
	ages     sides
	tick     int64
	tickRead bool
	// newest is the end of the tick of its newest payoff; inflight.Never before the first.
	newest int64
}

func newSourceAges() *sourceAges { return &sourceAges{newest: inflight.Never} }

func newAwaiting(s Silence, f *column[itemFlights]) *awaiting {
	a := &awaiting{column: f, grid: inflight.NewScheme(s.Horizon), law: s, since: -inflight.Never, tick: inflight.Never, newest: inflight.Never,
		first: inflight.Never, made: estimated{until: inflight.Never, share: 0.5, values: values{own: 1, spread: 1}}, theirs: map[int32]*sourceAges{}, coming: map[int32]*sourceAges{},
		awaited: map[inflight.Bucket]inflight.Interval{}, byBlock: s.Drift > 0,
		rows: [2]map[inflight.Bucket]struct{}{{}, {}}}
	a.settled = settledColumn(&a.all)
	a.grid.Cover(0)
	return a
}

// outcome is how a selection ended.
type outcome uint8

const (
	isDropped   outcome = iota // its payoff is unknown and stays so
	isPaid                     // its payoff came
	isDefaulted                // it expired
)

// begin adds a selection to its item's start times. One with a shorter horizon, of another configuration, makes all so far early.
func (a *awaiting) begin(own *itemFlights, fb *Feedback) {
	if fb.Horizon > 0 && fb.Horizon < a.grid.Horizon() {
		early := a.ages[sideAbove].Early.Add(inflight.Early{Horizon: fb.Horizon, Before: fb.Began + 1})
		a.ages[sideAbove].Early, a.ages[sideBelow].Early, a.unwritten = early, early, true
	}
	expected := a.expected(fb)
	a.updateShare(a.every.Begin(&a.grid, fb.Began, a.tick, expected))
	a.updateShare(own.Spans.Begin(&a.grid, fb.Began, a.tick, expected))
}

// expected returns the payoff that the decision expected of the selection, minus the default, in history.Units; 0 where it recorded none.
func (a *awaiting) expected(fb *Feedback) int64 {
	if !a.expects || !fb.HasExpected {
		return 0
	}
	return history.InUnits(fb.Expected) - history.InUnits(a.law.Default)
}

// end removes a selection from its item's start times and counts its outcome. An unknown start time means that no interval contains
// it. If every selection of the item has an interval, which happens after a reset of the learner, the oldest is taken instead, so
// that none stays for ever.
func (a *awaiting) end(own *itemFlights, fb *Feedback, what outcome) {
	began := fb.Began
	expected, ended := own.Spans.End(began, a.expected(fb))
	if !ended && own.Spans.Count() >= int64(own.N) {
		began = own.Spans[0].Start()
		expected, ended = own.Spans.End(began, a.expected(fb))
	}
	if ended {
		a.every.End(began, expected)
	}
	switch {
	case a.law.InParts:
	case what == isPaid:
		outcome, side := paidOutcome(fb.Payoff, a.law.Default), sideAbove
		if outcome.Below > 0 {
			side = sideBelow
		}
		a.paid(fb, side, 1)
		a.settled.AddOwn(fb.Item, outcome, 1)
	case what == isDefaulted:
		a.settled.AddOwn(fb.Item, inflight.Outcomes{Unpaid: 1}, 1)
	}
}

// paidOutcome counts a payoff, beside the default of unpaid selections.
func paidOutcome(payoff, none float64) inflight.Outcomes {
	if payoff < none {
		return inflight.Outcomes{Paid: 1, Below: 1, Low: history.InUnits(payoff)}
	}
	return inflight.Outcomes{Paid: 1}
}

// part counts an amount of a payoff, in history.Units; returns are negative.
func (a *awaiting) part(fb *Feedback, size int64) {
	switch {
	case !a.law.InParts:
	case size > 0:
		a.paid(fb, sideAbove, size)
	case size < 0:
		a.paid(fb, sideBelow, -size)
	}
}

// paid counts a payoff, or n units of one, by its delay.
func (a *awaiting) paid(fb *Feedback, side int, n int64) {
	row := a.ages[side].Row(&a.grid, fb.Began, a.tick)
	a.ages[side].Add(&a.grid, row, fb.Age, n)
	a.rows[side][row] = struct{}{}
	a.delivered(fb.Began + fb.Age)
}

// delivered notes the time of the newest delivered payoff. A time after the tick counts as the tick: a clock that is ahead must not
// end the wait for payoffs that are not delivered yet.
func (a *awaiting) delivered(at int64) {
	if a.tick != inflight.Never {
		at = min(at, a.tick)
	}
	if end := a.grid.Tick(at) + a.grid.TickLength(); end > a.newest {
		a.newest, a.newer = end, true
	}
}

// weightUnits is the number of units per selection in sums of weights, which are exact in them.
const weightUnits = 1 << 20

// reweigh computes the weight of an item's selections in flight.
func (a *awaiting) reweigh(i policy.Item) {
	all, own, shares := a.flightWeights(i)
	if a.global == nil {
		*a.worth.At(i) = all
		if a.byBlock {
			*a.shares.At(i) = shares
		}
	}
	units, before := unitWeights{int64(own.Sum() * weightUnits), int64(own.Below * weightUnits)}, a.ownWeight.Get(i)
	if units == before {
		return
	}
	a.ownWeights.sum += units.sum - before.sum
	a.ownWeights.below += units.below - before.below
	if *a.ownWeight.At(i) = units; units == (unitWeights{}) {
		a.ownWeight.Remove(i)
	}
}

// unitWeights are the weight of selections in flight, and the part of it for payoffs below the default, in weightUnits.
type unitWeights struct{ sum, below int64 }

// flightWeights returns the weight of an item's selections in flight: of all sources, and of this partition.
func (a *awaiting) flightWeights(i policy.Item) (all, own inflight.Worth, shares itemShares) {
	ours, others := a.ours(i), a.elsewhere(i)
	if len(ours) == 0 && len(others) == 0 {
		return all, own, shares
	}
	if !a.law.InParts { // with partial payoffs a selection weighs the share that should have come by its age
		e := a.now()
		shares.paid, shares.below = inflight.ItemShares(e.share, e.below, a.settled.Pooled(i), ours, others)
	}
	all = inflight.Weigh(shares.paid, shares.below, ours, others)
	if own = all; len(others) > 0 {
		own = inflight.Weigh(shares.paid, shares.below, ours)
	}
	if a.law.InParts {
		all.Back = inflight.Back(a.now().below, ours, others)
	}
	return all, own, shares
}

// worthOf returns the weight of an item's selections in flight, of all sources.
func (a *awaiting) worthOf(i policy.Item) inflight.Worth {
	if a.global == nil {
		return a.worth.Get(i)
	}
	all, _, _ := a.flightWeights(i)
	return all
}

// sharesOf returns the shares by which an item's selections in flight are weighted.
func (a *awaiting) sharesOf(i policy.Item) itemShares {
	if a.global == nil {
		return a.shares.Get(i)
	}
	_, _, shares := a.flightWeights(i)
	return shares
}

// ours returns the item's selections in flight of this partition.
func (a *awaiting) ours(i policy.Item) inflight.Intervals { return a.column.Own(i).Spans }

// elsewhere returns the item's selections in flight of other sources. They are valid until the next call.
func (a *awaiting) elsewhere(i policy.Item) inflight.Intervals {
	others := a.column.Others(i).Spans
	if a.global == nil || len(others) == 0 {
		return others
	}
	a.elsewhereCopy = append(a.elsewhereCopy[:0], others...) // the global learner's own must stay as they are
	a.updateSharesIn(a.elsewhereCopy)
	return a.elsewhereCopy
}

// now returns the newest estimate: the global learner's, or our own.
func (a *awaiting) now() *estimated {
	if a.global != nil && a.global.made.number > 0 {
		return &a.global.made
	}
	return &a.made
}

// itemShares are the share of an item's selections that are paid, and the share of payoffs below the default.
type itemShares struct{ paid, below float64 }

// spansOf returns an item's selections in flight of all sources, in disjoint intervals. They must not be changed: partitions read those of
// the global learner side by side. They are valid until the next call.
func (a *awaiting) spansOf(i policy.Item) inflight.Intervals {
	ours, others := a.ours(i), a.elsewhere(i)
	switch {
	case len(others) == 0:
		return ours
	case len(ours) == 0:
		return others
	}
	all := ours.Add(others)
	a.updateSharesIn(all)
	return all
}

// unpaidOf returns the weights of an item's selections in flight, ordered by start time. They are valid until the next call.
func (a *awaiting) unpaidOf(i policy.Item) []unpaid {
	all, c := a.unpaidScratch[:0], a.sharesOf(i)
	for _, spans := range [...]inflight.Intervals{a.elsewhere(i), a.ours(i)} {
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
	a.unpaidScratch = all
	return all
}

// updateShares sets, in all intervals, the shares of payoffs that have come by their age.
func (a *awaiting) updateShares() {
	a.updateSharesIn(a.every)
	a.eachAwaited(func(i policy.Item) {
		a.updateSharesIn(a.ours(i))
		if a.global == nil {
			a.updateSharesIn(a.column.Others(i).Spans)
		}
	})
}

// eachAwaited calls do for each item whose evidence goes by the estimate, in ascending order. These have selections in flight, below a
// global learner of our own only. Once values are drawn together, they have any payoff.
func (a *awaiting) eachAwaited(do func(policy.Item)) {
	for i := range policy.Item(a.column.Len()) {
		if len(a.ours(i)) > 0 || a.global == nil && len(a.column.Others(i).Spans) > 0 || a.made.used && a.sums != nil && a.sums(i).N > 0 {
			do(i)
		}
	}
}

func (a *awaiting) updateSharesIn(spans inflight.Intervals) {
	for k := range spans {
		a.updateShare(&spans[k])
	}
}

func (a *awaiting) updateShare(x *inflight.Interval) {
	e, until := a.now(), a.evidenceUntil()
	x.Above = e.late[sideAbove].Share(&a.grid, x.Bucket, until)
	x.Come = x.Above
	if e.late[sideBelow].Known() {
		x.Below = e.late[sideBelow].Share(&a.grid, x.Bucket, until)
	}
}

// evidenceUntil returns the time up to which a missing payoff is evidence here: at most our own tick, since a global learner may be ahead.
func (a *awaiting) evidenceUntil() int64 { return min(a.now().until, a.tick) }

// theirEvery returns the selections in flight of all other sources, over all items.
func (a *awaiting) theirEvery() inflight.Intervals {
	spans := inflight.IntervalsOf(a.awaited)
	a.updateSharesIn(spans)
	return spans
}

// replaceTheirs replaces an item's selections in flight at another source in the sums over all items and sources.
func (a *awaiting) replaceTheirs(i policy.Item, before, after inflight.Intervals) {
	addIntervals(a.awaited, before, -1)
	addIntervals(a.awaited, after, 1)
	a.updateSharesIn(a.column.Others(i).Spans)
}

// addIntervals adds intervals, times over, to counts by bucket.
func addIntervals(counts map[inflight.Bucket]inflight.Interval, spans inflight.Intervals, times int64) {
	for _, x := range spans {
		if n := counts[x.Bucket].N + times*x.N; n != 0 {
			counts[x.Bucket] = inflight.Interval{Bucket: x.Bucket, N: n, Expected: counts[x.Bucket].Expected + times*x.Expected}
		} else {
			delete(counts, x.Bucket)
		}
	}
}

// unpaid is the weight of selections in flight that began around one time.
type unpaid struct {
	at int64
	inflight.Worth
}
