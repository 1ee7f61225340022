package delay

import (
	"bytes"
	"iter"

	"github.com/ranker-worker/ranker-worker/policy"
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
	b.atRest.global, b.atRest.source = of.atRest, source
	b.published = func(i policy.Item) bool {
		sent := of.sent[source]
		return sent != nil && sent.Has(number(i))
	}
}

// Grow implements Learner. The global learner may have sums of a new item from this partition: of one that ended and has come again.
func (b *base) Grow(items int) {
	before := b.flights.Len()
	b.flights.Grow(items)
	b.eachTable(func(t *policy.Table, differs func(policy.Item) bool) {
		t.Grow(items)
		for i := policy.Item(before); t.Ready() && i < policy.Item(items); i++ {
			if b.published(i) && differs(i) {
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
	if u := b.contexts; u != nil && u.seek(b.table) {
		due |= OfVariances | OfChange
	} else if u != nil && u.model.Due() {
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
		b.contexts.refit(b.table, which)
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
		all |= OfVariances | OfChange
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

func (b *base) TakeEstimate(text []byte) (taken Estimates, err error) {
	text, taken, err = b.windows.takeMade(text)
	if err != nil {
		return 0, err
	}
	late, variances, learned := bytes.Cut(text, prefixFit)
	if a := b.flights.awaiting; a != nil && len(late) > 0 {
		if err := a.takeEstimate(late); err != nil {
			return 0, err
		}
		b.flights.reweigh()
		taken |= OfSilence
	}
	if b.contexts == nil || !learned {
		return taken, nil
	}
	return taken | OfVariances | OfChange, b.contexts.takeEstimate(b.table, variances)
}

// Ended implements Pooling. The source deletes the item's other fields itself.
func (b *base) Ended(source int32, i policy.Item) { b.table.Drop(source, i) }

func (b *base) BeginResync(source int32) {
	b.atRest.wake(source)
	for _, h := range b.hashes {
		h.beginResync(source)
	}
}

func (b *base) EndResync(source int32, read func(hash string, i policy.Item) bool) {
	for _, h := range b.hashes {
		hash := h.about().Hash
		h.endResync(source, func(i policy.Item) bool { return read(hash, i) })
	}
}
