package delay

import (
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/personal"
)

// ErrPersonal says that payoffs cannot be learned to depend on features with these settings.
var ErrPersonal = errors.New("delay: settings of features are faulty")

// PersonalConfig is what a Direct is made from whose payoffs depend on features.
type PersonalConfig struct {
	Space   *features.Space
	Silence Silence
	// Belief says what is known of σ. Its prior is EmpiricalPrior; or NoPrior with a Sigma that is given, where items have no means of
	// their own and features are all there is.
	Belief policy.Belief
}

// NewPersonal makes a learner that knows no items yet, whose policy goes by Input.Known (policy.Kind.Personal) with the same Belief.
// It fails with ErrPersonal.
func NewPersonal(p policy.Policy, c PersonalConfig) (*Direct, error) {
	if c.Silence.Drift != 0 {
		return nil, fmt.Errorf("%w: where means drift, what is known of features could not fade with them", ErrPersonal)
	}
	m := personal.Config{Space: c.Space, Step: 0.5, Levels: 1, Sigma: c.Belief.Sigma, EstimateSigma: c.Belief.EstimateSigma}
	switch _, optimistic := p.(*policy.Optimistic); {
	case c.Belief.Prior == policy.EmpiricalPrior:
	case c.Belief.Prior == policy.NoPrior && optimistic && !c.Belief.EstimateSigma:
		m.Levels = 0
	default:
		return nil, fmt.Errorf("%w: the prior must be empirical; or none, with policy optimistic and a sigma that is given", ErrPersonal)
	}
	model, err := personal.New(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPersonal, err)
	}
	d := direct(newBase(p), c.Silence)
	dim := c.Space.Dim()
	d.users = &users{model: model, dim: dim, names: c.Space.Names(), linear: personal.NewLinear(dim), middle: make([]int8, dim),
		linears: map[int32]*personal.Linear{}, theirs: map[int32]*policy.Pages[cellSums]{}, mean: make([]float64, dim)}
	d.users.middle[0] = features.One
	known := d.flights.evidence
	d.table.EvidenceBy(func(i policy.Item) policy.Evidence {
		d.users.stale.Note(i, 1)
		return known(i)
	})
	return d, nil
}

// users is what a learner knows of what payoffs depend on besides the item.
//
// A cell is an item. Of each there are sums of the features of its payoffs, and of its awaited selections; of all there are the linear
// sums. Both are integers, of this partition and of other sources. The model is a function of their totals, of the items' evidence, and
// of when it was fitted last; so the last fit is stored.
type users struct {
	model  *personal.Model
	names  []string
	dim    int
	middle []int8 // the features of who says nothing
	known  policy.Known
	mean   []float64

	own, pooled policy.Pages[cellSums]
	theirs      map[int32]*policy.Pages[cellSums]
	linear      *personal.Linear // of this partition
	linears     map[int32]*personal.Linear
	stale       policy.Changes // cells of which the model has not been told
	cells       policy.Changes // of our own
	moved       bool           // the linear sums have not been harvested
	told        bool           // something has come since it was last asked whether to fit
	unstored    bool           // the fit has not been harvested
	unfed       int64          // payoffs without features, since the process started
	fits        int64          // likewise
}

// cellSums are sums of features, in units of 1/127: of fed payoffs, and of awaited selections. Slices are nil where all is 0.
type cellSums struct {
	fed, awaited int64
	s, x         []int64
}

// add adds others' sums, so many times.
func (c *cellSums) add(o *cellSums, times int64) {
	c.fed += times * o.fed
	c.awaited += times * o.awaited
	c.s, c.x = added(c.s, o.s, times), added(c.x, o.x, times)
	if c.fed == 0 {
		c.s = nil
	}
	if c.awaited == 0 {
		c.x = nil
	}
}

func added(to, from []int64, times int64) []int64 {
	if to == nil && from != nil {
		to = make([]int64, len(from))
	}
	for j, n := range from {
		to[j] += times * n
	}
	return to
}

// note adds the features of one selection, so many times.
func note(to []int64, x []int8, times int64) []int64 {
	if to == nil {
		to = make([]int64, len(x))
	}
	for j, k := range x {
		to[j] += times * int64(k)
	}
	return to
}

// begin notes a selection whose payoff is awaited.
func (u *users) begin(fb *Feedback) {
	if len(fb.X) == u.dim {
		u.await(fb, 1)
	}
}

// await counts an awaited selection, or one that is awaited no longer. One that was not counted, as its learner was reset meanwhile,
// changes nothing.
func (u *users) await(fb *Feedback, times int64) {
	own := u.own.At(fb.Item)
	if times < 0 && own.awaited <= 0 || len(fb.X) != u.dim {
		return
	}
	for _, c := range [...]*cellSums{own, u.pooled.At(fb.Item)} {
		c.awaited += times
		if c.x = note(c.x, fb.X, times); c.awaited == 0 {
			clear(c.x)
		}
	}
	u.cells.Note(fb.Item, 1)
	u.stale.Note(fb.Item, 1)
}

// pay feeds a payoff. It gives the payoff as it counts, and whether it does: one without features tells nothing.
func (u *users) pay(fb *Feedback) (payoff float64, fed bool) {
	if len(fb.X) != u.dim {
		u.unfed++
		return 0, false
	}
	u.await(fb, -1)
	units := history.InUnits(fb.Payoff)
	for _, c := range [...]*cellSums{u.own.At(fb.Item), u.pooled.At(fb.Item)} {
		c.fed++
		c.s = note(c.s, fb.X, 1)
	}
	u.cells.Note(fb.Item, 1)
	u.linear.Add(fb.X, units)
	u.model.Total.Add(fb.X, units)
	u.moved, u.told = true, true
	return float64(units) / history.Units, true
}

// Categorise implements Categorising.
func (d *Direct) Categorise(policy.Item, string) {}

// settle tells the model of what has changed.
func (u *users) settle(t *policy.Table) {
	if u.stale.Len() == 0 {
		return
	}
	for i := range u.stale.All() {
		e, c, fed := t.Evidence(i), u.pooled.Get(i), t.Pooled(i)
		silent := personal.Silent{W: e.W - float64(fed.N), R: e.R - fed.R, Q: max(0, e.Q-fed.Q), X: u.mean}
		switch {
		case c.awaited > 0 && c.x != nil:
			u.average(c.x, c.awaited)
		case c.fed > 0 && c.s != nil:
			u.average(c.s, c.fed)
		default:
			u.average(nil, 1)
		}
		u.model.Set(i, e.W, e.R, c.s, silent)
	}
	u.stale.Clear()
	u.told = true
}

// average is the mean of so many features.
func (u *users) average(sum []int64, n int64) {
	clear(u.mean)
	for j, s := range sum {
		u.mean[j] = float64(s) / (float64(n) * features.One)
	}
}

// advance fits the model anew, if it is time to.
func (u *users) advance(t *policy.Table) {
	u.settle(t)
	if !u.told {
		return
	}
	u.told = false
	if u.model.Fit() {
		u.fits++
		u.unstored = true
	}
}

// know is what is known of the candidates of an impression.
func (u *users) know(t *policy.Table, in *policy.Input) *policy.Known {
	u.settle(t)
	k := &u.known
	u.model.Common(k)
	k.Candidates = k.Candidates[:0]
	for at, i := range in.Items {
		x := in.Context.Row(at, len(in.Items))
		if len(x) != u.dim {
			x = u.middle
		}
		mean, weight := u.model.Known(i, x, t.Evidence(i).Open)
		k.Candidates = append(k.Candidates, policy.Estimate{Mean: mean, Weight: weight})
	}
	return k
}

// forget forgets an item, of this partition and all others. What its payoffs told of features by how they differ stays.
func (u *users) forget(i policy.Item, sums policy.Sums) {
	if own := u.own.Get(i); own.fed > 0 {
		u.model.Total.Minus(u.linear)
		u.linear.Forget(own.fed, history.InUnits(sums.R), own.s)
		u.model.Total.Plus(u.linear)
		u.moved = true
	}
	*u.own.At(i), *u.pooled.At(i) = cellSums{}, cellSums{}
	for _, theirs := range u.theirs {
		theirs.Remove(i)
	}
	u.cells.Note(i, 1)
	u.stale.Note(i, 1)
}

// release gives back the memory of an item that was forgotten.
func (u *users) release(i policy.Item) {
	u.own.Remove(i)
	u.pooled.Remove(i)
}

// setCell sets what another source has of an item.
func (u *users) setCell(source int32, i policy.Item, now cellSums) {
	theirs := u.theirs[source]
	if theirs == nil {
		theirs = &policy.Pages[cellSums]{}
		u.theirs[source] = theirs
	}
	before, pooled := theirs.Get(i), u.pooled.At(i)
	pooled.add(&before, -1)
	pooled.add(&now, 1)
	*theirs.At(i) = now
	u.stale.Note(i, 1)
}
