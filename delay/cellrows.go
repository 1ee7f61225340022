package delay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

// paidSums sums a cell's payoffs of one bucket: their number N, sum R in units of 2⁻³⁰, and S by feature in units of 1/127.
type paidSums struct {
	N, R int64
	S    []int64
}

func (p paidSums) Add(o paidSums) paidSums {
	if o.S == nil {
		return p
	}
	return paidSums{p.N + o.N, p.R + o.R, added(slices.Clone(p.S), o.S, 1)}
}

func (p paidSums) Minus(o paidSums) paidSums {
	return paidSums{p.N - o.N, p.R - o.R, added(slices.Clone(p.S), o.S, -1)}
}

// Bounded implements history.Sums. Counts of a cell stay far below the bound.
func (p paidSums) Bounded() paidSums { return p }

func (p paidSums) Crowded() bool { return false }

func (p paidSums) Append(dst []byte) []byte {
	return history.AppendNumbers(history.AppendNumbers(dst, p.N, p.R), p.S...)
}

// awaitedSums are the number of selections in flight of a cell, and the sums of their features in units of 1/127; nil where all are 0.
type awaitedSums struct {
	awaited int64
	x       []int64
}

// await adds a selection in flight, times over.
func (c *awaitedSums) await(x []int8, times int64) {
	c.awaited += times
	if c.x = addVector(c.x, x, times); c.awaited == 0 {
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
	c.s = addVector(c.s, x, 1)
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

// sum adds sums, times over, into allocated slices.
func (c *cellSums) sum(o *cellSums, times int64) {
	c.fed += times * o.fed
	c.awaited += times * o.awaited
	c.r += times * o.r
	added(c.s, o.s, times)
	added(c.x, o.x, times)
}

// cellRows holds one source's payoffs of a cell by start time of their selections, and its selections in flight.
type cellRows struct {
	rows history.Rows[paidSums]
	awaitedSums
	kind int32 // the item's category according to this source; only in a global learner
}

// since returns the sums over payoffs in buckets that begin at time or later, and of selections in flight.
func (c *cellRows) since(time int64) (sums cellSums) {
	sums = cellSums{awaitedSums: c.awaitedSums}
	for i := len(c.rows) - 1; i >= 0 && c.rows[i].Start() >= time; i-- {
		p := &c.rows[i].Sum
		sums.fed += p.N
		sums.r += p.R
		sums.s = added(sums.s, p.S, 1)
	}
	return sums
}

func (c *cellRows) pay(at int, x []int8, units int64) {
	p := &c.rows[at].Sum
	p.N++
	p.R += units
	p.S = addVector(p.S, x, 1)
}

// none returns whether the cell is empty.
func (c *cellRows) none() bool { return len(c.rows) == 0 && c.awaited == 0 }

// equal returns whether both have equal contents.
func (c *cellRows) equal(o *cellRows) bool {
	return c.awaited == o.awaited && (c.awaited == 0 || slices.Equal(c.x, o.x)) && slices.EqualFunc(c.rows, o.rows, func(a, b history.Row[paidSums]) bool {
		return a.Bucket == b.Bucket && a.Sum.N == b.Sum.N && a.Sum.R == b.Sum.R && slices.Equal(a.Sum.S, b.Sum.S)
	})
}

// linearSums are the linear sums of one bucket. The caller of Add gives up ownership.
type linearSums struct{ *contextual.Linear }

// Add implements history.Sums; nil is empty.
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

func (l linearSums) Minus(o linearSums) linearSums {
	l.Linear.Minus(o.Linear)
	return l
}

// Bounded implements history.Sums. The sums have 128 bits.
func (l linearSums) Bounded() linearSums { return l }

func (l linearSums) Crowded() bool { return false }

func (l linearSums) Append(dst []byte) []byte { return dst }

// linearRows are one source's linear sums, by start time of selections.
type linearRows = history.Rows[linearSums]

// eachSince calls do with the sums of each bucket that begins at time or later.
func eachSince(rows linearRows, time int64, do func(*contextual.Linear)) {
	for i := len(rows) - 1; i >= 0 && rows[i].Start() >= time; i-- {
		do(rows[i].Sum.Linear)
	}
}

// paidLinear are our own linear sums.
type paidLinear struct {
	rows  linearRows
	moved []inflight.Bucket // buckets changed since the last harvest
}

func (l *paidLinear) note(b inflight.Bucket) {
	if !slices.Contains(l.moved, b) {
		l.moved = append(l.moved, b)
	}
}

// merge merges the rows to the buckets of a tick.
func (l *paidLinear) merge(g *inflight.Scheme, tick int64) {
	for i := range l.rows {
		if b := g.Merged(l.rows[i].Bucket, tick); b != l.rows[i].Bucket {
			l.note(l.rows[i].Bucket)
			l.note(b)
		}
	}
	l.rows.Merge(g, tick)
}

// in returns the sums of time's bucket, which it makes if needed.
func (l *paidLinear) in(g *inflight.Scheme, time, tick int64, dim int) *contextual.Linear {
	at := l.rows.Count(g, time, tick, linearSums{})
	row := &l.rows[at]
	if row.Sum.Linear == nil {
		row.Sum.Linear = contextual.NewLinear(dim)
	}
	l.note(row.Bucket)
	return row.Sum.Linear
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

// addVector adds one selection's features, times over.
func addVector(to []int64, x []int8, times int64) []int64 {
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
