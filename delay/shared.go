package delay

import (
	"bytes"
	"iter"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Sharing is a Learner that can leave to another, the whole, what is known of all partitions, so that the learners of many partitions of
// a process keep it once and not each for itself. The whole is a learner made alike that decides nothing and is told of no feedback, but
// of what every source has published (SetSource, SetSourceField), theirs among them. What a part keeps besides is its own, and what is known of
// items of which it has something that the whole has not been told of.
//
// A part decides as one to which all other sources' sums had been told, but that estimates over all items and sources, such as how
// late payoffs are, are made by the whole when it is told of a new pass.
type Sharing interface {
	Learner
	// Shares tells whether it can, by its settings.
	Shares() bool
	// Share makes it, which knows nothing yet, the part of whole that is source there; number gives the whole's number of one of its
	// items. It is used from Loaded on. From then on it is not to be told of other sources, and the whole must not change while any of its parts is used.
	Share(whole Learner, source int32, number func(policy.Item) policy.Item)
	// Refresh reads the whole again, which has changed. Arrived gives at least the items of which the whole has read something since the last
	// Refresh that this partition has published.
	Refresh(arrived iter.Seq[policy.Item])
	// Unstored tells whether the next Harvest stores what the whole has estimated: Refresh is to be called before.
	Unstored() bool
	// BeWhole makes it, which knows nothing yet, a whole. Mark tells items apart by numbers that are the same in all processes.
	BeWhole(mark func(policy.Item) uint64)
	// Told ends what the whole is told for now: of all its numbers so many are items'. It tells which estimates are due.
	Commit(items int) (due Estimates)
	// Estimate makes estimates, and what follows from all that was told; it is to be called after Told, also with none. It tells which were
	// made, of which some may be made with others. What they come to depends on what was told by then, and on nothing before.
	Estimate(which Estimates) (made Estimates)
	// Makes are all that it ever makes.
	Makes() Estimates
	// AppendEstimate appends the last estimate of a whole, nothing where there is none, and TakeEstimate makes a whole go by one that
	// another has appended, until it makes its own.
	AppendEstimate(dst []byte) []byte
	TakeEstimate(text []byte) error
	// Ended tells the whole that a source has an item no longer, and Release that no source has: its number may come back.
	Ended(source int32, i policy.Item)
	Release(i policy.Item)
	// Anew tells the whole that a source begins to tell all that it has published. Sweep says that this was all: what else it has told
	// before of pooled hashes, those by item, is forgotten, as told says what was.
	BeginResync(source int32)
	EndResync(source int32, told func(hash string, i policy.Item) bool)
}

// Estimates are kinds of what a whole estimates of all items and sources together.
type Estimates uint8

// The kinds of estimates. What was learned of by how much payoffs differ hangs on how late they are, and so is made together with that.
const (
	OfSilence   Estimates = 1 << iota // how late payoffs are, and how many come
	OfVariances                       // by how much they differ, and by what
)

var _ Sharing = (*Direct)(nil)

// Shares implements Sharing: where silence waits others' selections in flight are not known, and one that explores estimates windows.
func (d *Direct) Shares() bool { return d.explorer == nil && d.flights.pools }

// Share implements Sharing.
func (d *Direct) Share(whole Learner, source int32, number func(policy.Item) policy.Item) {
	w := whole.(*Direct)
	d.table.ShareTable(w.table, source, number)
	d.flights.share(&w.flights, source, number)
	if d.attraction != nil {
		d.attraction.table.ShareTable(w.attraction.table, source, number)
	}
	if d.users != nil {
		d.users.join(w.users, source, number)
	}
}

// Grow implements Learner. Of a new item the whole may have been told by this partition before: one that ended, and has come again.
func (d *Direct) Grow(items int) {
	before := d.flights.Len()
	d.base.Grow(items)
	if !d.table.Ready() {
		return
	}
	for i := before; i < items; i++ {
		if d.differs(policy.Item(i)) {
			d.table.Weigh(policy.Item(i))
			if d.attraction != nil {
				d.attraction.table.Weigh(policy.Item(i))
			}
		}
	}
}

// Refresh implements Sharing.
func (d *Direct) Refresh(arrived iter.Seq[policy.Item]) {
	d.flights.refresh()
	if d.users != nil {
		d.users.refresh()
	}
	if d.attraction != nil {
		d.attraction.table.Refresh(d.differs, arrived)
	}
	d.table.Refresh(d.differs, arrived)
}

// Unstored implements Sharing.
func (d *Direct) Unstored() bool {
	a := d.flights.awaiting
	return a != nil && a.unwritten || d.users != nil && d.users.model.Unstored()
}

// differs tells whether the whole has been told something else of an item than we have.
func (d *Direct) differs(i policy.Item) bool {
	return d.table.Own(i) != d.table.Told(i) || d.flights.differs(i) || d.users != nil && d.users.differs(i) ||
		d.attraction != nil && d.attraction.table.Own(i) != d.attraction.table.Told(i)
}

// BeWhole implements Sharing.
func (d *Direct) BeWhole(mark func(policy.Item) uint64) {
	d.table.BeWhole()
	if d.attraction != nil {
		d.attraction.table.BeWhole()
	}
	if d.users != nil {
		d.users.beWhole(mark)
	}
}

// Commit implements Sharing.
func (d *Direct) Commit(items int) (due Estimates) {
	d.table.CountItems(items)
	if d.attraction != nil {
		d.attraction.table.CountItems(items)
	}
	if d.flights.told(d.table) {
		due |= OfSilence
	}
	if d.users != nil && (d.users.seek(d.table) || d.users.model.Due()) {
		due |= OfVariances
	}
	return due
}

// Estimate implements Sharing.
func (d *Direct) Estimate(which Estimates) (made Estimates) {
	if which&OfVariances != 0 {
		which |= OfSilence
	}
	which &= d.Makes()
	if which&OfSilence != 0 {
		d.flights.estimate(d.table)
	}
	if d.users != nil {
		d.users.refit(d.table, which&OfVariances != 0)
	}
	return which
}

// Makes implements Sharing.
func (d *Direct) Makes() (all Estimates) {
	if d.flights.awaiting != nil {
		all |= OfSilence
	}
	if d.users != nil {
		all |= OfVariances
	}
	return all
}

// AppendEstimate implements Sharing.
func (d *Direct) AppendEstimate(dst []byte) []byte {
	if a := d.flights.awaiting; a != nil && a.made.number > 0 {
		dst = a.appendEstimate(dst)
	}
	if d.users != nil {
		dst = d.users.appendEstimate(dst)
	}
	return dst
}

// TakeEstimate implements Sharing.
func (d *Direct) TakeEstimate(text []byte) error {
	late, variances, learned := bytes.Cut(text, prefixFit)
	if a := d.flights.awaiting; a != nil && len(late) > 0 {
		if err := a.takeEstimate(late); err != nil {
			return err
		}
		d.flights.reckon(d.table)
	}
	if d.users == nil || !learned {
		return nil
	}
	return d.users.takeEstimate(d.table, variances)
}

// Ended implements Sharing. What else the source has told of the item, it says itself that it is gone.
func (d *Direct) Ended(source int32, i policy.Item) { d.table.Drop(source, i) }

// Release implements Sharing.
func (d *Direct) Release(i policy.Item) { d.releaseItem(i) }

// BeginResync implements Sharing.
func (d *Direct) BeginResync(source int32) {
	if a := d.flights.awaiting; a != nil {
		a.coming[source] = newSourceAges()
	}
	if d.users != nil {
		d.users.beginResync(source)
	}
}

// EndResync implements Sharing.
func (d *Direct) EndResync(source int32, told func(hash string, i policy.Item) bool) {
	d.flights.endResync(source, told, d.table)
	if d.attraction != nil {
		sweep(&d.attraction.table.Totals, source, func(i policy.Item) bool { return told(hashAttraction, i) })
	}
	if d.users != nil {
		d.users.endResync(source)
	}
}

// share makes it part of a whole.
func (f *flights) share(whole *flights, source int32, number func(policy.Item) policy.Item) {
	f.Share(&whole.Totals, source, number)
	if f.parts != nil {
		f.parts.Share(&whole.parts.Totals, source, number)
	}
	if f.drift != nil {
		f.drift.Share(&whole.drift.Totals, source, number)
		f.drift.whole = whole.drift
	}
	if a, w := f.awaiting, whole.awaiting; a != nil {
		a.others.Share(&w.others, source, number)
		a.settled.Share(&w.settled, source, number)
		a.whole = w
	}
}

// differs tells whether the whole has been told something else of an item than we have.
func (f *flights) differs(i policy.Item) bool {
	if f.Own(i) != f.Told(i) || f.parts != nil && f.parts.Own(i) != f.parts.Told(i) {
		return true
	}
	if a := f.awaiting; a != nil && (a.settled.Own(i) != a.settled.Told(i) || !slices.EqualFunc(a.own.Get(i), a.others.Told(i), sameSpan)) {
		return true
	}
	return f.drift != nil && !slices.Equal(f.drift.Own(i), f.drift.Told(i))
}

// sameSpan leaves out what is derived.
func sameSpan(x, y inflight.Interval) bool {
	return x.Bucket == y.Bucket && x.N == y.N && x.Expected == y.Expected
}

// refresh reckons our own awaited selections anew, where the whole has estimated anew.
func (f *flights) refresh() {
	if a := f.awaiting; a != nil && a.heeds != a.whole.made.number {
		a.heeds = a.whole.made.number
		a.hear()
		a.eachAwaited(a.reckon)
	}
}

// told takes in that sources have told of their passes. With a new one of any of them, and where the earliest has come further, it is time
// to estimate.
func (f *flights) told(table *policy.Table) (due bool) {
	due = f.awaiting != nil && f.awaiting.told()
	if f.drift != nil && f.drift.told() {
		f.weigh(table)
	}
	return due
}

// estimate estimates how late payoffs are, in a whole.
func (f *flights) estimate(table *policy.Table) {
	f.awaiting.estimate(f.awaiting.until())
	f.reckon(table)
}

// reckon makes anew what goes by an estimate.
func (f *flights) reckon(table *policy.Table) {
	f.awaiting.eachAwaited(func(i policy.Item) {
		f.awaiting.reckon(i)
		table.Weigh(i)
	})
}

// told takes in the sources' passes; it tells whether there is one to estimate by.
func (a *awaiting) told() bool {
	before, first := a.pass, a.first
	for _, s := range a.theirs {
		if s.told {
			a.pass = max(a.pass, s.pass)
		}
	}
	a.first = a.earliest()
	return a.pass > before || a.pass != inflight.Never && a.first != first
}

// told takes in the sources' passes; it tells whether evidence has faded.
func (d *drift) told() bool {
	before, since := d.pass, d.since
	for _, s := range d.theirs {
		d.pass = max(d.pass, s[0])
		if d.since == inflight.Never || s[1] < d.since {
			d.since = s[1]
		}
	}
	return d.pass > before || d.since != since
}

// endResync makes a whole forget what a source has not told of again.
func (f *flights) endResync(source int32, told func(hash string, i policy.Item) bool, table *policy.Table) {
	if a := f.awaiting; a != nil {
		for i := range a.others.Of(source) {
			if !told(hashFlights, i) {
				a.setSpans(source, i, nil)
			}
		}
		for i := range a.settled.Of(source) {
			if !told(hashSettled, i) {
				a.settled.Drop(source, i)
				a.reckon(i)
				table.Weigh(i)
			}
		}
		if coming := a.coming[source]; coming != nil {
			a.theirs[source] = coming
			delete(a.coming, source)
		}
	}
	sweep(&f.Totals, source, func(i policy.Item) bool { return told(hashFlights, i) })
	if f.parts != nil {
		sweep(&f.parts.Totals, source, func(i policy.Item) bool { return told(hashOpen, i) })
	}
	if f.drift != nil {
		sweep(&f.drift.Totals, source, func(i policy.Item) bool { return told(hashHistory, i) })
	}
}

// sweep drops what a source has told of all but what is to be kept.
func sweep[S policy.Summand[S]](t *policy.Totals[S], source int32, keep func(policy.Item) bool) {
	for i := range t.Of(source) {
		if !keep(i) {
			t.Drop(source, i)
		}
	}
}
