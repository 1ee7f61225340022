package delay

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// ErrContextual is wrapped by errors about a contextual learner's settings.
var ErrContextual = errors.New("delay: settings of features are faulty")

// ContextualConfig configures NewContextual.
type ContextualConfig struct {
	Space *features.Space
	// Silence.Horizon bounds the age of payoffs and sets the bucket length. Payoffs before a detected change do not count.
	Silence Silence
	// Expires says that an unpaid selection counts as Silence.Default, at the horizon or sooner. Changes within the last horizon
	// are then not detected, since its payoffs are incomplete.
	Expires bool
	// Belief gives σ. Its prior is EmpiricalPrior; or NoPrior with a given Sigma, where items have no means of their own and
	// payoffs depend on features only.
	Belief policy.Belief
}

// NewContextual returns a contextual learner without items: payoffs follow a linear mixed model (package contextual). The policy must
// decide by Input.Known, with the same Belief. It fails with ErrContextual.
func NewContextual(p policy.Policy, c ContextualConfig) (*Direct, error) {
	if c.Silence.Drift != 0 {
		return nil, fmt.Errorf("%w: with drift, features' effects could not decay", ErrContextual)
	}
	u := newUsers(&c)
	m := contextual.Config{Space: c.Space, Step: 0.5, Sigma: c.Belief.Sigma, EstimateSigma: c.Belief.EstimateSigma}
	m.Levels, m.Items = 1+u.items(), u.items()
	if u.categories.look {
		m.Levels++
	}
	switch _, optimistic := p.(*policy.Optimistic); {
	case c.Belief.Prior == policy.EmpiricalPrior:
	case m.Levels > 1:
		return nil, fmt.Errorf("%w: with segments or categories the prior must be empirical", ErrContextual)
	case c.Belief.Prior == policy.NoPrior && optimistic && !c.Belief.EstimateSigma:
		m.Levels = 0
	default:
		return nil, fmt.Errorf("%w: the prior must be empirical; or none, with policy optimistic and a sigma that is given", ErrContextual)
	}
	var err error
	if u.model, err = contextual.New(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrContextual, err)
	}
	u.by(0)
	d := direct(newBase(p), c.Silence)
	d.keepContexts(u)
	if a := d.flights.awaiting; a != nil {
		a.sums = nil // the model has its own variances
	}
	u.weigh = d.table.Weigh
	u.silent = silentCells{awaiting: d.flights.awaiting, clock: c.Space.Clock()}
	known := d.flights.evidence
	d.table.EvidenceBy(func(i policy.Item) policy.Evidence {
		d.contexts.stale.Note(i, 1)
		return known(i)
	})
	return d, nil
}

// contexts are the group statistics of a contextual learner.
//
// A cell is an item for users of one segment at one level of the clock; without segments and clock it is the item. A cell sums its
// payoffs and features, paid and in flight. Linear sums are over all cells. All are integers, by source. The model pools cells by
// group (grouping). It is a function of the sums, the items' evidence and categories, and the time of the last fit, which is
// stored. In a partition's learner, the global one (Pooling) holds other sources' sums and makes the fits.
type contexts struct {
	model      *contextual.Model
	names      []string
	dim        int
	declared   int    // coordinates without products
	middle     []int8 // features of a user without any
	known      policy.Known
	mean       []float64
	categories categories
	met        met
	x          []int8 // scratch for one vector
	width      int    // of vectors without age

	segments int32 // cell = item·segments + segment
	grouping
	own     policy.Pages[cellRows]
	pooled  policy.Pages[cellSums] // by group, over all sources; empty with a global learner
	awaited policy.Pages[int64]    // by item, of all sources; with a global learner, our own
	linear  paidLinear             // of this partition
	grid    inflight.Scheme
	pass    int64                // tick of our own newest fed selection
	theirs  map[int32]*theirSums // by source
	sums    cellSums             // scratch for one cell
	shared
	turning
	silent        silentCells
	weigh         func(policy.Item) // Table.Weigh: below a global learner, items whose cells differ are fresh
	stale         policy.Changes    // items whose weight in flight has changed since it was set in the model
	changedGroups policy.Changes    // groups likewise
	cells         policy.Changes    // own cells changed since the last harvest
	newData       bool              // since the last check whether a fit is due
	unstored      bool              // the fit has not been harvested
	unfed         int64             // payoffs without features, since the process started
	fits          int64             // since the process started
}

func newUsers(c *ContextualConfig) *contexts {
	s := c.Space
	dim := s.Dim()
	u := &contexts{dim: dim, declared: s.Declared(), names: s.Names(), grid: inflight.NewCoarseScheme(max(1, c.Silence.Horizon)), pass: inflight.Never, middle: make([]int8, dim), segments: int32(s.Segments()),
		theirs: map[int32]*theirSums{}, mean: make([]float64, dim), sums: cellSums{s: make([]int64, dim), awaitedSums: awaitedSums{x: make([]int64, dim)}}}
	u.coming, u.votes = map[int32]*theirSums{}, map[int32]int{}
	u.grouping = newGrouping(s)
	u.middle[0] = features.One
	if u.looked = inflight.Never; c.Expires {
		u.settles = c.Silence.Horizon
	}
	u.period = s.Clock().Period()
	u.categories.look = s.Categories()
	u.met, u.width = newMet(s), s.Width()
	return u
}

func (u *contexts) begin(fb *Feedback) {
	if len(fb.X) == u.width {
		u.await(fb, 1)
	}
}

// await adds a selection in flight, or removes it with times -1. One that was never counted changes nothing.
func (u *contexts) await(fb *Feedback, times int64) {
	cell, ok := u.cell(fb.Item, fb.Segment)
	if !ok || len(fb.X) != u.width {
		return
	}
	x := u.vector(fb.X, fb.Item, fb.Began)
	own := u.own.At(cell)
	if times < 0 && own.awaited <= 0 {
		return
	}
	own.await(x, times)
	*u.awaited.At(fb.Item) += times
	if u.global == nil {
		u.pooled.At(u.groupOf(cell)).await(x, times)
	}
	u.cells.Note(cell, 1)
	u.note(cell)
}

// note marks a cell's group, and its item's weight in flight, as changed.
func (u *contexts) note(cell int32) {
	u.changedGroups.Note(u.groupOf(cell), 1)
	if u.groups > 1 {
		u.stale.Note(u.itemOf(cell), 1)
	}
}

// pay feeds a payoff. It returns the payoff rounded to units, and false for one without features, which does not count.
func (u *contexts) pay(fb *Feedback) (payoff float64, fed bool) {
	cell, ok := u.cell(fb.Item, fb.Segment)
	if !ok || len(fb.X) != u.width {
		u.unfed++
		return 0, false
	}
	x := u.vector(fb.X, fb.Item, fb.Began)
	u.await(fb, -1)
	units := history.InUnits(fb.Payoff)
	u.reach(fb.Began)
	own := u.own.At(cell)
	at := own.rows.Count(&u.grid, fb.Began, u.pass, paidSums{})
	own.pay(at, x, units)
	u.linear.in(&u.grid, fb.Began, u.pass, u.dim).Add(x, units)
	if u.global == nil && own.rows[at].Start() >= u.model.Since() {
		u.pooled.At(u.groupOf(cell)).pay(x, units)
		u.model.Total.Add(x, units)
	}
	u.cells.Note(cell, 1)
	u.note(cell)
	u.newData = true
	return float64(units) / history.Units, true
}

// settle sets changed groups in the model.
func (u *contexts) settle(t *policy.Table) {
	for i := range u.stale.All() {
		if u.groups == 1 {
			u.changedGroups.Note(i, 1)
			continue
		}
		u.eachGroup(i, func(group int32) { // the groups' shares of the item's weight in flight change
			if u.sumsOf(group).awaited > 0 || u.differsInGroup(group) {
				u.changedGroups.Note(group, 1)
			}
		})
	}
	u.stale.Clear()
	if u.changedGroups.Len() == 0 {
		return
	}
	u.silent.known = false
	for group := range u.changedGroups.All() {
		u.setGroup(t, group)
	}
	u.changedGroups.Clear()
	u.newData = true
}

func (u *contexts) setGroup(t *policy.Table, group int32) {
	i := group / u.groups
	at, ok := u.path(i, group%u.groups)
	if !ok {
		return
	}
	e, fed := t.Evidence(i), t.Pooled(i)
	share := u.silentShare(i, group%u.groups)
	c := u.sumsOf(group)
	silent := contextual.Silent{W: share * (e.W - float64(fed.N)), R: share * (e.R - fed.R), Q: share * max(0, e.Q-fed.Q), X: u.mean}
	w, r := float64(c.fed)+silent.W, float64(c.r)/history.Units+silent.R
	if w == 0 && r == 0 && !u.model.Has(at[0]) {
		return
	}
	switch {
	case c.awaited > 0 && c.x != nil:
		u.average(c.x, c.awaited)
	case c.fed > 0 && c.s != nil:
		u.average(c.s, c.fed)
	default:
		u.average(nil, 1)
	}
	u.model.Set(at, w, r, c.s, silent)
}

func (u *contexts) average(sum []int64, n int64) {
	clear(u.mean)
	for j, s := range sum {
		u.mean[j] = float64(s) / (float64(n) * features.One)
	}
}

// advance fits the model if a fit is due, and looks for a change of effects.
func (u *contexts) advance(t *policy.Table) {
	u.settle(t)
	if !u.newData || u.global != nil {
		return
	}
	u.newData = false
	u.fit(t)
	if u.seek(t) {
		u.turn(t)
		u.fit(t)
	}
}

func (u *contexts) fit(t *policy.Table) {
	due := u.model.Due()
	if !u.model.Fit() {
		return
	}
	u.fits++
	u.unstored = true
	if due && u.regroup(t) {
		u.model.Fit()
	}
}

// row returns a candidate's features; without any, those in the middle of their ranges.
func (u *contexts) row(about *policy.Context, at, candidates int, i policy.Item) []int8 {
	if x := about.Row(at, candidates); len(x) == u.width {
		return u.vector(x, i, about.At)
	}
	return u.middle
}

// know returns the estimates of an impression's candidates.
func (u *contexts) know(t *policy.Table, in *policy.Input) *policy.Known {
	u.settle(t)
	k := &u.known
	u.model.Common(k)
	k.Candidates = k.Candidates[:0]
	within := u.within(in.Context.SegmentOf())
	for at, i := range in.Items {
		x := u.row(in.Context, at, len(in.Items), i)
		path, ok := u.path(i, within)
		open := t.Evidence(i).Open
		if u.groups > 1 && open > 0 {
			if ok {
				open *= u.share(i, u.sumsOf(i*u.groups+within))
			} else {
				open = 0
			}
		}
		mean, weight := u.model.Known(path, x, open)
		k.Candidates = append(k.Candidates, policy.Estimate{Mean: mean, Weight: weight})
	}
	return k
}

// forget drops an item's sums, of all sources; forgotten completes it. Its contribution to the effects of features stays.
func (u cellsHash) forget(i policy.Item) {
	u.eachCell(i, func(cell int32) {
		own := u.own.Get(cell)
		if len(own.rows) > 0 {
			u.changeLinear(&u.linear.rows, func() { u.forgetRows(own.rows) })
		}
		if !own.none() {
			u.cells.Note(cell, 1)
		}
		u.own.Remove(cell)
		for _, theirs := range u.theirs {
			theirs.cells.Remove(cell)
			theirs.awaited.Remove(i)
		}
	})
	u.eachGroup(i, u.pooled.Remove)
	u.awaited.Remove(i)
	u.newData = true
}

// changeLinear changes a source's linear sums, and the total with them.
func (u *contexts) changeLinear(rows *linearRows, change func()) {
	if u.global != nil {
		change()
		return
	}
	eachSince(*rows, u.model.Since(), u.model.Total.Minus)
	change()
	eachSince(*rows, u.model.Since(), u.model.Total.Plus)
}

// forgetRows removes a cell's payoffs from our linear sums, but for the differences among them.
func (u *contexts) forgetRows(rows history.Rows[paidSums]) {
	for i := range rows {
		if at, within := u.linear.rows.At(rows[i].Start()); within {
			u.linear.rows[at].Sum.Forget(rows[i].Sum.N, rows[i].Sum.R, rows[i].Sum.S)
			u.linear.note(u.linear.rows[at].Bucket)
		}
	}
}

// forgotten completes forget: the model drops the item, unless the global learner has it.
func (u *contexts) forgotten(t *policy.Table, i policy.Item) {
	u.settle(t)
	u.eachGroup(i, func(group int32) {
		if at, ok := u.path(i, group%u.groups); ok {
			u.model.Drop(at)
		}
	})
	u.categories.set(i, "")
}

func (u cellsHash) Release(i policy.Item) {
	u.settle(u.table)
	u.eachGroup(i, u.changedGroups.Release)
	u.eachCell(i, u.cells.Release)
	u.stale.Release(i)
	u.awaited.Remove(i)
	u.categories.changed.Release(i)
}
