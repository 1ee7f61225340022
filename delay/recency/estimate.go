package recency

import (
	"iter"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Rows are what is kept of an item: its selections by the block of time in which they began.
type Rows = history.Rows[Selections]

// Estimate is what the payoffs of all items tell of payoffs: the levels of time, and how payoffs spread once these are taken off.
// It is made at a time, its pass, and holds until it is made anew; what came since has the level of the newest block then. What
// an item is read as (Read) is a function of its rows and the estimate.
type Estimate struct {
	halves   halves
	belief   policy.Belief
	levels   levels
	spread   policy.Components
	pass     int64
	spreadAt int64 // how many payoffs there were when the spread was estimated
}

// NewEstimate makes one of no payoffs. Half-lives are ascending, 1 to MostHalfLives of them, the first at least a second and each at
// least twice the one before; for ever is added. It fails with ErrHalfLives.
func NewEstimate(halfLives []time.Duration, b policy.Belief) (*Estimate, error) {
	h, err := newHalves(halfLives)
	if err != nil {
		return nil, err
	}
	e := &Estimate{halves: h, belief: b, pass: inflight.Never}
	e.spread = b.ComponentsOf(func(func(policy.Evidence) bool) {})
	g := Scheme(halfLives, 1)
	any := g.BucketOf(0, inflight.Never)
	e.levels.of = []common{{Bucket: any, stamp: h.stampOfBlock(any)}} // all rows are of the first one
	e.levels.now = len(h.lives)
	return e, nil
}

// Scheme is the grid of blocks that rows are to be counted by: the shortest are about as long as the shortest half-life. payoffs
// may be so late, in milliseconds.
func Scheme(halfLives []time.Duration, horizon int64) inflight.Scheme {
	return inflight.NewSchemeUpTo(horizon, max(inflight.Shortest, halfLives[0].Milliseconds()))
}

// Tick is when the estimate was made; inflight.Never before it ever was.
func (e *Estimate) Tick() int64 { return e.pass }

// Make makes the estimate anew, of what payoffs of all items brought above what was expected, and what is silent, and of what there
// is of all items, of how many payoffs.
func (e *Estimate) Make(pass int64, rows history.Rows[Residual], silent []Unheard, fed int64, items iter.Seq[Item], count int) {
	e.pass = pass
	e.levels.estimate(&e.halves, rows, silent, e.spread.Sigma)
	if more := fed - e.spreadAt; more > 0 && more < min(int64(count), e.spreadAt/spreadShare) {
		return
	}
	e.spreadAt = fed
	e.spread = e.belief.ComponentsOf(e.sample(items))
}

// sample is the evidence of so many items of which something is known as the spread needs: of all of them up to spreadItems, and
// else of each second, third, … in their order.
func (e *Estimate) sample(items iter.Seq[Item]) iter.Seq[policy.Evidence] {
	known := func(yield func(Item) bool) {
		for item := range items {
			if len(item.Own)+len(item.Others)+len(item.Silent) > 0 && !yield(item) {
				return
			}
		}
	}
	count := 0
	for range known {
		count++
	}
	each, at := 1+(count-1)/spreadItems, 0
	return func(yield func(policy.Evidence) bool) {
		for item := range known {
			if at++; at%each == 0 && !yield(e.evidence(item)) {
				return
			}
		}
	}
}

// spreadItems is of how many items the spread is at most: it is then known to about a percent, within some milliseconds however large
// the catalogue is.
const spreadItems = 1 << 14

// spreadShare says when the spread is estimated anew: when there are as many payoffs more as items, or a 16th more.
const spreadShare = 16

// Spread is how payoffs spread, levels taken off.
func (e *Estimate) Spread() *policy.Components { return &e.spread }

// Level is by how much the newest payoffs are higher than otherwise, in payoff ranges, and halfLife the horizon that tells so, in
// milliseconds: +Inf for ever, which is that no level has changed.
func (e *Estimate) Level() (level, halfLife float64) {
	level = e.levels.of[len(e.levels.of)-1].level
	if e.levels.now == len(e.halves.lives) {
		return level, math.Inf(1)
	}
	return level, float64(e.halves.lives[e.levels.now])
}

// walk goes through the rows of an item and what is silent, from the newest on.
type walk struct {
	Item
	of []common
	at int // in of: the block of the row, or the last one before it; the first one at the least
	x  received
}

// received is what a row amounts to, or what is silent of a block, in normalised payoffs.
type received struct {
	policy.Evidence
	chances float64
	// within tells that much is still to come of the block that the row lies within: what is silent of it.
	within bool
}

func (e *Estimate) walk(i Item) walk { return walk{Item: i, of: e.levels.of, at: len(e.levels.of) - 1} }

// next is what comes next, which holds until the next call; nil where there is nothing. What is silent of a block comes after all
// rows within that.
func (w *walk) next() *received {
	row := w.newest()
	if last := len(w.Silent) - 1; last >= 0 {
		x := &w.Silent[last]
		if row == nil || row.Start() < x.Start() {
			w.Silent = w.Silent[:last]
			w.x = received{x.Evidence, x.W, false}
			w.find(x.Start())
			return &w.x
		}
		w.x.within = x.W >= 1 && row.Start() < x.End()
	} else {
		w.x.within = false
	}
	if row == nil {
		return nil
	}
	if o := len(w.Own) - 1; o >= 0 && row == &w.Own[o] {
		w.Own = w.Own[:o]
	} else {
		w.Others = w.Others[:len(w.Others)-1]
	}
	s := &row.Sum
	w.x.Evidence = policy.Evidence{W: float64(s.N), R: float64(s.R) / history.Units, Q: float64(s.Q) / history.Units}
	w.x.chances = float64(s.D) / chanceUnits
	w.find(row.Start())
	return &w.x
}

// newest is the newest of the rows that are left; nil where there is none.
func (w *walk) newest() *history.Row[Selections] {
	o, t := len(w.Own)-1, len(w.Others)-1
	switch {
	case o < 0 && t < 0:
		return nil
	case t < 0 || o >= 0 && w.Own[o].Start() >= w.Others[t].Start():
		return &w.Own[o]
	}
	return &w.Others[t]
}

// find goes back to the level of a time.
func (w *walk) find(time int64) {
	for w.at > 0 && w.of[w.at].Start() > time {
		w.at--
	}
}

// evidence is all payoffs of an item, less their levels, and what is silent.
func (e *Estimate) evidence(i Item) (x policy.Evidence) {
	w := e.walk(i)
	for s := w.next(); s != nil; s = w.next() {
		level := w.of[w.at].level
		x.W += s.W
		x.R += s.R - level*s.W
		x.Q += s.Q + level*(level*s.W-2*s.R)
	}
	x.Q = max(0, x.Q)
	return x
}
