package history

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// Units are in a normalised payoff of 1, and in its square. A payoff is rounded once, before it is added.
const Units = 1 << 30

// InUnits rounds a normalised payoff, or its square.
func InUnits(x float64) int64 { return int64(math.Round(x * Units)) }

// Sums are what a row adds up: counts and integers.
type Sums[S any] interface {
	// Add is the sums of both.
	Add(o S) S
	// Minus takes out again what was added.
	Minus(o S) S
	// Bounded is the sums themselves, or where they count more than a row may, half of them, so that nothing overflows: what so
	// many tell of a mean is told by half as many.
	Bounded() S
	// Append writes them, each with a colon before it.
	Append(dst []byte) []byte
}

// Full is how many a row counts at the most.
const Full = 1 << 31

// Most bounds the other sums of a row: Full payoffs of a few times 1 each, in Units.
const Most = Full * Units

// Payoffs are sums of payoffs.
type Payoffs struct {
	N int64 // payoffs, those included that stand for selections that were never paid; from 1 on
	R int64 // their sum, in Units
	Q int64 // the sum of their squares, in Units
}

// PayoffsOf is a single normalised payoff.
func PayoffsOf(payoff float64) Payoffs {
	return Payoffs{1, InUnits(payoff), InUnits(float64(payoff * payoff))}
}

// Add implements Sums.
func (p Payoffs) Add(o Payoffs) Payoffs { return Payoffs{p.N + o.N, p.R + o.R, p.Q + o.Q} }

// Minus implements Sums.
func (p Payoffs) Minus(o Payoffs) Payoffs { return Payoffs{p.N - o.N, p.R - o.R, p.Q - o.Q} }

// Bounded implements Sums.
func (p Payoffs) Bounded() Payoffs {
	for p.N > Full {
		p = Payoffs{p.N >> 1, p.R >> 1, p.Q >> 1}
	}
	return p
}

// Append implements Sums.
func (p Payoffs) Append(dst []byte) []byte { return AppendNumbers(dst, p.N, p.R, p.Q) }

// Row is what belongs to a block.
type Row[S Sums[S]] struct {
	inflight.Bucket
	Sum S
}

// Rows are sums by block of event time, in ascending order of time: of one item by when its selections began, say. No two blocks
// overlap. The zero value is of none.
type Rows[S Sums[S]] []Row[S]

// take adds to the sums.
func (r *Row[S]) take(s S) { r.Sum = r.Sum.Add(s).Bounded() }

// Count adds to the block of a time at a pass, or to a longer one if that is there already, and tells which row that is.
func (h *Rows[S]) Count(g *inflight.Scheme, time, pass int64, s S) (at int) {
	at, within := h.At(time)
	if !within {
		*h = slices.Insert(*h, at, Row[S]{Bucket: g.BucketOf(time, pass)})
	}
	(*h)[at].take(s)
	return at
}

// At returns the row whose block a time lies within; or where such a row would stand.
func (h Rows[S]) At(time int64) (at int, within bool) {
	at, _ = slices.BinarySearchFunc(h, time, func(x Row[S], time int64) int {
		if x.End() <= time {
			return -1
		}
		return 1
	})
	return at, at < len(h) && h[at].Start() <= time
}

// Find returns the row of a block; or where it would stand.
func (h Rows[S]) Find(b inflight.Bucket) (at int, found bool) {
	return slices.BinarySearchFunc(h, b, func(x Row[S], b inflight.Bucket) int { return x.Compare(b) })
}

// Merge brings the rows to the blocks of a pass, and tells whether that changed any.
func (h *Rows[S]) Merge(g *inflight.Scheme, pass int64) (changed bool) {
	kept := (*h)[:0]
	for _, x := range *h {
		b := g.Merged(x.Bucket, pass)
		changed = changed || b != x.Bucket
		if last := len(kept) - 1; last >= 0 && kept[last].End() > b.Start() { // of one block now
			kept[last].take(x.Sum)
			continue
		}
		x.Bucket = b
		kept = append(kept, x)
	}
	*h = kept
	return changed
}

// Add is the rows of both, where what is in a block within a longer one goes into that. It is the summand of what is pooled.
func (h Rows[S]) Add(o Rows[S]) Rows[S] {
	if len(h) == 0 {
		return o
	}
	if len(o) == 0 {
		return h
	}
	all := make(Rows[S], 0, len(h)+len(o))
	for len(h) > 0 || len(o) > 0 {
		var x Row[S]
		if len(o) == 0 || len(h) > 0 && h[0].Compare(o[0].Bucket) <= 0 {
			x, h = h[0], h[1:]
		} else {
			x, o = o[0], o[1:]
		}
		if last := len(all) - 1; last >= 0 && x.Start() < all[last].End() {
			all[last].take(x.Sum)
			continue
		}
		all = append(all, x)
	}
	return all
}

// Replace is the rows of a sum in which others take the place of some that were added. It is what adding all up anew would come to;
// so it is ok only where each block of what goes is within one of what comes, as it is when time goes on.
func (h Rows[S]) Replace(old, by Rows[S]) (sum Rows[S], ok bool) {
	at := 0
	for i := range old {
		for at < len(by) && by[at].End() <= old[i].Start() {
			at++
		}
		if at == len(by) || by[at].Start() > old[i].Start() || by[at].End() < old[i].End() {
			return nil, false
		}
	}
	sum, at = h.Add(by), 0
	for i := range old {
		for sum[at].End() <= old[i].Start() {
			at++
		}
		sum[at].Sum = sum[at].Sum.Minus(old[i].Sum)
	}
	return sum, true
}

// Total is what all rows add up to.
func (h Rows[S]) Total() (all S) {
	for i := range h {
		all = all.Add(h[i].Sum)
	}
	return all
}
