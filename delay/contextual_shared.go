package delay

import (
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

// shared links a partition's contextual learner to the global one (Pooling).
//
// The numbers of nodes in a partition's model are the global ones. Its model holds only cells in which it differs from the global
// learner, or whose items do.
type shared struct {
	global   *contexts
	source   int32
	number   func(policy.Item) policy.Item
	readFits int64 // number of the global fits read

	isGlobal bool
	coming   map[int32]*theirSums // by source, during its resync
	votes    map[int32]int        // scratch, by category
}

func (u cellsHash) share(global statistic, source int32, number func(policy.Item) policy.Item) {
	u.global, u.source, u.number = global.(cellsHash).contexts, source, number
	u.by(u.global.chosen)
	u.model.Share(u.global.model)
	u.readFits = u.global.fits
}

// numberOf returns an item's number in the model.
func (u *contexts) numberOf(i policy.Item) policy.Item {
	if u.global == nil {
		return i
	}
	return u.number(i)
}

// kindOf returns the number of an item's category; n is the item's number in the model. The global learner's category applies once
// it has data of the item. Until then our own does, by a number that is unused there if the category is unknown.
func (u *contexts) kindOf(i, n policy.Item) int32 {
	if u.global == nil || !u.model.Heeds() {
		return u.categories.of(i)
	}
	w := u.global
	if kind := w.categories.of(n); kind != 0 || w.model.Holds(u.items(), n) {
		return kind
	}
	ours := u.categories.of(i)
	if ours == 0 {
		return 0
	}
	if theirs, known := w.categories.byName[u.categories.name(i)]; known {
		return theirs
	}
	return int32(len(w.categories.all)) + ours
}

// sumsOf returns a group's sums over all sources, valid until the next call.
func (u *contexts) sumsOf(group int32) *cellSums {
	if u.global == nil {
		u.sums = u.pooled.Get(group)
		return &u.sums
	}
	c := &u.sums
	s, x := c.s, c.x
	clear(s)
	clear(x)
	*c = cellSums{s: s, awaitedSums: awaitedSums{x: x}}
	since := u.global.model.Since()
	i, within := group/u.groups, group%u.groups
	all := u.global.pooled.Get(u.number(i)*u.groups + within)
	c.sum(&all, 1)
	for _, segment := range u.members[within] {
		if n, ok := u.cell(u.number(i), segment); ok {
			published := u.global.publishedBy(u.source, n)
			sums := published.since(since)
			c.sum(&sums, -1)
		}
		if cell, ok := u.cell(i, segment); ok {
			own := u.own.Get(cell)
			sums := own.since(since)
			c.sum(&sums, 1)
		}
	}
	return c
}

// sum adds sums, times over, into allocated slices.
func (c *cellSums) sum(o *cellSums, times int64) {
	c.fed += times * o.fed
	c.awaited += times * o.awaited
	c.r += times * o.r
	added(c.s, o.s, times)
	added(c.x, o.x, times)
}

// publishedBy returns a source's cell as the global learner has it.
func (u *contexts) publishedBy(source, cell int32) (c cellRows) {
	if theirs := u.theirs[source]; theirs != nil {
		c = theirs.cells.Get(cell)
	}
	return c
}

func (u cellsHash) differs(i policy.Item) (differs bool) {
	u.eachCell(i, func(cell int32) { differs = differs || u.differsIn(cell) })
	return differs
}

// differsIn is differs for a cell.
func (u *contexts) differsIn(cell int32) bool {
	if u.global == nil {
		return false
	}
	own := u.own.Get(cell)
	n, ok := u.cell(u.number(u.itemOf(cell)), cell%u.segments)
	if !ok {
		return !own.none()
	}
	published := u.global.publishedBy(u.source, n)
	return !own.same(&published)
}

func (u *contexts) differsInGroup(group int32) bool {
	if u.global == nil {
		return false
	}
	for _, segment := range u.members[group%u.groups] {
		if cell, ok := u.cell(group/u.groups, segment); ok && u.differsIn(cell) {
			return true
		}
	}
	return false
}

// awaitedOf returns an item's number of selections in flight, over all sources.
func (u *contexts) awaitedOf(i policy.Item) int64 {
	if u.global == nil {
		return u.awaited.Get(i)
	}
	n := u.number(i)
	all := u.global.awaited.Get(n) + u.awaited.Get(i)
	if published := u.global.theirs[u.source]; published != nil {
		all -= published.awaited.Get(n)
	}
	return all
}

// loaded begins with the stored state.
func (u *contexts) loaded(t *policy.Table) {
	u.unstored = false
	u.categories.changed.Clear()
	if u.newData = true; u.global != nil {
		u.refresh()
	}
	if last := len(u.linear.rows) - 1; last >= 0 {
		u.pass = u.grid.Tick(u.linear.rows[last].Start())
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

// refit recomputes the global model from all sums; with learn, also its variances and grouping.
func (u *contexts) refit(t *policy.Table, learn bool) {
	u.settle(t)
	if learn {
		u.turn(t)
		u.model.Learn()
		u.fits++
		if u.regroup(t) {
			u.model.Learn()
		}
	}
	if learn || u.newData {
		u.model.Refit()
	}
	u.newData = false
	u.categories.changed.Clear()
}

// prefixFit begins the line of an estimate (AppendEstimate) with the variances.
var prefixFit = []byte("\nfit ")

func (u *contexts) appendEstimate(dst []byte) []byte {
	if u.model.Fits() == 0 {
		return dst
	}
	return u.model.AppendVariances(u.appendGrouping(append(dst, prefixFit...)))
}

func (u *contexts) takeEstimate(t *policy.Table, text []byte) error {
	text, err := u.takeGrouping(text)
	if err != nil {
		return err
	}
	u.settle(t)
	since := u.model.Since()
	if err := u.model.TakeVariances(text); err != nil {
		return err
	}
	if u.model.Since() != since {
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

// leave ends the uses of categories by a source's cells.
func (u *contexts) leave(p *theirSums) {
	if p == nil {
		return
	}
	for _, c := range p.cells.All() {
		u.categories.leave(c.kind)
	}
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

// vote changes an item's category after a source has changed its own for it. The category that most cells of all sources have wins;
// of several, the alphabetically first.
func (u *contexts) vote(i policy.Item, before, now int32) {
	is := u.categories.of(i)
	if before == now || now == is || now == 0 && before != is {
		return
	}
	clear(u.votes)
	u.eachCell(i, func(cell int32) {
		for _, theirs := range u.theirs {
			if kind := theirs.cells.Get(cell).kind; kind != 0 {
				u.votes[kind]++
			}
		}
	})
	var best int32
	for kind, n := range u.votes {
		if most := u.votes[best]; n > most || n == most && u.categories.all[kind-1].name < u.categories.all[best-1].name {
			best = kind
		}
	}
	if best != is {
		name := ""
		if best != 0 {
			name = u.categories.all[best-1].name
		}
		u.categorise(i, name)
	}
}

// takeCell sets a source's cell; a malformed value empties it.
func (u *contexts) takeCell(source, cell int32, value []byte) {
	now, category, err := u.parseCell(value)
	if err != nil || now.none() {
		now = cellRows{}
	} else if u.isGlobal && u.categories.look {
		now.kind = u.categories.take(string(category))
	}
	coming := u.coming[source]
	if coming == nil {
		u.setCell(u.their(source), cell, now)
		return
	}
	u.categories.leave(coming.cells.Get(cell).kind)
	*coming.cells.At(cell) = now
}
