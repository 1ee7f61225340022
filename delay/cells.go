package delay

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
)

// cell is the number of a cell; -1, of which nothing is known, where it has none: numbers end after 16 million items of 127 segments.
func (u *users) cell(i policy.Item, segment int32) (int32, bool) {
	if segment < 0 || segment >= u.segments {
		segment = 0
	}
	if i >= math.MaxInt32/u.segments {
		return -1, false
	}
	return i*u.segments + segment, true
}

// eachCell gives the cells of an item.
func (u *users) eachCell(i policy.Item, do func(cell int32)) {
	if first, ok := u.cell(i, 0); ok {
		for cell := first; cell < first+u.segments; cell++ {
			do(cell)
		}
	}
}

// itemOf is the item of a cell; -1 where the cell is none.
func (u *users) itemOf(cell int32) policy.Item {
	if cell < 0 {
		return -1
	}
	return cell / u.segments
}

// share is which part of the awaited selections of an item are a cell's.
func (u *users) share(i policy.Item, c *cellSums) float64 {
	if u.segments == 1 {
		return 1
	}
	if all := u.awaited.Get(i); c.awaited > 0 && all > 0 {
		return float64(c.awaited) / float64(all)
	}
	return 0
}

// cellSums are sums of fed payoffs, in units of 2⁻³⁰, and of features, in units of 1/127: of fed payoffs, and of awaited selections.
// Slices are nil where all is 0.
type cellSums struct {
	fed, awaited int64
	r            int64
	s, x         []int64
}

// add adds others' sums, so many times.
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

// note adds the features of one selection, so many times.
func note(to []int64, x []int8, times int64) []int64 {
	if to == nil {
		to = make([]int64, len(x))
	}
	for j, k := range x {
		to[j] += times * int64(k)
	}
	return to
}

// setCell sets what another source has of an item.
func (u *users) setCell(source int32, i policy.Item, cell int32, now cellSums) {
	theirs := u.theirs[source]
	if theirs == nil {
		theirs = &policy.Pages[cellSums]{}
		u.theirs[source] = theirs
	}
	before, pooled := theirs.Get(cell), u.pooled.At(cell)
	pooled.add(&before, -1)
	pooled.add(&now, 1)
	*u.awaited.At(i) += now.awaited - before.awaited
	*theirs.At(cell) = now
	u.note(i, cell)
}
