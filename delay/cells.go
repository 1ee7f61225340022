package delay

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

// cell returns the number of a cell; false beyond the largest int32, which is after 16 million items of 127 segments, or 12 million
// with 168 levels of the clock. Nothing is learned there.
func (u *contexts) cell(i policy.Item, segment int32) (int32, bool) {
	if segment < 0 || segment >= u.segments {
		segment = 0
	}
	if i >= math.MaxInt32/u.segments {
		return -1, false
	}
	return i*u.segments + segment, true
}

func (u *contexts) eachCell(i policy.Item, do func(cell int32)) {
	if first, ok := u.cell(i, 0); ok {
		for cell := first; cell < first+u.segments; cell++ {
			do(cell)
		}
	}
}

// itemOf returns the item of a cell; -1 for cell -1.
func (u *contexts) itemOf(cell int32) policy.Item {
	if cell < 0 {
		return -1
	}
	return cell / u.segments
}

// items returns the level of items in the model.
func (u *contexts) items() int {
	if u.segments > 1 {
		return 1
	}
	return 0
}

// path returns an item's place in the model, for a group of cells within it. It is false where the item has no number.
func (u *contexts) path(i policy.Item, within int32) (at contextual.Path, ok bool) {
	n := u.numberOf(i)
	if _, ok = u.cell(n, 0); !ok {
		return contextual.Path{-1, -1, -1}, false
	}
	at[0] = n*u.groups + within
	at[u.items()] = n
	if u.categories.look {
		at[u.items()+1] = u.kindOf(i, n)
	}
	return at, true
}

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

// awaitedSums are the number of selections in flight of a cell, and the sums of their features in units of 1/127; nil where all are 0.
type awaitedSums struct {
	awaited int64
	x       []int64
}

// await adds a selection in flight, times over.
func (c *awaitedSums) await(x []int8, times int64) {
	c.awaited += times
	if c.x = note(c.x, x, times); c.awaited == 0 {
		clear(c.x)
	}
}

// cellSums are the number and sum of fed payoffs, in units of 2⁻³⁰, the sums of their features in units of 1/127, and those of
// selections in flight. Nil slices are all 0.
type cellSums struct {
	fed int64
	r   int64
	s   []int64
	awaitedSums
}

func (c *cellSums) pay(x []int8, units int64) {
	c.fed++
	c.r += units
	c.s = note(c.s, x, 1)
}

func (c *cellSums) none() bool { return c.fed == 0 && c.awaited == 0 }

// add adds sums, times over.
func (c *cellSums) add(o *cellSums, times int64) {
	c.fed += times * o.fed
	c.awaited += times * o.awaited
	c.r += times * o.r
	c.s, c.x = added(c.s, o.s, times), added(c.x, o.x, times)
	if c.fed == 0 {
		c.s = nil
	}
	if c.awaited == 0 {
		c.x = nil
	}
}

func added(to, from []int64, times int64) []int64 {
	if to == nil && from != nil {
		to = make([]int64, len(from))
	}
	for j, n := range from {
		to[j] += times * n
	}
	return to
}

// note adds one selection's features, times over.
func note(to []int64, x []int8, times int64) []int64 {
	if to == nil {
		to = make([]int64, len(x))
	}
	for j, k := range x {
		to[j] += times * int64(k)
	}
	return to
}

// theirSums are the cells and linear sums of another source.
type theirSums struct {
	cells   policy.Pages[cellRows]
	awaited policy.Pages[int64] // by item, of cells
	linear  linearRows
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
