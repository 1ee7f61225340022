package delay

import (
	"bytes"
	"iter"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Pooling lets a process keep pooled state once, and not for each partition. A global learner is made like a partition's; it decides
// nothing, receives no feedback, and reads the published state of every source, this process's partitions included. A partition's learner
// keeps its own state, and pooled values of items in which it differs from its published state.
//
// A partition's learner decides as one that reads all sources itself, except that the global one makes the estimates over all items
// and sources, when it reads a new tick. A learner without a global one knows no other source.
type Pooling interface {
	// Share makes the learner, which must be empty, a partition's below a global one; source is its number there, and number maps
	// its items to global numbers. It holds from Loaded on. From then on the global learner must not change
	// while a partition's learner is in use.
	Share(global Learner, source int32, number func(policy.Item) policy.Item)
	// Refresh reads the global learner again after a change. Arrived contains at least the items whose rows published by this
	// partition the global learner has read since the last Refresh.
	Refresh(arrived iter.Seq[policy.Item])
	// Unstored returns whether the next Harvest stores a global estimate; Refresh must be called before.
	Unstored() bool
	// BeGlobal makes the learner, which must be empty, a global one. Mark identifies items by numbers that are equal in all processes.
	BeGlobal(mark func(policy.Item) uint64)
	// SetSource replaces a source's sums of an item in the global learner; a source is a partition number. The sums must pass their Check.
	SetSource(source int32, i policy.Item, s policy.Sums)
	// SetSourceField replaces a source's field of a pooled hash in the global learner; nil deletes it. A malformed value is no error,
	// since the sender's configuration may differ: it is ignored, or counts as nil.
	SetSourceField(source int32, hash string, field, value []byte, items Translate)
	// Commit ends a batch of updates to the global learner; items of its numbers are in use. It returns the estimates that are due.
	Commit(items int) (due Estimates)
	// Estimate makes estimates and values derived from them, after each Commit, also with none. It returns those made, which may be
	// more. Results depend on the present state only.
	Estimate(which Estimates) (made Estimates)
	// Makes returns all kinds that it can make.
	Makes() Estimates
	// AppendEstimate appends the global learner's last estimate, if any. TakeEstimate makes a global learner use one until it makes
	// its own; it fails if the text is malformed.
	AppendEstimate(dst []byte) []byte
	TakeEstimate(text []byte) error
	// Ended removes an item of a source from the global learner. Release frees an item that no source has; its number may be used again.
	Ended(source int32, i policy.Item)
	Release(i policy.Item)
	// BeginResync begins to read a source's whole state. EndResync removes fields by item for which read is false.
	BeginResync(source int32)
	EndResync(source int32, read func(hash string, i policy.Item) bool)
}

// Estimates is a set of kinds of global estimates.
type Estimates uint8

// The kinds of estimates. One that depends on others is made together with them.
const (
	OfSilence   Estimates = 1 << iota // delay distributions and payment shares
	OfVariances                       // variances of payoffs by cause; depends on OfSilence
	OfLevels                          // levels of all items over time; depends on OfSilence
	OfSpread                          // spread of payoffs around levels; depends on OfLevels, which depends on the last OfSpread
	OfWindows                         // distribution of attention windows
)

func (b *base) self() *base { return b }

// Share implements Pooling.
func (b *base) Share(global Learner, source int32, number func(policy.Item) policy.Item) {
	of := global.(interface{ self() *base }).self()
	b.table.ShareTable(of.table, source, number)
	for k, c := range b.columns {
		c.share(of.columns[k], source, number)
	}
	b.windows.global = of.windows
}

// Grow implements Learner. The global learner may have sums of a new item from this partition: of one that ended and has come again.
func (b *base) Grow(items int) {
	before := b.flights.Len()
	b.flights.Grow(items)
	b.eachTable(func(t *policy.Table, differs func(policy.Item) bool) {
		t.Grow(items)
		for i := policy.Item(before); t.Ready() && i < policy.Item(items); i++ {
			if differs(i) {
				t.Weigh(i)
			}
		}
	})
}

func (b *base) Refresh(arrived iter.Seq[policy.Item]) {
	b.flights.refresh()
	b.windows.refresh()
	if b.contexts != nil {
		b.contexts.refresh()
	}
	b.eachTable(func(t *policy.Table, differs func(policy.Item) bool) { t.Refresh(differs, arrived) })
}

func (b *base) Unstored() bool {
	a := b.flights.awaiting
	return a != nil && a.unwritten || b.windows.unwritten || b.contexts != nil && b.contexts.model.Unstored()
}

func (b *base) BeGlobal(mark func(policy.Item) uint64) {
	b.eachTable(func(t *policy.Table, _ func(policy.Item) bool) { t.BeGlobal() })
	if b.contexts != nil {
		b.contexts.beGlobal(mark)
	}
}

func (b *base) Commit(items int) (due Estimates) {
	b.Count(items)
	if b.flights.readTicks() {
		due |= OfSilence
	}
	if b.contexts != nil && (b.contexts.seek(b.table) || b.contexts.model.Due()) {
		due |= OfVariances
	}
	if b.windows.due() {
		due |= OfWindows
	}
	return due
}

func (b *base) Estimate(which Estimates) (made Estimates) {
	if which&OfVariances != 0 {
		which |= OfSilence
	}
	which &= b.Makes()
	if which&OfSilence != 0 {
		b.flights.estimate()
	}
	if b.contexts != nil {
		b.contexts.refit(b.table, which&OfVariances != 0)
	}
	if which&OfWindows != 0 {
		b.windows.estimateAll()
	}
	return which
}

func (b *base) Makes() (all Estimates) {
	if b.flights.awaiting != nil {
		all |= OfSilence
	}
	if b.contexts != nil {
		all |= OfVariances
	}
	if b.windows.counts != nil {
		all |= OfWindows
	}
	return all
}

func (b *base) AppendEstimate(dst []byte) []byte {
	if a := b.flights.awaiting; a != nil && a.made.number > 0 {
		dst = a.appendEstimate(dst)
	}
	if b.contexts != nil {
		dst = b.contexts.appendEstimate(dst)
	}
	return b.windows.appendMade(dst)
}

func (b *base) TakeEstimate(text []byte) error {
	text, err := b.windows.takeMade(text)
	if err != nil {
		return err
	}
	late, variances, learned := bytes.Cut(text, prefixFit)
	if a := b.flights.awaiting; a != nil && len(late) > 0 {
		if err := a.takeEstimate(late); err != nil {
			return err
		}
		b.flights.reweigh()
	}
	if b.contexts == nil || !learned {
		return nil
	}
	return b.contexts.takeEstimate(b.table, variances)
}

// Ended implements Pooling. The source deletes the item's other fields itself.
func (b *base) Ended(source int32, i policy.Item) { b.table.Drop(source, i) }

func (b *base) BeginResync(source int32) {
	for _, h := range b.hashes {
		h.beginResync(source)
	}
}

func (b *base) EndResync(source int32, read func(hash string, i policy.Item) bool) {
	for _, h := range b.hashes {
		h.endResync(source, func(i policy.Item) bool { return read(h.about().Hash, i) })
	}
}

// resyncs are the keys read so far, by source under resync.
type resyncs[K comparable] map[int32]map[K]bool

func (r resyncs[K]) begin(source int32) { r[source] = map[K]bool{} }

func (r resyncs[K]) note(source int32, key K) {
	if r[source] != nil {
		r[source][key] = true
	}
}

// end returns the keys read.
func (r resyncs[K]) end(source int32) map[K]bool {
	read := r[source]
	delete(r, source)
	return read
}

// refresh recomputes the weights of our selections in flight after a new global estimate.
func (f *flights) refresh() {
	if a := f.awaiting; a != nil && a.heeds != a.global.made.number {
		a.heeds = a.global.made.number
		a.updateShares()
		a.eachAwaited(a.reweigh)
	}
}

// readTicks reads the sources' ticks, and returns whether an estimate is due: when the latest tick or the earliest has moved.
func (f *flights) readTicks() (due bool) {
	due = f.awaiting != nil && f.awaiting.readTicks()
	if f.drift != nil && f.drift.readTicks() {
		f.weighAll()
	}
	return due
}

// estimate makes the global estimate.
func (f *flights) estimate() {
	f.awaiting.estimate(f.awaiting.until())
	f.reweigh()
}

func (f *flights) reweigh() { f.awaiting.eachAwaited(f.weigh) }

// readTicks reads the sources' ticks, and returns whether an estimate is due.
func (a *awaiting) readTicks() bool {
	before, first := a.pass, a.first
	a.pass = inflight.Never
	for _, s := range a.theirs {
		if s.passRead {
			a.pass = max(a.pass, s.pass)
		}
	}
	a.first = a.earliest()
	return a.pass > before || a.pass != inflight.Never && a.first != first
}

// readTicks reads the sources' ticks, and returns whether weights change. A source whose store went back has an earlier tick again.
func (d *drift) readTicks() bool {
	before, since := d.pass, d.since
	d.pass, d.since = inflight.Never, inflight.Never
	for _, s := range d.theirs {
		d.pass = max(d.pass, s[0])
		if d.since == inflight.Never || s[1] < d.since {
			d.since = s[1]
		}
	}
	return d.pass != before || d.since != since
}
