package inflight

import (
	"cmp"
	"slices"
)

// Ages are how old selections were when they were paid: counts by the block in which the selection began and the bin of its
// age, since an age can only be compared with those that could have been as great by then, and what began long ago tells less of now. The
// zero value is of none.
type Ages struct{ rows []ageRow } // ascending by time

// ageRow is the payoffs of selections that began in one block.
type ageRow struct {
	block Bucket
	bins  []int64
}

// find finds the row of a time, or where it belongs.
func (a *Ages) find(time int64) (at int, found bool) {
	at, _ = slices.BinarySearchFunc(a.rows, time, func(r ageRow, time int64) int {
		if r.block.End() <= time {
			return -1
		}
		return 1
	})
	return at, at < len(a.rows) && a.rows[at].block.Start() <= time
}

// Row is where the payoff of a selection counts that began at a time, at a pass.
func (a *Ages) Row(g *Scheme, began, pass int64) Bucket {
	if at, found := a.find(began); found {
		return a.rows[at].block
	}
	return g.BucketOf(began, pass)
}

// Compare sorts by time, and of two that begin at once the longer first.
func (b Bucket) Compare(o Bucket) int {
	return cmp.Or(cmp.Compare(b.Start(), o.Start()), cmp.Compare(o.Level, b.Level))
}

// Add counts n payoffs of an age, in milliseconds, in a row. One past the horizon is none: it has come too late.
func (a *Ages) Add(g *Scheme, row Bucket, age, n int64) {
	if k := g.Bin(max(0, age)); k < g.Bins() {
		add(&a.row(g, row)[k], n)
	}
}

// mostAges bounds a count. It is beyond what payoffs that are counted by their size come to in years, and two of it are a
// number still.
const mostAges = 1 << 61

func add(to *int64, n int64) { *to = min(*to+n, mostAges) }

// search finds a row, or where it belongs.
func (a *Ages) search(row Bucket) (at int, found bool) {
	return slices.BinarySearchFunc(a.rows, row, func(r ageRow, b Bucket) int { return r.block.Compare(b) })
}

// row is the counts of a row, by bin, to be changed in place.
func (a *Ages) row(g *Scheme, row Bucket) []int64 {
	at, found := a.search(row)
	if !found {
		a.rows = slices.Insert(a.rows, at, ageRow{row, make([]int64, g.Bins())})
	}
	return a.rows[at].bins
}

// Merge brings the rows to the blocks of a pass, and tells of each row that is gone and each that has changed.
func (a *Ages) Merge(g *Scheme, pass int64, changed func(row Bucket)) {
	kept := a.rows[:0]
	for _, r := range a.rows {
		to := g.Merged(r.block, pass)
		if to != r.block {
			changed(r.block)
			changed(to)
		}
		last := len(kept) - 1
		if last < 0 || kept[last].block.End() <= to.Start() {
			kept = append(kept, ageRow{to, r.bins})
			continue
		}
		for k, n := range r.bins { // of one block now
			add(&kept[last].bins[k], n)
		}
	}
	clear(a.rows[len(kept):])
	a.rows = kept
}

// Each calls f with each row.
func (a *Ages) Each(f func(row Bucket)) {
	for i := range a.rows {
		f(a.rows[i].block)
	}
}

// Plus is the ages of both.
func (a Ages) Plus(g *Scheme, o Ages) Ages {
	var sum Ages
	for _, rows := range [][]ageRow{a.rows, o.rows} {
		for _, r := range rows {
			to := sum.row(g, r.block)
			for k, n := range r.bins {
				add(&to[k], n)
			}
		}
	}
	return sum
}
