package recency

import (
	"iter"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Rows are an item's ended selections by bucket of their start.
type Rows = history.Rows[Selections]

// Estimate holds the levels over time that all items have in common, and the spread of payoffs around them. It is made at a tick
// and holds until the next; later payoffs have the newest bucket's level. Read is a function of an item's rows and the estimate.
type Estimate struct {
	halves   halves
	belief   policy.Belief
	levels   levels
	spread   policy.Components
	pass     int64
	spreadAt int64 // number of payoffs at the last estimate of spread
}

// NewEstimate returns one without payoffs. There are 1 to MostHalfLives half-lives in ascending order, the first at least a second
// and each at least twice the one before; an infinite one is added. It fails with ErrHalfLives.
func NewEstimate(halfLives []time.Duration, b policy.Belief) (*Estimate, error) {
	h, err := newHalves(halfLives)
	if err != nil {
		return nil, err
	}
	e := &Estimate{halves: h, belief: b, pass: inflight.Never}
	e.spread = b.ComponentsOf(func(func(policy.Evidence) bool) {})
	g := Scheme(halfLives, 1)
	any := g.BucketOf(0, inflight.Never)
	e.levels.of = []common{{Bucket: any, stamp: h.stampOfBlock(any)}} // all rows belong to the first
	e.levels.now = len(h.lives)
	return e, nil
}

// Scheme returns buckets for a payoff horizon in milliseconds; the shortest are about as long as the shortest half-life.
func Scheme(halfLives []time.Duration, horizon int64) inflight.Scheme {
	return inflight.NewSchemeUpTo(horizon, max(inflight.Shortest, halfLives[0].Milliseconds()))
}

// Tick returns the tick of the estimate; inflight.Never before the first.
func (e *Estimate) Tick() int64 { return e.pass }

// Make estimates levels from residuals of payoffs and of selections in flight, and the spread from count items with fed payoffs.
func (e *Estimate) Make(pass int64, rows history.Rows[Residual], silent []FlightResidual, fed int64, items iter.Seq[Item], count int) {
	e.pass = pass
	e.levels.estimate(&e.halves, rows, silent, e.spread.Sigma)
	if more := fed - e.spreadAt; more > 0 && more < min(int64(count), e.spreadAt/spreadShare) {
		return
	}
	e.spreadAt = fed
	e.spread = e.belief.ComponentsOf(e.sample(items))
}

// sample returns the evidence of items with payoffs: of all of them up to spreadItems, else of every second, third, ….
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

// spreadItems bounds the items of the spread: about a percent of error, within some milliseconds for any catalogue.
const spreadItems = 1 << 14

// spreadShare is the growth, a 16th of payoffs, after which the spread is estimated again; or as many payoffs as items.
const spreadShare = 16

// Spread returns the variance components of payoffs minus levels.
func (e *Estimate) Spread() *policy.Components { return &e.spread }

// Level returns the present level in payoff ranges, and its half-life in milliseconds: +Inf if no level has changed.
func (e *Estimate) Level() (level, halfLife float64) {
	level = e.levels.of[len(e.levels.of)-1].level
	if e.levels.now == len(e.halves.lives) {
		return level, math.Inf(1)
	}
	return level, float64(e.halves.lives[e.levels.now])
}

// walk iterates over an item's rows and selections in flight, newest first.
type walk struct {
	Item
	of []common
	at int // index in of: the row's bucket, or the last one before it; at least 0
	x  received
}

// received is the evidence of a row, or of a bucket's selections in flight, in normalised payoffs.
type received struct {
	policy.Evidence
	chances float64
	// within says that the row's bucket has a weight in flight of at least one payoff.
	within bool
}

func (e *Estimate) walk(i Item) walk { return walk{Item: i, of: e.levels.of, at: len(e.levels.of) - 1} }

// next returns the next evidence, valid until the next call; nil at the end. Selections in flight of a bucket come after all rows
// within it.
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

// newest returns the newest row left; nil if there is none.
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

// find moves back to the level of a time.
func (w *walk) find(time int64) {
	for w.at > 0 && w.of[w.at].Start() > time {
		w.at--
	}
}

// evidence returns an item's payoffs minus levels, and its weight in flight.
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
