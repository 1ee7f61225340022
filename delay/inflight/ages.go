package inflight

import (
	"cmp"
	"slices"
)

// Ages counts payoffs by the bucket in which their selection began, and by bin of their age at payment. An age is comparable only
// within buckets that are old enough for it, and old buckets say less of the present. The zero value is empty.
type Ages struct {
	rows  []ageRow // ascending by time
	Early Early
}

// Early are the selections that began before a time, with a shorter horizon than the present one. Payoffs of greater ages were not counted.
// The zero value is none.
type Early struct{ Horizon, Before int64 }

// Add returns selections that contain both, as of the least horizon.
func (e Early) Add(o Early) Early {
	switch {
	case e.Horizon == 0:
		return o
	case o.Horizon == 0:
		return e
	}
	return Early{min(e.Horizon, o.Horizon), max(e.Before, o.Before)}
}

// ageRow counts the payoffs of selections that began in one bucket.
type ageRow struct {
	block  Bucket
	bins   []int64
	amount float64 // of all bins
}

// find returns the row of a time, or the index where to insert it.
func (a *Ages) find(time int64) (at int, found bool) {
	at, _ = slices.BinarySearchFunc(a.rows, time, func(r ageRow, time int64) int {
		if r.block.End() <= time {
			return -1
		}
		return 1
	})
	return at, at < len(a.rows) && a.rows[at].block.Start() <= time
}

// Row returns the bucket that counts payoffs of selections that began at a time, as of a tick.
func (a *Ages) Row(g *Scheme, began, tick int64) Bucket {
	if at, found := a.find(began); found {
		return a.rows[at].block
	}
	return g.BucketOf(began, tick)
}

// Compare orders by start, and of equal starts the longer first.
func (b Bucket) Compare(o Bucket) int {
	return cmp.Or(cmp.Compare(b.Start(), o.Start()), cmp.Compare(o.Level, b.Level))
}

// Add counts n payoffs of an age in milliseconds. An age past the horizon is ignored, as too late.
func (a *Ages) Add(g *Scheme, row Bucket, age, n int64) {
	if k := g.Bin(max(0, age)); k < g.Bins() {
		r := a.row(g, row)
		add(&r.bins[k], n)
		r.sum()
	}
}

// mostAges bounds a count: amounts of years stay below it, and the sum of two fits an int64.
const mostAges = 1 << 61

func add(to *int64, n int64) { *to = min(*to+n, mostAges) }

func (a *Ages) search(row Bucket) (at int, found bool) {
	return slices.BinarySearchFunc(a.rows, row, func(r ageRow, b Bucket) int { return r.block.Compare(b) })
}

// row returns a row, to be changed in place. Its sum follows.
func (a *Ages) row(g *Scheme, row Bucket) *ageRow {
	at, found := a.search(row)
	if !found {
		a.rows = slices.Insert(a.rows, at, ageRow{row, make([]int64, g.Bins()), 0})
	}
	return &a.rows[at]
}

func (r *ageRow) sum() {
	r.amount = 0
	for _, n := range r.bins {
		r.amount += float64(n)
	}
}

// Merge merges rows to the buckets of a tick, and calls changed for each row removed or changed.
func (a *Ages) Merge(g *Scheme, tick int64, changed func(row Bucket)) {
	kept := a.rows[:0]
	for _, r := range a.rows {
		to := g.Merged(r.block, tick)
		if to != r.block {
			changed(r.block)
			changed(to)
		}
		last := len(kept) - 1
		if last < 0 || kept[last].block.End() <= to.Start() {
			kept = append(kept, ageRow{to, r.bins, r.amount})
			continue
		}
		for k, n := range r.bins { // in one bucket now
			add(&kept[last].bins[k], n)
		}
		kept[last].sum()
	}
	clear(a.rows[len(kept):])
	a.rows = kept
}

func (a *Ages) Each(f func(row Bucket)) {
	for i := range a.rows {
		f(a.rows[i].block)
	}
}

// seen returns how many bins of a row are complete at a tick.
func (a *Ages) seen(g *Scheme, r *ageRow, tick int64) int {
	age := tick - r.block.End()
	if a.Early.Horizon > 0 && r.block.Start() < a.Early.Before {
		age = min(age, a.Early.Horizon)
	}
	return g.seen(age)
}

func (a Ages) Plus(g *Scheme, o Ages) Ages {
	sum := Ages{Early: a.Early.Add(o.Early)}
	for _, rows := range [][]ageRow{a.rows, o.rows} {
		for _, r := range rows {
			to := sum.row(g, r.block)
			for k, n := range r.bins {
				add(&to.bins[k], n)
			}
			to.sum()
		}
	}
	return sum
}
