package delay

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// ErrRobust says that the settings of Robust make no sense.
var ErrRobust = errors.New("delay: settings of robust are faulty")

// RobustConfig is what a Robust is made from.
type RobustConfig struct {
	Policy *policy.Robust
	Belief policy.Belief
	// HalfLives are what the past is looked at with: ascending, 1 to lately.MostHalfLives of them, the first at least a second
	// and each at least twice the one before. For ever is added.
	HalfLives []time.Duration
	// Horizon is after how many milliseconds of event time a selection expires, from 1 on.
	Horizon int64
	// Silence is what awaited selections count as: SilenceWaits or SilenceAges, of whole payoffs, without drift. Its horizon is Horizon.
	Silence Silence
	// Windows says where the distribution of windows comes from.
	Windows WindowsConfig
}

// Robust learns where the means of payoffs change, alone or together: it decides with policy.Robust, from what package lately
// reads of each item's payoffs. Each payoff is fed as it arrives, in whatever order. A selection whose payoff is awaited counts as it
// ages, as with Direct (SilenceAges): for its item, and for what all items have in common.
//
// What is kept is counts and integers, by item and block of event time, and for all items by block; it adds up over sources. What
// is estimated of all items, their levels and their spread, is estimated at passes, which are times of the newest impression
// that was fed, and stored as of then. What an item is read as is a function of both, made when it is first looked at after
// one of them has changed.
//
// Its state is stored in hashes of its own, besides the items' sums: those of Direct, and "lately" and "levels".
type Robust struct {
	base
	decides  *policy.Robust
	estimate *recency.Estimate
	grid     inflight.Scheme
	pass     int64 // of our own newest impression that was fed
	items    recentItems
	levels   recentLevels
	passes   map[int32]int64 // of other sources
	heard    int64           // the latest of these
	unstored bool            // the estimate has not been harvested
	moved    bool            // the pass has not been
	shifts   int64           // how often a level has begun to differ from those before, since the process started

	known   []policy.Recent
	silent  []recency.Silent  // memory for those of one item
	unheard []recency.Unheard // likewise, of all
	scores  []float64
	p       []float64
	shares  policy.Shares
	worths  policy.RobustWorkspace
	sampler admissible.Sampler
}

var (
	_ Learner   = (*Robust)(nil)
	_ Expecting = (*Robust)(nil)
)

// recentItems are the rows of items, our own and others', and what they are read as.
type recentItems struct {
	own    policy.Pages[ownRows]
	others policy.Totals[recency.Rows] // whose own part is of nothing
	read   policy.Pages[reading]
	at     uint32 // of the readings that hold
}

// ownRows are an item's, and the pass that they were merged at last, since the process started.
type ownRows struct {
	recency.Rows
	pass   int64
	merged bool // at pass
}

// merge brings the rows to the blocks of a pass, unless they are.
func (o *ownRows) merge(g *inflight.Scheme, pass int64) {
	if !o.merged || o.pass != pass {
		o.merged, o.pass = true, pass
		o.Merge(g, pass)
	}
}

// reading is what an item was read as, with the estimate of that number; 0 for one that has changed since.
type reading struct {
	policy.Recent
	at uint32
}

// recentLevels are the rows of all items' surprises: our own, and others' by the level of their blocks.
type recentLevels struct {
	own     history.Rows[recency.Residual]
	others  policy.Totals[history.Rows[recency.Residual]]
	changes policy.Changes // of our own, by the level of the block
}

// blockLevels are how many levels blocks have.
const blockLevels = 64

// NewRobust makes a learner that knows no items yet. It fails with ErrRobust or ErrWindows.
func NewRobust(c RobustConfig) (*Robust, error) {
	if c.Policy == nil || c.Horizon < 1 {
		return nil, fmt.Errorf("%w: it needs a policy, and a payoff horizon of a millisecond at least, not %d", ErrRobust, c.Horizon)
	}
	if s := c.Silence; s.Law == SilenceAtOnce || s.InParts || s.Drift != 0 {
		return nil, fmt.Errorf("%w: silence counts as it ages, of whole payoffs, or waits", ErrRobust)
	}
	estimate, err := recency.NewEstimate(c.HalfLives, c.Belief)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRobust, err)
	}
	r := &Robust{base: newBase(nil), decides: c.Policy, estimate: estimate, grid: recency.Scheme(c.HalfLives, c.Horizon),
		pass: inflight.Never, passes: map[int32]int64{}, heard: inflight.Never}
	if err := r.windows.configure(c.Windows); err != nil {
		return nil, err
	}
	c.Silence.Horizon = c.Horizon
	r.flights.tell(r.table, c.Silence)
	if a := r.flights.awaiting; a != nil {
		a.byBlock, a.expects = true, true
	}
	r.table.EvidenceBy(func(i policy.Item) policy.Evidence { // told whenever payoffs or silence of an item change
		r.items.read.At(i).at = 0
		return r.table.Pooled(i).Evidence()
	})
	r.items.at = 1
	r.items.others = policy.NewTotals(func(i policy.Item, _, _ recency.Rows) { r.items.read.At(i).at = 0 })
	r.items.others.ReplaceBy(recency.Rows.Replace)
	r.levels.others.Grow(blockLevels)
	return r, nil
}

// Grow implements Learner.
func (r *Robust) Grow(items int) {
	r.base.Grow(items)
	r.items.others.Grow(items)
}

// Expects implements Expecting: the scores.
func (r *Robust) Expects() bool { return true }

// Decide implements Learner.
func (r *Robust) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	n := len(candidates)
	q := r.point(candidates)
	d.Order = slices.Grow(d.Order[:0], n)[:n]
	r.sampler.SampleByWorth(r.p, q, r.worths.Values(), key.Float64(0), d.Order)
	d.Propensities, d.Expected = slices.Grow(d.Propensities[:0], n)[:n], slices.Grow(d.Expected[:0], n)[:n]
	for k, at := range d.Order {
		d.Propensities[k], d.Expected[k] = r.p[at], r.scores[at]
	}
	r.windows.mix(q, d.Propensities)
	d.Instance, d.Explored = -1, false
}

// point finds the candidates' scores and probabilities, and gives the windows for their number.
func (r *Robust) point(candidates []policy.Item) (q []float64) {
	n := len(candidates)
	q, _ = r.windows.fold(n)
	r.known = slices.Grow(r.known[:0], n)[:n]
	for k, i := range candidates {
		r.known[k] = *r.recent(i)
	}
	r.scores, r.p = slices.Grow(r.scores[:0], n)[:n], slices.Grow(r.p[:0], n)[:n]
	shares := r.attraction.shares(candidates, &r.shares)
	r.decides.PointPerImpression(r.known, shares, r.estimate.Spread(), q, r.scores, r.p, &r.worths)
	return q
}

// recent is what is known of an item.
func (r *Robust) recent(i policy.Item) *policy.Recent {
	x := r.items.read.At(i)
	if x.at != r.items.at {
		x.Recent, x.at = r.estimate.Read(r.of(i)), r.items.at
	}
	return &x.Recent
}

// of is all that there is of an item. It holds until the next call.
func (r *Robust) of(i policy.Item) recency.Item {
	r.silent = r.silent[:0]
	if a := r.flights.awaiting; a != nil {
		spans, c := a.spansOf(i), a.shares.Get(i)
		for k := range spans {
			e := r.flights.silence.silent(policy.Evidence{}, inFlight{spans[k].Weigh(c.paid, c.below), a.made.low})
			r.silent = append(r.silent, recency.Silent{Bucket: spans[k].Bucket, Evidence: e})
		}
	}
	return recency.Item{Own: r.items.own.Get(i).Rows, Others: r.items.others.Pooled(i), Silent: r.silent}
}

// surprises is by how much the awaited selections of all items fall short of what was expected of them, as far as they count. It
// holds until the next call.
func (r *Robust) surprises() []recency.Unheard {
	r.unheard = r.unheard[:0]
	a := r.flights.awaiting
	if a == nil {
		return nil
	}
	spans := a.every
	if others := a.theirEvery(); len(others) > 0 {
		spans = spans.Add(others)
		a.hearIn(spans)
	}
	for k := range spans {
		x := &spans[k]
		w := x.Weigh(a.made.share, a.made.below)
		r.unheard = append(r.unheard, recency.Unheard{Bucket: x.Bucket, N: w.Sum(),
			U: (a.made.low-a.none)*w.Below - w.Sum()*float64(x.Expected)/float64(x.N)/history.Units})
	}
	return r.unheard
}

// Selected implements Learner.
func (r *Robust) Selected(fb Feedback) { r.selected(&fb) }

// Partial implements Learner: what counts is the whole.
func (r *Robust) Partial(Feedback) {}

// Paid implements Learner: the payoff counts from now on. Of one whose decision had no expectation, no surprise is known.
func (r *Robust) Paid(fb Feedback) {
	r.paid(&fb)
	r.feed(fb.Item, fb.Payoff)
	r.reach(fb.Began)
	i := &r.items
	own := i.own.At(fb.Item)
	own.merge(&r.grid, r.pass)
	own.Count(&r.grid, fb.Began, r.pass, recency.SelectionOf(fb.Payoff, fb.Propensity))
	i.read.At(fb.Item).at = 0
	r.changes.Note(fb.Item, recentChanged)
	r.surprise(&fb)
}

// PaidForgotten implements Forgetting: what all items' payoffs have in common is no item's.
func (r *Robust) PaidForgotten(fb Feedback) {
	r.reach(fb.Began)
	r.surprise(&fb)
}

// reach takes in up to when an impression began that was paid.
func (r *Robust) reach(began int64) {
	if pass := r.grid.Tick(began); pass > r.pass {
		r.pass, r.moved = pass, true
		r.levels.merge(&r.grid, pass)
	}
}

// surprise counts what a payoff brought above what was expected of it, if anything was.
func (r *Robust) surprise(fb *Feedback) {
	if fb.HasExpected {
		r.levels.count(&r.grid, fb.Began, r.pass, recency.ResidualOf(fb.Payoff, fb.Expected))
	}
}

// merge brings our own rows to a pass.
func (l *recentLevels) merge(g *inflight.Scheme, pass int64) {
	for _, x := range l.own {
		if b := g.Merged(x.Bucket, pass); b != x.Bucket {
			l.changes.Note(int32(x.Level), 1)
			l.changes.Note(int32(b.Level), 1)
		}
	}
	l.own.Merge(g, pass)
}

// count counts a surprise of our own.
func (l *recentLevels) count(g *inflight.Scheme, began, pass int64, s recency.Residual) {
	at := l.own.Count(g, began, pass, s)
	l.changes.Note(int32(l.own[at].Level), 1)
}

// pooled are the rows of all sources.
func (l *recentLevels) pooled() history.Rows[recency.Residual] {
	l.others.TakeStaged()
	all := l.own
	for level := range int32(blockLevels) {
		all = all.Add(l.others.Pooled(level))
	}
	return all
}

// Expired implements Learner: nothing is learned.
func (r *Robust) Expired(fb Feedback) { r.dropped(&fb) }

// Advance implements Learner: besides windows, what all items tell is estimated anew where payoffs have come to another pass.
func (r *Robust) Advance(watermark int64) {
	r.base.Advance(watermark)
	pass := max(r.pass, r.heard)
	if pass <= r.estimate.Tick() {
		return
	}
	steady := r.steady()
	r.estimate.Make(pass, r.levels.pooled(), r.surprises(), r.table.Fed(), r.all(), r.table.Len())
	if steady && !r.steady() {
		r.shifts++
	}
	r.items.at++
	r.unstored = true
}

// steady tells that no level has changed lately: all of the past tells of the newest.
func (r *Robust) steady() bool {
	_, halfLife := r.estimate.Level()
	return math.IsInf(halfLife, 1)
}

// all is what there is of all items.
func (r *Robust) all() iter.Seq[recency.Item] {
	return func(yield func(recency.Item) bool) {
		for i := range r.items.others.Len() {
			if !yield(r.of(policy.Item(i))) {
				return
			}
		}
	}
}

// SetSource implements Learner.
func (r *Robust) SetSource(source int32, i policy.Item, s policy.Sums) {
	r.table.SetSource(source, i, s)
}

// LevelStatus is what Robust takes all items' payoffs to have in common at present, for people and metrics. It is of all partitions,
// as far as they are heard of.
type LevelStatus struct {
	Tracked bool // the rest is known
	// AsOf is when the newest selection began, to some seconds, that was paid by the time of the estimate, in milliseconds of event
	// time; before all times where there is none yet. Of several partitions, the one with the latest is up to date.
	AsOf int64
	// Level is by how much the newest payoffs are above what items' own means make of them, in payoff ranges.
	Level float64
	// HalfLife is over what past that is found, in milliseconds: +Inf while no level has changed lately.
	HalfLife float64
	Changes  int64 // how often HalfLife has left +Inf since the process started
}

// Status implements Learner.
func (r *Robust) Status() Status {
	s := r.status()
	s.Level = LevelStatus{Tracked: true, AsOf: r.estimate.Tick(), Changes: r.shifts}
	s.Level.Level, s.Level.HalfLife = r.estimate.Level()
	return s
}
