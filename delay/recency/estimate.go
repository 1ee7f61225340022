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
	slope    float64 // the part of levels that payoffs confirm, 0 to 1
	tick     int64
	spreadAt int64 // number of payoffs at the last estimate of spread and slope
}

// NewEstimate returns one without payoffs. There are 1 to MostHalfLives half-lives in ascending order, the first at least a second
// and each at least twice the one before; an infinite one is added. It fails with ErrHalfLives.
func NewEstimate(halfLives []time.Duration, b policy.Belief) (*Estimate, error) {
	h, err := newHalves(halfLives)
	if err != nil {
		return nil, err
	}
	e := &Estimate{halves: h, belief: b, slope: 1, tick: inflight.Never}
	e.spread = b.ComponentsOf(func(func(policy.Evidence) bool) {})
	g := Scheme(halfLives, 1)
	e.levels.first = g.BucketOf(0, inflight.Never)
	e.levels.clear(&h)
	return e, nil
}

// Scheme returns buckets for a payoff horizon in milliseconds; the shortest are about as long as the shortest half-life.
func Scheme(halfLives []time.Duration, horizon int64) inflight.Scheme {
	return inflight.NewSchemeUpTo(horizon, max(inflight.Shortest, halfLives[0].Milliseconds()))
}

// Tick returns the tick of the estimate; inflight.Never before the first.
func (e *Estimate) Tick() int64 { return e.tick }

// Data are payoffs and selections in flight, of all sources as of a tick.
type Data struct {
	Tick      int64
	Residuals history.Rows[Residual]
	InFlight  []FlightResidual
	Fed       int64 // number of payoffs
	Count     int   // number of items
	// Items are those with payoffs or selections in flight, in any order: a number that identifies each, at random, and its state.
	Items iter.Seq2[uint64, func() Item]
}

// Make estimates levels and, where payoffs have grown by enough, spread and slope.
func (e *Estimate) Make(d *Data) {
	e.MakeLevels(d)
	if e.SpreadDue(d.Fed, d.Count) {
		e.makeSpread(d)
	}
}

// MakeLevels estimates levels. The result depends on the data, the last spread and the last slope alone.
func (e *Estimate) MakeLevels(d *Data) {
	e.tick = d.Tick
	e.levels.estimate(&e.halves, d.Residuals, d.InFlight, e.spread.Sigma, e.slope)
}

// MakeAll estimates levels, spread and slope. The result depends on the data alone.
func (e *Estimate) MakeAll(d *Data) {
	e.spread, e.slope = e.belief.ComponentsOf(func(func(policy.Evidence) bool) {}), 1
	e.MakeLevels(d)
	e.makeSpread(d)
	e.MakeLevels(d)
}

// SpreadDue returns whether the number of payoffs has changed by enough since the last spread; also if it is the same, since selections in
// flight may weigh more.
func (e *Estimate) SpreadDue(fed int64, items int) bool {
	more := fed - e.spreadAt
	return more <= 0 || more >= min(int64(items), e.spreadAt/spreadShare)
}

func (e *Estimate) makeSpread(d *Data) {
	e.spreadAt = d.Fed
	var s slope
	e.spread = e.belief.ComponentsOf(e.sample(d.Items, &s))
	e.slope = s.estimate(e.spread.Sigma)
}

// sample returns the evidence of all items up to spreadItems, else of one in two, three, … by the numbers that identify them. It adds them
// to the slope.
func (e *Estimate) sample(items iter.Seq2[uint64, func() Item], to *slope) iter.Seq[policy.Evidence] {
	count := uint64(0)
	for range items {
		count++
	}
	each := 1 + (max(1, count)-1)/spreadItems
	return func(yield func(policy.Evidence) bool) {
		for mark, read := range items {
			if mark%each == 0 && !yield(e.evidence(read(), to)) {
				return
			}
		}
	}
}

// spreadItems is about the largest number of items of the spread: a percent of error, within some milliseconds for any catalogue.
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
	var row *history.Row[Selections]
	if last := len(w.Rows) - 1; last >= 0 {
		row = &w.Rows[last]
	}
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
	w.Rows = w.Rows[:len(w.Rows)-1]
	s := &row.Sum
	w.x.Evidence = policy.Evidence{W: float64(s.N), R: float64(s.R) / history.Units, Q: float64(s.Q) / history.Units}
	w.x.chances = float64(s.D) / chanceUnits
	w.find(row.Start())
	return &w.x
}

// find moves back to the level of a time.
func (w *walk) find(time int64) {
	for w.at > 0 && w.of[w.at].Start() > time {
		w.at--
	}
}

// evidence returns an item's payoffs minus levels, and its weight in flight. It adds the item to the slope.
func (e *Estimate) evidence(i Item, to *slope) (x policy.Evidence) {
	w := e.walk(i)
	var of regression
	for s := w.next(); s != nil; s = w.next() {
		c := &w.of[w.at]
		x.W += s.W
		x.R += s.R - c.level*s.W
		x.Q += s.Q + c.level*(c.level*s.W-2*s.R)
		of.add(c.found, s.W, s.R)
	}
	x.Q = max(0, x.Q)
	to.add(&of)
	return x
}
