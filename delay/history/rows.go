package history

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// Units is the number of units in a normalised payoff of 1, or in its square. Payoffs are rounded once, before they are added.
const Units = 1 << 30

func InUnits(x float64) int64 { return int64(math.Round(x * Units)) }

// Sums are the sums of a row: counts and integers.
type Sums[S any] interface {
	Add(o S) S
	// Minus removes sums that were added.
	Minus(o S) S
	// Bounded returns the sums, halved until their count is at most Full, so that nothing overflows.
	Bounded() S
	// Crowded reports whether the sums may have been halved: their count is at least half of Full.
	Crowded() bool
	// Append writes the numbers, each behind a colon.
	Append(dst []byte) []byte
}

// Full is the largest count of a row.
const Full = 1 << 31

// Most bounds a row's other sums: Full payoffs of 1, in Units.
const Most = Full * Units

type Payoffs struct {
	N int64 // number of payoffs, defaults included; from 1 on
	R int64 // their sum, in Units
	Q int64 // the sum of their squares, in Units
}

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

// Crowded implements Sums.
func (p Payoffs) Crowded() bool { return p.N >= Full/2 }

// Append implements Sums.
func (p Payoffs) Append(dst []byte) []byte { return AppendNumbers(dst, p.N, p.R, p.Q) }

// Row is a bucket and its sums.
type Row[S any] struct {
	inflight.Bucket
	Sum S
}

// Rows are sums by bucket of event time, ascending and disjoint. The zero value is empty.
type Rows[S Sums[S]] []Row[S]

func take[S Sums[S]](r *Row[S], s S) { r.Sum = r.Sum.Add(s).Bounded() }

// Count adds to the bucket of a time as of a tick, or to a longer one that contains the time, and returns the row's index.
func (h *Rows[S]) Count(g *inflight.Scheme, time, tick int64, s S) (at int) {
	at, within := h.At(time)
	if !within {
		*h = slices.Insert(*h, at, Row[S]{Bucket: g.BucketOf(time, tick)})
	}
	take(&(*h)[at], s)
	return at
}

// At returns the row whose bucket contains a time; or the index where to insert it.
func (h Rows[S]) At(time int64) (at int, within bool) {
	at, _ = slices.BinarySearchFunc(h, time, func(x Row[S], time int64) int {
		if x.End() <= time {
			return -1
		}
		return 1
	})
	return at, at < len(h) && h[at].Start() <= time
}

// Find returns the row of a bucket; or the index where to insert it.
func (h Rows[S]) Find(b inflight.Bucket) (at int, found bool) {
	return slices.BinarySearchFunc(h, b, func(x Row[S], b inflight.Bucket) int { return x.Compare(b) })
}

// Merge merges rows to the buckets of a tick, and returns whether it changed any.
func (h *Rows[S]) Merge(g *inflight.Scheme, tick int64) (changed bool) {
	kept := (*h)[:0]
	for _, x := range *h {
		b := g.Merged(x.Bucket, tick)
		changed = changed || b != x.Bucket
		if last := len(kept) - 1; last >= 0 && kept[last].End() > b.Start() { // in one bucket now
			take(&kept[last], x.Sum)
			continue
		}
		x.Bucket = b
		kept = append(kept, x)
	}
	*h = kept
	return changed
}

// Add returns the rows of both, in the longer of two overlapping buckets. It implements policy.Summand.
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
			take(&all[last], x.Sum)
			continue
		}
		all = append(all, x)
	}
	return all
}

// Replace returns the sum h with rows by in place of old, which was added to it. It equals summing all up again. ok is false unless
// each bucket of old lies within one of by, as after a merge, and where halved sums cannot be subtracted from.
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
	if sum, at = h.Add(by), 0; slices.ContainsFunc(sum, func(x Row[S]) bool { return x.Sum.Crowded() }) {
		return nil, false
	}
	for i := range old {
		for sum[at].End() <= old[i].Start() {
			at++
		}
		sum[at].Sum = sum[at].Sum.Minus(old[i].Sum)
	}
	return sum, true
}

func (h Rows[S]) Total() (all S) {
	for i := range h {
		all = all.Add(h[i].Sum)
	}
	return all
}
