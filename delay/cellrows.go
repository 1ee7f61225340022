package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/silence"
	"github.com/ranker-worker/ranker-worker/policy/personal"
)

// paidSums are sums over payoffs of a cell whose selections began in one block of event time: R in units of 2⁻³⁰, S by feature in units of
// 1/127.
type paidSums struct {
	N, R int64
	S    []int64
}

// Add implements history.Sums.
func (p paidSums) Add(o paidSums) paidSums {
	if o.S == nil {
		return p
	}
	return paidSums{p.N + o.N, p.R + o.R, added(slices.Clone(p.S), o.S, 1)}
}

// Minus implements history.Sums.
func (p paidSums) Minus(o paidSums) paidSums {
	return paidSums{p.N - o.N, p.R - o.R, added(slices.Clone(p.S), o.S, -1)}
}

// Bounded implements history.Sums: no cell is paid so often.
func (p paidSums) Bounded() paidSums { return p }

// Append implements history.Sums.
func (p paidSums) Append(dst []byte) []byte {
	return history.AppendNumbers(history.AppendNumbers(dst, p.N, p.R), p.S...)
}

// cellRows are what one source knows of a cell: its payoffs by when their selections began, and its awaited selections with their features.
type cellRows struct {
	rows    history.Rows[paidSums]
	awaited int64
	x       []int64
	kind    int32 // in what a whole is told, of which category the source says that the item is
}

// since sums up what counts where payoffs do from a time on.
func (c *cellRows) since(time int64) (sums cellSums) {
	sums = cellSums{awaited: c.awaited, x: c.x}
	for i := len(c.rows) - 1; i >= 0 && c.rows[i].Start() >= time; i-- {
		p := &c.rows[i].Sum
		sums.fed += p.N
		sums.r += p.R
		sums.s = added(sums.s, p.S, 1)
	}
	return sums
}

// await counts an awaited selection, so many times.
func (c *cellRows) await(x []int8, times int64) {
	c.awaited += times
	if c.x = note(c.x, x, times); c.awaited == 0 {
		clear(c.x)
	}
}

// pay adds a payoff in a row.
func (c *cellRows) pay(at int, x []int8, units int64) {
	p := &c.rows[at].Sum
	p.N++
	p.R += units
	p.S = note(p.S, x, 1)
}

// none tells whether there is nothing.
func (c *cellRows) none() bool { return len(c.rows) == 0 && c.awaited == 0 }

// same tells whether it is the same.
func (c *cellRows) same(o *cellRows) bool {
	return c.awaited == o.awaited && (c.awaited == 0 || slices.Equal(c.x, o.x)) && slices.EqualFunc(c.rows, o.rows, func(a, b history.Row[paidSums]) bool {
		return a.Block == b.Block && a.Sum.N == b.Sum.N && a.Sum.R == b.Sum.R && slices.Equal(a.Sum.S, b.Sum.S)
	})
}

// linearSums are those of one block. Who adds to them owns them.
type linearSums struct{ *personal.Linear }

// Add implements history.Sums; none is nil.
func (l linearSums) Add(o linearSums) linearSums {
	switch {
	case o.Linear == nil:
		return l
	case l.Linear == nil:
		return o
	}
	l.Plus(o.Linear)
	return l
}

// Minus implements history.Sums.
func (l linearSums) Minus(o linearSums) linearSums {
	l.Linear.Minus(o.Linear)
	return l
}

// Bounded implements history.Sums: the sums are of 128 bits.
func (l linearSums) Bounded() linearSums { return l }

// Append implements history.Sums.
func (l linearSums) Append(dst []byte) []byte { return dst }

// linearRows are the linear sums of one source, by when selections began.
type linearRows = history.Rows[linearSums]

// each gives the sums that count from a time on.
func eachSince(rows linearRows, time int64, do func(*personal.Linear)) {
	for i := len(rows) - 1; i >= 0 && rows[i].Start() >= time; i-- {
		do(rows[i].Sum.Linear)
	}
}

// blockAt are the sums of the block around a time; nil where there is none.
func blockAt(rows linearRows, time int64) *personal.Linear {
	for i := range rows {
		if rows[i].Start() <= time && time < rows[i].End() {
			return rows[i].Sum.Linear
		}
	}
	return nil
}

// paidLinear are our own linear sums.
type paidLinear struct {
	rows  linearRows
	moved []silence.Block // that have not been harvested
}

// note notes that a block is to be harvested.
func (l *paidLinear) note(b silence.Block) {
	if !slices.Contains(l.moved, b) {
		l.moved = append(l.moved, b)
	}
}

// noteAt notes that the block around a time is to be harvested.
func (l *paidLinear) noteAt(time int64) {
	for i := range l.rows {
		if l.rows[i].Start() <= time && time < l.rows[i].End() {
			l.note(l.rows[i].Block)
		}
	}
}

// merge brings the rows to the blocks of a pass.
func (l *paidLinear) merge(g *silence.Grid, pass int64) {
	for i := range l.rows {
		if b := g.Merged(l.rows[i].Block, pass); b != l.rows[i].Block {
			l.note(l.rows[i].Block)
			l.note(b)
		}
	}
	l.rows.Merge(g, pass)
}

// in are the sums of the block of a time, made if they are not there.
func (l *paidLinear) in(g *silence.Grid, time, pass int64, dim int) *personal.Linear {
	at := l.rows.Count(g, time, pass, linearSums{})
	row := &l.rows[at]
	if row.Sum.Linear == nil {
		row.Sum.Linear = personal.NewLinear(dim)
	}
	l.note(row.Block)
	return row.Sum.Linear
}
