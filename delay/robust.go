package delay

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// ErrRobust is wrapped by errors about Robust's settings.
var ErrRobust = errors.New("delay: settings of robust are faulty")

// RobustConfig configures NewRobust.
type RobustConfig struct {
	Policy *policy.Robust
	Belief policy.Belief
	// HalfLives are 1 to recency.MostHalfLives in ascending order, the first at least a second and each at least twice the one
	// before. An infinite one is added.
	HalfLives []time.Duration
	// Horizon is the age at which a selection expires, in milliseconds of event time; at least 1.
	Horizon int64
	// Silence is SilenceWaits or SilenceAges, without partial payoffs and drift. Its horizon is Horizon.
	Silence Silence
	Windows WindowsConfig
}

// Robust learns means that change, of single items or of all together. It decides with policy.Robust, from decayed means of each item's
// payoffs (package recency). Where no candidate's mean has changed, half of its rankings are MOSS's (see unchanged). Payoffs are fed as they arrive, and selections in flight count by their age, as with Direct (SilenceAges).
//
// State is counts and integers by item and bucket of event time, and by bucket for all items; it adds up over sources. The
// estimates over all items, of levels and spread, are made at ticks of the newest fed impression, and stored; below a global learner
// (Pooling) that one makes them. An item's reading is a function of both, cached until one changes.
//
// Hashes besides the items' sums: those of Direct, "recent" and "levels".
type Robust struct {
	base
	decides   *policy.Robust
	unchanged unchanged
	estimate  *recency.Estimate // our own; see now
	made      int               // number of estimates made or taken, in a global learner
	grid      inflight.Scheme
	items     recentItems
	levels    recentLevels
	unstored  bool  // the estimate has not been harvested
	unsteady  bool  // as of the last estimate, a level differs from those before
	shifts    int64 // times since the process started that one began to

	global *Robust // the global learner; nil where there is none
	number func(policy.Item) policy.Item
	mark   func(policy.Item) uint64 // identifies items

	recent          []policy.Recent
	rows            recency.Rows             // scratch for one item
	silent          []recency.Silent         // likewise
	flightResiduals []recency.FlightResidual // scratch for all items
	scores          []float64
	p               []float64
	means           []policy.AllTime
	shares          policy.Shares
	worths          policy.RobustWorkspace
	sampler         admissible.Sampler
}

var _ ItemRemoving = (*Robust)(nil)

// unchanged decides for Robust where no candidate's mean has changed (policy.AllTime). One half of the rankings are MOSS's, by the means of
// whole pasts, which explores items without payoffs better. The other half are drawn from policy.Robust.LookingAgain's point, which looks at
// every candidate again. Propensities are those of both halves together.
type unchanged struct {
	lookAgain *policy.Robust
	evidence  []policy.Evidence
	estimates policy.Known
	shown, p  []float64
}

// The hashes of Robust, besides those of Direct. Hash "recent" maps "<item>" to its ended selections by start time, in buckets as
// of the tick of the last end (recency.Rows). Hash "levels" maps a bucket level "<level>" to the residuals in its buckets
// (recency.Residual), as of the tick in field "pass". Field "levels" of hash "learner" is the last estimate (recency.Estimate).
var (
	hashRecent = named("recent")
	hashLevels = named("levels")
)

const fieldLevels = "levels"

// recentItems are the rows of items, and their cached readings.
type recentItems struct {
	column[recency.Packed]
	read policy.Pages[reading]
	at   uint32 // number of the valid readings
}

// init makes it empty. It must not move then.
func (r *recentItems) init(table *policy.Table) {
	totals := policy.NewTotals(func(i policy.Item, _, _ recency.Packed) { table.Weigh(i) })
	totals.KeepApart()
	totals.ReplaceBy(recency.Packed.Replace)
	r.at = 1
	r.column = newColumn(&totals, format[recency.Packed]{
		hash: hashRecent, pooled: true, rests: true,
		append: func(dst []byte, p recency.Packed) []byte { return p.Rows(nil).Append(dst) },
		read:   func(r *words.Reader) recency.Packed { return recency.Pack(recency.ReadSelections(r)) },
		equal:  same[recency.Packed],
	})
}

// changed drops an item's cached reading.
func (r *recentItems) changed(i policy.Item) {
	if r.read.Get(i).at != 0 {
		r.read.At(i).at = 0
	}
}

func (r *recentItems) Release(i policy.Item) {
	r.column.Release(i)
	r.read.Remove(i)
}

// reading is an item's decayed mean, and its mean; at is the number of the estimate, 0 if the item has changed since.
type reading struct {
	policy.Recent
	allTime policy.AllTime
	at      uint32
}

// recentLevels are the residuals of all items: our own, and others' by level of their buckets.
type recentLevels struct {
	grid    inflight.Scheme
	own     history.Rows[recency.Residual]
	others  policy.Totals[history.Rows[recency.Residual]]
	changes policy.Changes        // of our own, by level of the bucket
	tick    int64                 // tick of our own newest fed impression
	moved   bool                  // tick has not been harvested
	ticks   map[int32]int64       // of other sources
	latest  int64                 // the latest of ticks
	resyncs policy.Resyncs[int32] // levels of buckets read, and readTick
}

// blockLevels is the number of levels of buckets.
const blockLevels = 64

// NewRobust returns a learner without items. It fails with ErrRobust or ErrWindows.
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
	moss, err := policy.NewMOSS(c.Belief)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRobust, err)
	}
	r := &Robust{base: newBase(moss), unchanged: unchanged{lookAgain: c.Policy.LookingAgain()}, decides: c.Policy, estimate: estimate,
		grid: recency.Scheme(c.HalfLives, c.Horizon), mark: func(i policy.Item) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 >> 32 }}
	r.levels = recentLevels{grid: r.grid, tick: inflight.Never, ticks: map[int32]int64{}, latest: inflight.Never, resyncs: policy.Resyncs[int32]{}}
	r.levels.others.ReplaceBy(history.Rows[recency.Residual].Replace)
	if err := r.windows.configure(c.Windows); err != nil {
		return nil, err
	}
	c.Silence.Horizon = c.Horizon
	r.attach(c.Silence)
	if a := r.flights.awaiting; a != nil {
		a.byBlock, a.expects = true, true
	}
	r.table.EvidenceBy(func(i policy.Item) policy.Evidence { // called whenever payoffs or weight in flight of an item change
		r.items.changed(i)
		return r.table.Pooled(i).Evidence()
	})
	r.items.init(r.table)
	r.keepColumn(&r.items)
	r.hashes = append(r.hashes, &r.levels)
	r.singles[fieldLevels] = r.estimate.Load
	return r, nil
}

// Expects implements Optional. Decisions record scores.
func (r *Robust) Expects() bool { return true }

func (r *Robust) reading(i policy.Item) *reading {
	x := r.items.read.At(i)
	if x.at != r.items.at {
		x.Recent, x.allTime = r.now().Read(r.of(i))
		x.at = r.items.at
	}
	return x
}

// now returns the last estimate: the global learner's, if it has made one.
func (r *Robust) now() *recency.Estimate {
	if r.global != nil && r.global.made > 0 {
		return r.global.estimate
	}
	return r.estimate
}

// keeper returns the learner that holds an item's pooled state, and its number there: ours where it differs from the global one.
func (r *Robust) keeper(i policy.Item) (*Robust, policy.Item) {
	if r.global != nil && !r.table.IsFresh(i) {
		return r.global, r.number(i)
	}
	return r, i
}

// of returns an item's rows and selections in flight. It is valid until the next call.
func (r *Robust) of(i policy.Item) recency.Item {
	k, i := r.keeper(i)
	r.silent = r.silent[:0]
	if a := k.flights.awaiting; a != nil {
		spans, c := a.spansOf(i), a.sharesOf(i)
		for n := range spans {
			e := k.flights.silence.silent(policy.Evidence{}, inFlight{spans[n].Weigh(c.paid, c.below), a.now().low})
			r.silent = append(r.silent, recency.Silent{Bucket: spans[n].Bucket, Evidence: e})
		}
	}
	r.rows = k.items.Pooled(i).Rows(r.rows[:0])
	return recency.Item{Rows: r.rows, Silent: r.silent}
}

// residualsInFlight appends the weighted residuals of all items' selections in flight; a is nil without weights.
func residualsInFlight(dst []recency.FlightResidual, a *awaiting) []recency.FlightResidual {
	if a == nil {
		return dst
	}
	spans := a.every
	if others := a.theirEvery(); len(others) > 0 {
		spans = spans.Add(others)
		a.updateSharesIn(spans)
	}
	for k := range spans {
		x := &spans[k]
		w := x.Weigh(a.made.share, a.made.below)
		dst = append(dst, recency.FlightResidual{Bucket: x.Bucket, N: w.Sum(),
			U: (a.made.low-a.law.Default)*w.Below - w.Sum()*float64(x.Expected)/float64(x.N)/history.Units})
	}
	return dst
}

// Evidence implements Learner. Selections in flight count as with Direct.
func (r *Robust) Evidence(i policy.Item) policy.Evidence {
	of, n := r.keeper(i)
	return of.flights.evidence(n)
}

func (r *Robust) Selected(fb Feedback) { r.selected(&fb) }

// Partial implements Learner. Only complete payoffs count.
func (r *Robust) Partial(Feedback) {}

// Paid implements Learner. A payoff has no residual if its decision recorded no expectation.
func (r *Robust) Paid(fb Feedback) {
	r.paid(&fb)
	r.table.Add(fb.Item, fb.Payoff)
	r.count(fb.Item, fb.Began, recency.SelectionOf(fb.Payoff, fb.Propensity))
	r.countResidual(&fb)
}

// count adds ended selections of an item to the bucket of a time.
func (r *Robust) count(i policy.Item, began int64, s recency.Selections) {
	r.levels.reach(began)
	own, tick := r.items.At(i), r.levels.tick
	r.rows = own.Rows(r.rows[:0])
	r.rows.Merge(&r.grid, tick)
	r.rows.Count(&r.grid, began, tick, s)
	*own = recency.Pack(r.rows)
	r.items.Changed(i, 1)
}

// PaidForgotten implements ItemRemoving. Residuals belong to no item.
func (r *Robust) PaidForgotten(fb Feedback) {
	r.levels.reach(fb.Began)
	r.countResidual(&fb)
}

// reach moves the tick on to a paid impression's time.
func (l *recentLevels) reach(began int64) {
	if tick := l.grid.Tick(began); tick > l.tick {
		l.mergeTo(tick)
		l.tick, l.moved = tick, true
	}
}

// countResidual counts a payoff's residual, if its decision recorded an expectation.
func (r *Robust) countResidual(fb *Feedback) {
	if fb.HasExpected {
		r.levels.count(fb.Began, recency.ResidualOf(fb.Payoff, fb.Expected))
	}
}

// mergeTo merges our own rows to the buckets of a tick.
func (l *recentLevels) mergeTo(tick int64) {
	for _, x := range l.own {
		if b := l.grid.Merged(x.Bucket, tick); b != x.Bucket {
			l.changes.Note(int32(x.Level), 1)
			l.changes.Note(int32(b.Level), 1)
		}
	}
	l.own.Merge(&l.grid, tick)
}

func (l *recentLevels) count(began int64, s recency.Residual) {
	at := l.own.Count(&l.grid, began, l.tick, s)
	l.changes.Note(int32(l.own[at].Level), 1)
}

// pooled returns the rows of all sources.
func (l *recentLevels) pooled() history.Rows[recency.Residual] {
	all := l.own
	for level := range int32(blockLevels) {
		all = all.Add(l.others.Pooled(level))
	}
	return all
}

// Expired implements Learner. Nothing is learned.
func (r *Robust) Expired(fb Feedback) { r.flights.end(&fb, isDropped) }

// Advance implements Learner. Levels and spread are estimated again at a new tick of payoffs, and with the weights of selections in
// flight: a nightly file brings the first of many payoffs at a new tick, before a missing one is evidence.
func (r *Robust) Advance(watermark int64) {
	weighed := r.flights.weighed()
	r.base.Advance(watermark)
	tick := max(r.levels.tick, r.levels.latest)
	if r.global != nil || tick == inflight.Never || tick <= r.estimate.Tick() && weighed == r.flights.weighed() {
		return
	}
	r.estimate.Make(r.data(tick))
	r.estimated()
	r.unstored = true
}

// estimated notes that the estimate has changed.
func (r *Robust) estimated() {
	_, halfLife := r.now().Level()
	unsteady := !math.IsInf(halfLife, 1)
	if unsteady && !r.unsteady {
		r.shifts++
	}
	r.unsteady = unsteady
	r.items.at++
}

// data returns the state that estimates depend on.
func (r *Robust) data(tick int64) *recency.Data {
	r.flightResiduals = residualsInFlight(r.flightResiduals[:0], r.flights.awaiting)
	return &recency.Data{Tick: tick, Residuals: r.levels.pooled(), InFlight: r.flightResiduals, Fed: r.table.Fed(), Count: r.table.Len(),
		Items: func(yield func(uint64, func() recency.Item) bool) {
			var at policy.Item
			read := func() recency.Item { return r.of(at) }
			for at = range policy.Item(r.flights.Len()) {
				if r.known(at) && !yield(r.mark(at), read) {
					return
				}
			}
		}}
}

// known returns whether an item has payoffs or selections in flight.
func (r *Robust) known(i policy.Item) bool {
	if r.items.Own(i) != "" || r.items.Others(i) != "" {
		return true
	}
	a := r.flights.awaiting
	return a != nil && len(a.ours(i))+len(a.elsewhere(i)) > 0
}

func (r *Robust) Status() Status {
	s := r.status()
	s.Level = LevelStatus{Tracked: true, AsOf: r.now().Tick(), Changes: r.shifts}
	s.Level.Level, s.Level.HalfLife = r.now().Level()
	return s
}

// LearnAttraction makes a learner without state maximise payoff per impression. nothing is the normalised payoff of an impression without a
// selection. Unselected then needs the ranking in its feedback.
func (r *Robust) LearnAttraction(nothing float64) { r.learnAttraction(nothing) }

// Forget implements ItemRemoving. The item's contribution to the common level of all items stays.
func (r *Robust) Forget(i policy.Item) { r.forget(i) }
