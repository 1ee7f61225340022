package recency

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

const (
	// levelPrior is how many payoffs a level of 0 is worth, and levelLeast how many payoffs contradict another level.
	levelPrior = 4
	levelLeast = 4
)

// levels are by how much the payoffs of all items are higher at a time than otherwise: what items have in common. A level
// belongs to a block. It is the mean surprise around the block, on both sides of it, weighted by half-lives, over the longest
// horizon that no shorter one contradicts. So a level that jumps is known, as soon as payoffs from after the jump are there, for
// the block that ends with it and the one that begins. It is subtracted when payoffs are read.
type levels struct {
	of  []common // in the order of time
	now int      // the horizon of the level of the newest block, of what was before it

	told    []residuals // by block: what it is estimated from
	before  []common    // those of the last estimate, where memory may be used again
	forward []around    // by block: it, and what was before it
}

// common is what all items' payoffs of a block have in common.
type common struct {
	inflight.Bucket
	level float64 // in payoff ranges, a multiple of 1/history.Units
	stamp
}

// around is surprises within horizons.
type around struct{ n, u perHorizon }

// estimate finds the level of each block of some rows and what is silent. Of none it is as it was.
func (l *levels) estimate(h *halves, all history.Rows[Residual], silent []Unheard, sigma float64) {
	l.gather(all, silent)
	rows := l.told
	if len(rows) == 0 {
		return
	}
	l.place(h, rows)
	l.lookBack(h, rows)
	last := len(rows) - 1
	l.now = l.forward[last].horizon(h, sigma)
	var after around // what comes after the row at hand
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
		c.level = math.Round(both.u[k]/(both.n[k]+levelPrior)*history.Units) / history.Units
	}
}

// residuals is what the payoffs of a block brought above what was expected, and what is silent.
type residuals struct {
	inflight.Bucket
	n, u float64
}

// gather takes what payoffs told, and spreads what is silent of a block evenly over the time from row to row: blocks of what is silent
// are longer, and would hide when a level jumps. What comes to less than a payoff at the end tells nothing yet of a level of its own.
func (l *levels) gather(rows history.Rows[Residual], silent []Unheard) {
	l.told = l.told[:0]
	take := func(before int64) {
		for len(rows) > 0 && rows[0].Start() < before {
			x := &rows[0]
			l.told = append(l.told, residuals{x.Bucket, float64(x.Sum.N), float64(x.Sum.U) / history.Units})
			rows = rows[1:]
		}
	}
	for i := range silent {
		x := &silent[i]
		take(x.Start())
		first := len(l.told)
		if first > 0 && l.told[first-1].End() > x.Start() {
			first--
		}
		if take(x.End()); first == len(l.told) {
			l.told = append(l.told, residuals{x.Bucket, x.N, x.U})
			continue
		}
		spread(l.told[first:], x)
	}
	take(math.MaxInt64)
	for last := len(l.told) - 1; last > 0 && l.told[last].n < 1; last-- {
		l.told[last-1].n += l.told[last].n
		l.told[last-1].u += l.told[last].u
		l.told = l.told[:last]
	}
}

// spread gives each row what is silent from its beginning to that of the next, and the first one all that was before.
func spread(rows []residuals, x *Unheard) {
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

// place sets the blocks, and takes the stamps of those that were there before: they cost more than all the rest.
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

// lookBack finds what there is of each block and of what was before it.
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

// horizon is the one to take.
func (a *around) horizon(h *halves, sigma float64) int {
	var mean perHorizon
	for k := range h.count() {
		mean[k] = a.u[k] / a.n[k]
	}
	return longest(mean[:h.count()], a.n[:h.count()], levelLeast, contradiction, sigma)
}

// resize gives s the length n; its elements are whatever they were.
func resize[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, n, 2*n)
	}
	return s[:n]
}
