package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

// share returns the part of an item's selections in flight that these sums contain.
func (u *contexts) share(i policy.Item, c *cellSums) float64 {
	if u.groups == 1 {
		return 1
	}
	if all := u.awaitedOf(i); c.awaited > 0 && all > 0 {
		return float64(c.awaited) / float64(all)
	}
	return 0
}

// their returns a source's sums, or during its resync those read so far; it makes them if needed.
func (u *contexts) their(source int32) *theirSums {
	if coming := u.coming[source]; coming != nil {
		return coming
	}
	if u.theirs[source] == nil {
		u.theirs[source] = &theirSums{}
	}
	return u.theirs[source]
}

func (u *contexts) setCell(to *theirSums, cell int32, now cellRows) {
	before := to.cells.Get(cell)
	if now.none() {
		to.cells.Remove(cell)
	} else {
		*to.cells.At(cell) = now
	}
	u.replace(cell, &before, &now)
	i := u.itemOf(cell)
	*u.awaited.At(i) += now.awaited - before.awaited
	*to.awaited.At(i) += now.awaited - before.awaited
	u.note(cell)
	u.vote(i, before.kind, now.kind)
	u.categories.leave(before.kind)
}

// replace replaces a source's cell in the pooled sums.
func (u *contexts) replace(cell int32, before, now *cellRows) {
	since := u.model.Since()
	was, is := before.since(since), now.since(since)
	group := u.groupOf(cell)
	pooled := u.pooled.At(group)
	pooled.add(&was, -1)
	if pooled.add(&is, 1); pooled.none() {
		u.pooled.Remove(group)
	}
}

// addOwn adds a cell to our own: a loaded one, or another partition's.
func (u *contexts) addOwn(cell int32, c *cellRows) {
	own := u.own.At(cell)
	before := *own
	own.rows = own.rows.Add(c.rows)
	own.awaited += c.awaited
	own.x = added(slices.Clone(own.x), c.x, 1)
	*u.awaited.At(u.itemOf(cell)) += c.awaited
	if u.global == nil {
		u.replace(cell, &before, own)
	}
	u.note(cell)
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

// publishedBy returns a source's cell as the global learner has it.
func (u *contexts) publishedBy(source, cell int32) (c cellRows) {
	if theirs := u.theirs[source]; theirs != nil {
		c = theirs.cells.Get(cell)
	}
	return c
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

// categorise moves an item to another category.
func (u *contexts) categorise(i policy.Item, name string) {
	u.eachGroup(i, func(group int32) {
		if at, ok := u.path(i, group%u.groups); ok && u.model.Has(at[0]) {
			u.model.Drop(at)
			u.changedGroups.Note(group, 1)
		}
	})
	u.categories.set(i, name)
}

// publishCategory marks an item's cells as changed, so that they are published with its new category.
func (u *contexts) publishCategory(i policy.Item) {
	u.eachCell(i, func(cell int32) {
		if own := u.own.Get(cell); !own.none() {
			u.cells.Note(cell, 1)
		}
	})
}

// changeLinear changes a source's linear sums, and the total with them.
func (u *contexts) changeLinear(rows *linearRows, change func()) {
	if u.global != nil {
		change()
		return
	}
	eachSince(*rows, u.model.Since(), u.model.Total.Minus)
	change()
	eachSince(*rows, u.model.Since(), u.model.Total.Plus)
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
	return !own.equal(&published)
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

// everywhere returns a cell's sums over all sources.
func (u *contexts) everywhere(i policy.Item, segment int32) (c cellSums) {
	cell, ok := u.cell(i, segment)
	if !ok {
		return c
	}
	add := func(of cellRows) {
		sums := of.since(u.model.Since())
		c.add(&sums, 1)
	}
	add(u.own.Get(cell))
	for _, theirs := range u.theirs {
		add(theirs.cells.Get(cell))
	}
	return c
}
