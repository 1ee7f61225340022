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

// ErrPersonal says that payoffs cannot be learned to depend on features with these settings.
var ErrPersonal = errors.New("delay: settings of features are faulty")

// ContextualConfig is what a Direct is made from whose payoffs depend on features.
type ContextualConfig struct {
	Space *features.Space
	// Silence.Horizon bounds payoffs, and sets the length of the blocks of event time that payoffs are stored by. After a change of the
	// effects of features and items, payoffs in earlier blocks are dropped.
	Silence Silence
	// Expires says that a selection that is never paid counts as Silence.Default, at the horizon or sooner. The last horizon has too few
	// payoffs then to detect a change within it.
	Expires bool
	// Belief says what is known of σ. Its prior is EmpiricalPrior; or NoPrior with a Sigma that is given, where items have no means of
	// their own and features are all there is.
	Belief policy.Belief
}

// NewPersonal makes a learner that knows no items yet, whose policy goes by Input.Known (policy.Kind.Personal) with the same Belief.
// It fails with ErrPersonal.
func NewPersonal(p policy.Policy, c ContextualConfig) (*Direct, error) {
	if c.Silence.Drift != 0 {
		return nil, fmt.Errorf("%w: where means drift, what is known of features could not fade with them", ErrPersonal)
	}
	u := newUsers(&c)
	m := contextual.Config{Space: c.Space, Step: 0.5, Sigma: c.Belief.Sigma, EstimateSigma: c.Belief.EstimateSigma}
	m.Levels, m.Items = 1+u.items(), u.items()
	if u.kinds.look {
		m.Levels++
	}
	switch _, optimistic := p.(*policy.Optimistic); {
	case c.Belief.Prior == policy.EmpiricalPrior:
	case m.Levels > 1:
		return nil, fmt.Errorf("%w: with segments or categories the prior must be empirical", ErrPersonal)
	case c.Belief.Prior == policy.NoPrior && optimistic && !c.Belief.EstimateSigma:
		m.Levels = 0
	default:
		return nil, fmt.Errorf("%w: the prior must be empirical; or none, with policy optimistic and a sigma that is given", ErrPersonal)
	}
	var err error
	if u.model, err = contextual.New(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPersonal, err)
	}
	u.by(0)
	d := direct(newBase(p), c.Silence)
	d.users = u
	u.silent = silentCells{awaiting: d.flights.awaiting, clock: c.Space.Clock()}
	known := d.flights.evidence
	d.table.EvidenceBy(func(i policy.Item) policy.Evidence {
		d.users.stale.Note(i, 1)
		return known(i)
	})
	return d, nil
}

// contextual is what a learner knows of what payoffs depend on besides the item.
//
// A cell is an item for the users of one segment at one level of the clock, or for all users where a learner declares neither. A cell has sums of
// its payoffs, of their features, and of those of its awaited selections. The linear sums are of all cells. Both are integers, of this
// partition and of other sources. The model pools cells by group (grouping). It is a function of the totals, of the items' evidence and
// categories, and of the time of the last fit, so the last fit is stored. A part of a whole (Sharing) leaves to it what others have told, and the fits.
type contexts struct {
	model    *contextual.Model
	names    []string
	dim      int
	declared int    // coordinates that are no products
	middle   []int8 // the features of who says nothing
	known    policy.Known
	mean     []float64
	kinds    categories
	met      met
	x        []int8 // memory for one vector
	width    int    // of vectors without the age

	segments int32 // a cell's number is its item's times these, and its segment's
	grouping
	own     policy.Pages[cellRows]
	pooled  policy.Pages[cellSums] // by group, over all sources; empty in a part
	awaited policy.Pages[int64]    // by item, of all sources; of a part, of its own
	linear  paidLinear             // of this partition
	grid    inflight.Scheme
	pass    int64                // of our own newest selection that was fed
	theirs  map[int32]*theirSums // by source
	sums    cellSums             // memory for those of one cell
	shared
	turning
	silent   silentCells
	stale    policy.Changes // items whose silence is not set in the model
	untold   policy.Changes // groups that are not
	cells    policy.Changes // of our own
	told     bool           // something has come since it was last asked whether to fit
	unstored bool           // the fit has not been harvested
	unfed    int64          // payoffs without features, since the process started
	fits     int64          // likewise
}

// newUsers makes one without a model.
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
	u.kinds.look = s.Categories()
	u.met.space, u.width = s, s.Width()
	return u
}

// begin notes a selection whose payoff is awaited.
func (u *contexts) begin(fb *Feedback) {
	if len(fb.X) == u.width {
		u.await(fb, 1)
	}
}

// await counts an awaited selection, or one that is awaited no longer. One that was not counted, as its learner was reset meanwhile,
// changes nothing.
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
	if u.whole == nil {
		u.pooled.At(u.groupOf(cell)).await(x, times)
	}
	u.cells.Note(cell, 1)
	u.note(cell)
}

// note marks a cell's group, and the silence of its item, as changed since the model was set.
func (u *contexts) note(cell int32) {
	u.untold.Note(u.groupOf(cell), 1)
	if u.groups > 1 {
		u.stale.Note(u.itemOf(cell), 1)
	}
}

// pay feeds a payoff. It returns the payoff as it counts, and whether it does: one without features does not.
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
	if u.whole == nil && own.rows[at].Start() >= u.model.Since() {
		u.pooled.At(u.groupOf(cell)).pay(x, units)
		u.model.Total.Add(x, units)
	}
	u.cells.Note(cell, 1)
	u.note(cell)
	u.told = true
	return float64(units) / history.Units, true
}

// settle sets the groups in the model that have changed.
func (u *contexts) settle(t *policy.Table) {
	for i := range u.stale.All() {
		if u.groups == 1 {
			u.untold.Note(i, 1)
			continue
		}
		u.eachGroup(i, func(group int32) { // whose share of the item's silence changes
			if u.sumsOf(group).awaited > 0 || u.differsInGroup(group) {
				u.untold.Note(group, 1)
			}
		})
	}
	u.stale.Clear()
	if u.untold.Len() == 0 {
		return
	}
	u.silent.known = false
	for group := range u.untold.All() {
		u.tell(t, group)
	}
	u.untold.Clear()
	u.told = true
}

// tell sets a group in the model.
func (u *contexts) tell(t *policy.Table, group int32) {
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

// average is the mean of so many features.
func (u *contexts) average(sum []int64, n int64) {
	clear(u.mean)
	for j, s := range sum {
		u.mean[j] = float64(s) / (float64(n) * features.One)
	}
}

// advance fits the model if a fit is due, and searches for a change of payoffs.
func (u *contexts) advance(t *policy.Table) {
	u.settle(t)
	if !u.told || u.whole != nil {
		return
	}
	u.told = false
	u.fit(t)
	if u.seek(t) {
		u.turn(t)
		u.fit(t)
	}
}

// fit fits the model if a fit is due.
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

// row are the features of a candidate, of so many; where there are none, those in the middle of their ranges.
func (u *contexts) row(about *policy.Context, at, candidates int, i policy.Item) []int8 {
	if x := about.Row(at, candidates); len(x) == u.width {
		return u.vector(x, i, about.At)
	}
	return u.middle
}

// know is what is known of the candidates of an impression.
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

// forget forgets an item, of this partition and all others, until forgotten. What its payoffs told of features by how they differ stays.
func (u *contexts) forget(i policy.Item) {
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
	u.told = true
}

// changeLinear changes linear sums of a source, which are part of the total.
func (u *contexts) changeLinear(rows *linearRows, change func()) {
	if u.whole != nil {
		change()
		return
	}
	eachSince(*rows, u.model.Since(), u.model.Total.Minus)
	change()
	eachSince(*rows, u.model.Since(), u.model.Total.Plus)
}

// forgetRows takes a cell's payoffs out of our own linear sums, but for the differences among them.
func (u *contexts) forgetRows(rows history.Rows[paidSums]) {
	for i := range rows {
		if at, within := u.linear.rows.At(rows[i].Start()); within {
			u.linear.rows[at].Sum.Forget(rows[i].Sum.N, rows[i].Sum.R, rows[i].Sum.S)
			u.linear.note(u.linear.rows[at].Bucket)
		}
	}
}

// forgotten ends that an item is forgotten: the model knows nothing more of it than a whole does.
func (u *contexts) forgotten(t *policy.Table, i policy.Item) {
	u.settle(t)
	u.eachGroup(i, func(group int32) {
		if at, ok := u.path(i, group%u.groups); ok {
			u.model.Drop(at)
		}
	})
	u.kinds.set(i, "")
	u.met.forget(i)
}

// release gives back the memory of an item that was forgotten, of which no change is left to be told.
func (u *contexts) release(i policy.Item) {
	u.eachGroup(i, u.untold.Release)
	u.eachCell(i, u.cells.Release)
	u.stale.Release(i)
	u.awaited.Remove(i)
	u.kinds.changed.Release(i)
	u.met.changed.Release(i)
}
