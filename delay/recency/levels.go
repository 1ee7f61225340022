package recency

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

const (
	// levelPrior is the weight of the prior level 0, and levelLeast the least number of payoffs that contradict a level; both in payoffs.
	levelPrior = 4
	levelLeast = 4
)

// levels holds the level of each bucket: how much payoffs of all items exceed their expectations then. It is the mean residual on
// both sides of the bucket, weighted by the longest half-life that no shorter one contradicts. So a jump is known, as soon as there
// are payoffs after it, for the buckets that it separates. Reading an item subtracts levels.
type levels struct {
	of  []common // in the order of time
	now int      // index of the half-life of the newest bucket's level, looking back

	first inflight.Bucket // of the level where there are no residuals

	merged  []residuals // by bucket: the data
	before  []common    // the last estimate's, whose memory is reused
	forward []around    // by bucket: sums up to it
}

// common is the level of a bucket, in payoff ranges.
type common struct {
	inflight.Bucket
	found float64 // by residuals; not stored
	level float64 // the part of it that payoffs confirm, see slope; a multiple of 1/history.Units
	stamp
}

// around are residuals by half-life: their number n and sum u.
type around struct{ n, u perHorizon }

// clear sets one level, 0, which all rows have.
func (l *levels) clear(h *halves) {
	l.of = append(l.of[:0], common{Bucket: l.first, stamp: h.stampOfBlock(l.first)})
	l.now = len(h.lives)
}

// estimate computes the level of each bucket. slope is the part of found levels that payoffs confirm.
func (l *levels) estimate(h *halves, all history.Rows[Residual], silent []FlightResidual, sigma, slope float64) {
	l.gather(all, silent)
	rows := l.merged
	if len(rows) == 0 {
		l.clear(h)
		return
	}
	l.place(h, rows)
	l.lookBack(h, rows)
	last := len(rows) - 1
	l.now = l.forward[last].horizon(h, sigma)
	var after around // sums after the present row
	for j := last; j >= 0; j-- {
		n, u := rows[j].n, rows[j].u
		f, c := &l.forward[j], &l.of[j]
		both := around{}
		for k := range h.count() {
			if j < last {
				w := l.of[j+1].since(&c.stamp, k)
				after.n[k] *= w
				after.u[k] *= w
			}
			both.n[k], both.u[k] = f.n[k]+after.n[k], f.u[k]+after.u[k]
			after.n[k] += n
			after.u[k] += u
		}
		k := both.horizon(h, sigma)
		c.found = both.u[k] / (both.n[k] + levelPrior)
		c.level = math.Round(slope*c.found*history.Units) / history.Units
	}
}

// residuals are a bucket's residuals, those of selections in flight included.
type residuals struct {
	inflight.Bucket
	n, u float64
}

// gather merges rows and selections in flight. The weight of a bucket of the latter is spread evenly over the time from row to row,
// since its buckets are longer and would hide a jump. Less than one payoff at the end has no level of its own.
func (l *levels) gather(rows history.Rows[Residual], silent []FlightResidual) {
	l.merged = l.merged[:0]
	take := func(before int64) {
		for len(rows) > 0 && rows[0].Start() < before {
			x := &rows[0]
			l.merged = append(l.merged, residuals{x.Bucket, float64(x.Sum.N), float64(x.Sum.U) / history.Units})
			rows = rows[1:]
		}
	}
	for i := range silent {
		x := &silent[i]
		take(x.Start())
		first := len(l.merged)
		if first > 0 && l.merged[first-1].End() > x.Start() {
			first--
		}
		if take(x.End()); first == len(l.merged) {
			l.merged = append(l.merged, residuals{x.Bucket, x.N, x.U})
			continue
		}
		spread(l.merged[first:], x)
	}
	take(math.MaxInt64)
	for last := len(l.merged) - 1; last > 0 && l.merged[last].n < 1; last-- {
		l.merged[last-1].n += l.merged[last].n
		l.merged[last-1].u += l.merged[last].u
		l.merged = l.merged[:last]
	}
}

// spread gives each row the weight in flight from its start to the next row's, and the first also the weight before it.
func spread(rows []residuals, x *FlightResidual) {
	from := x.Start()
	for j := range rows {
		to := x.End()
		if j+1 < len(rows) {
			to = rows[j+1].Start()
		}
		part := float64(to-from) / float64(x.End()-x.Start())
		rows[j].n += part * x.N
		rows[j].u += part * x.U
		from = to
	}
}

// place sets the buckets, and reuses stamps, which cost more than all the rest.
func (l *levels) place(h *halves, rows []residuals) {
	l.before, l.of = l.of, resize(l.before, len(rows))
	at := 0
	for j := range rows {
		for at < len(l.before) && l.before[at].Compare(rows[j].Bucket) < 0 {
			at++
		}
		if at < len(l.before) && l.before[at].Bucket == rows[j].Bucket {
			l.of[j] = l.before[at]
			continue
		}
		l.of[j] = common{Bucket: rows[j].Bucket, stamp: h.stampOfBlock(rows[j].Bucket)}
	}
}

// lookBack sums the residuals up to each bucket.
func (l *levels) lookBack(h *halves, rows []residuals) {
	l.forward = resize(l.forward, len(rows))
	for j := range rows {
		f := &l.forward[j]
		n, u := rows[j].n, rows[j].u
		for k := range h.count() {
			f.n[k], f.u[k] = n, u
			if j > 0 {
				w := l.of[j].since(&l.of[j-1].stamp, k)
				f.n[k] += w * l.forward[j-1].n[k]
				f.u[k] += w * l.forward[j-1].u[k]
			}
		}
	}
}

// horizon returns the half-life to use.
func (a *around) horizon(h *halves, sigma float64) int {
	var mean perHorizon
	for k := range h.count() {
		mean[k] = a.u[k] / a.n[k]
	}
	return longest(mean[:h.count()], a.n[:h.count()], levelLeast, contradiction, sigma)
}

// resize returns s with length n; its elements are arbitrary.
func resize[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, n, 2*n)
	}
	return s[:n]
}
