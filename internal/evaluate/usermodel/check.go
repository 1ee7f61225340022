package usermodel

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Misfit compares selections with a model's expectations.
type Misfit struct {
	// Share is the mean relative error of a cell's selections, without the part of chance.
	Share float64
	// Deviations is the number of standard deviations of X² above its mean under chance.
	Deviations float64
}

// groups is the number of groups of items, by selection probability, in cells.
const groups = 4

// cell groups selections by item group, position, and span up to the next leader.
type cell struct {
	group, from, upTo int
}

// Check returns the misfit of selections by cell.
func (m *Model) Check() Misfit {
	r := m.rows
	group := m.groups(r)
	seen, expected := map[cell]float64{}, map[cell]float64{}
	for k := range r.all {
		x := &r.all[k]
		at := func(at, high int) cell {
			c := cell{group[m.of(x.shown[at])], bits.Len(uint(at)), 0}
			if high > 0 {
				c.upTo = 1 + bits.Len(uint(high-at-1))
				if high >= len(x.shown) {
					c.upTo = 64
				}
			}
			return c
		}
		m.each(x.shown, func(k, high int, p float64) {
			expected[at(k, high)] += x.times * p * m.Taken[m.of(x.shown[k])]
		})
		if s := int(x.selected); s >= 0 {
			seen[at(s, m.spanOf(x.shown, s))] += x.times
		}
	}
	var squares, cells, all float64
	for c, e := range expected {
		if e < 5 {
			continue
		}
		d := seen[c] - e
		squares += d * d / e
		cells++
		all += e
	}
	if cells == 0 {
		return Misfit{}
	}
	return Misfit{math.Sqrt(max(0, squares-cells) / all), (squares - cells) / math.Sqrt(2*cells)}
}

// groups divides items by Taken into groups of about equal numbers of selections.
func (m *Model) groups(r *Rows) []int {
	n := make([]float64, len(m.Taken))
	for k := range r.all {
		if x := &r.all[k]; x.selected >= 0 {
			n[m.of(x.shown[x.selected])] += x.times
		}
	}
	by := make([]int, len(n))
	for i := range by {
		by[i] = i
	}
	slices.SortFunc(by, func(i, j int) int { return cmp.Or(cmp.Compare(m.Taken[i], m.Taken[j]), cmp.Compare(i, j)) })
	g, sum := make([]int, len(n)), 0.0
	for _, i := range by {
		g[i] = min(groups-1, int(groups*sum/max(r.picked, 1)))
		sum += n[i]
	}
	return g
}
