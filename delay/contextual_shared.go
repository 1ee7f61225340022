package delay

import (
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

func (u cellsHash) share(global statistic, source int32, number func(policy.Item) policy.Item) {
	u.global, u.source, u.number = global.(cellsHash).contexts, source, number
	u.by(u.global.chosen)
	u.model.Share(u.global.model)
	u.readFits = u.global.fits
}

func (u cellsHash) differs(i policy.Item) (differs bool) {
	u.eachCell(i, func(cell int32) { differs = differs || u.differsIn(cell) })
	return differs
}

// rest implements statistic. Ticks change cells that nobody has paid meanwhile, so none rests.
func (cellsHash) rest(policy.Item)     {}
func (cellsHash) Wake(*policy.Changes) {}

// loaded begins with the stored state.
func (u *contexts) loaded(t *policy.Table) {
	u.unstored = false
	u.categories.changed.Clear()
	if u.newData = true; u.global != nil {
		u.refresh()
	}
	if last := len(u.linear.rows) - 1; last >= 0 { // after a change of the horizon later buckets would overlap these
		u.merge(u.grid.Tick(u.linear.rows[last].Start()))
	}
	if u.global == nil && u.model.Since() != contextual.Always { // rows may have been loaded before the fit
		u.recount(t)
	}
}

// refresh reads the global learner again after a change.
func (u *contexts) refresh() {
	u.by(u.global.chosen)
	u.model.Refresh()
	u.stale.Clear()
	u.changedGroups.Clear()
	if now := u.global.fits; now != u.readFits {
		u.readFits = now
		u.fits++
	}
}

// beGlobal makes it a global learner. Mark identifies items by numbers that are equal in all processes.
func (u *contexts) beGlobal(mark func(policy.Item) uint64) {
	u.isGlobal, u.mark = true, mark
	u.model.MarkBy(func(level int, number int32) uint64 {
		if level == u.items() {
			return mark(number)
		}
		return mark(number/u.groups) + uint64(number%u.groups)
	})
}

// refit recomputes the global model from all sums; with OfVariances, also its variances and grouping; with OfChange, after a change.
func (u *contexts) refit(t *policy.Table, which Estimates) {
	u.settle(t)
	if which&OfChange != 0 && u.begins != inflight.Never {
		u.turn(t)
	}
	if which&OfVariances != 0 {
		u.model.Learn()
		u.fits++
		if u.regroup(t) {
			u.model.Learn()
		}
	}
	if which&OfVariances != 0 || u.newData {
		u.model.Refit()
	}
	u.newData = false
	u.categories.changed.Clear()
}

// prefixFit begins the line of an estimate (AppendEstimate) with the tick of the last search for a change, and the variances.
var prefixFit = []byte("\nfit ")

func (u *contexts) appendEstimate(dst []byte) []byte {
	if u.model.Fits() == 0 {
		return dst
	}
	dst = append(strconv.AppendInt(append(dst, prefixFit...), u.looked, 10), ' ')
	return u.model.AppendVariances(u.appendGrouping(dst))
}

func (u *contexts) takeEstimate(t *policy.Table, text []byte) error {
	r := words.Of(text, ' ')
	looked, text := readTime(&r), r.Rest()
	if err := r.End(errTime); err != nil {
		return err
	}
	text, err := u.takeGrouping(text)
	if err != nil {
		return err
	}
	u.settle(t)
	since := u.model.Since()
	if err := u.model.TakeVariances(text); err != nil {
		return err
	}
	if u.looked = looked; u.model.Since() != since {
		u.recount(t)
	}
	u.model.Refit()
	return nil
}

// beginResync begins to read a source's whole state. It replaces the previous one at its end only, since its sums belong together.
func (u *contexts) beginResync(source int32) {
	u.leave(u.coming[source])
	u.coming[source] = &theirSums{}
}

func (categoriesHash) endResync(int32, func(policy.Item) bool) {}

// endResync implements storedHash; that of cells does it.
func (linearHash) endResync(int32, func(policy.Item) bool) {}

// endResync implements storedHash. It replaces a source's cells and linear sums by those read since beginResync.
func (u cellsHash) endResync(source int32, _ func(policy.Item) bool) {
	now := u.coming[source]
	if now == nil {
		return
	}
	delete(u.coming, source)
	before := u.their(source)
	for cell, c := range before.cells.All() {
		if after := now.cells.Get(cell); !c.none() && after.none() {
			u.setCell(before, cell, cellRows{})
		}
	}
	for cell, c := range now.cells.All() {
		if !c.none() {
			u.setCell(before, cell, *c)
		}
	}
	u.changeLinear(&before.linear, func() { before.linear = now.linear })
	u.newData = true
}
