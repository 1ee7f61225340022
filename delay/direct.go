package delay

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

// Direct feeds every payoff to BASE as it arrives, and counts selections in flight as open samples (policy.Evidence.Open): an
// exploration bonus shrinks at the selection, not only at the payoff. It never goes on hold, reads other sources at once, and works
// with windows that are not lazy. In exchange BASE sees payoffs in another order than without delay. Index and posterior policies
// do not depend on it; the proof for elimination does.
//
// Silence sets the weight of a selection in flight; partial payoffs count with it. A selection whose payoff comes with it is never
// in flight at a decision.
//
// Hashes besides the items' sums: "flights" (see hashFlights), "open" for partial payoffs, "history" with drift, and windows as
// BOLD stores them. Contextual learners (NewContextual) have more.
type Direct struct{ base }

var (
	_ ItemRemoving = (*Direct)(nil)
	_ Readable     = (*Direct)(nil)
)

// NewDirect returns a learner without items.
func NewDirect(p policy.Policy, s Silence) *Direct { return direct(newBase(p), s) }

// NewExploringDirect returns a learner with an exploring BASE, for given or learned windows. It fails with ErrWindows.
func NewExploringDirect(e *policy.EpsilonGreedy, w WindowsConfig, s Silence) (*Direct, error) {
	b, err := newExploring(e, w)
	if err != nil {
		return nil, err
	}
	return direct(b, s), nil
}

// NewContextual returns a contextual learner without items: payoffs follow a linear mixed model (package contextual). The policy must
// decide by Input.Known, with the same Belief. It fails with ErrContextual.
func NewContextual(p policy.Policy, c ContextualConfig) (*Direct, error) {
	if c.Silence.Drift != 0 {
		return nil, fmt.Errorf("%w: with drift, features' effects could not decay", ErrContextual)
	}
	u := newContexts(&c)
	m := contextual.Config{Space: c.Space, Step: 0.5, Sigma: c.Belief.Sigma, EstimateSigma: c.Belief.EstimateSigma}
	m.Levels, m.Items = 1+u.items(), u.items()
	if u.categories.look {
		m.Levels++
	}
	switch index, ok := p.(*policy.Index); {
	case c.Belief.Prior == policy.EmpiricalPrior:
	case m.Levels > 1:
		return nil, fmt.Errorf("%w: with segments or categories the prior must be empirical", ErrContextual)
	case c.Belief.Prior == policy.NoPrior && ok && index.Plain() && !c.Belief.EstimateSigma:
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

func direct(b base, s Silence) *Direct {
	d := &Direct{b}
	d.attach(s)
	if a := d.flights.awaiting; a != nil && !s.InParts && s.Drift == 0 {
		a.sums = d.table.Pooled
	}
	return d
}

// Selected implements Learner. The selection is in flight from now on.
func (d *Direct) Selected(fb Feedback) {
	if d.contexts != nil {
		d.contexts.begin(&fb)
	}
	d.selected(&fb)
}

// Partial implements Learner. The amount so far counts as Silence defines.
func (d *Direct) Partial(fb Feedback) { d.flights.part(&fb) }

// Paid implements Learner. BASE is fed.
func (d *Direct) Paid(fb Feedback) {
	if d.contexts != nil {
		var fed bool
		if fb.Payoff, fed = d.contexts.pay(&fb); !fed {
			d.flights.end(&fb, isDropped)
			return
		}
	}
	if d.flights.drift != nil {
		d.flights.drift.pay(&fb)
	}
	d.paid(&fb)
	d.table.Add(fb.Item, fb.Payoff)
}

// Expired implements Learner. The selection is in flight no longer, and nothing is learned.
func (d *Direct) Expired(fb Feedback) {
	if d.contexts != nil {
		d.contexts.await(&fb, -1)
	}
	d.flights.end(&fb, isDropped)
}

func (d *Direct) Status() Status { return d.status() }

// Loaded implements Learner. It never fails, since no field depends on another.
func (d *Direct) Loaded() error {
	d.windows.settle()
	d.flights.loaded()
	if d.contexts != nil {
		d.contexts.loaded(d.table)
	}
	d.tablesLoaded()
	if d.contexts != nil {
		d.contexts.settle(d.table)
	}
	return nil
}

// LearnAttraction makes a learner without state maximise payoff per impression. nothing is the normalised payoff of an impression without a
// selection. Unselected then needs the ranking in its feedback. A policy that is not policy.Estimating does not learn; shares learned under
// another one stay as long as their items.
func (d *Direct) LearnAttraction(nothing float64) {
	if _, ok := d.ranker().(policy.Estimating); ok {
		d.learnAttraction(nothing)
		return
	}
	shares := newColumn(&policy.Totals[policy.Sums]{}, attractionFormat())
	d.keepColumn(&shares)
}

// Forget implements ItemRemoving. The item's contribution to the effects of features stays.
func (d *Direct) Forget(i policy.Item) { d.forget(i) }

func (d *Direct) PaidForgotten(Feedback) {}

func (d *Direct) Categorise(i policy.Item, name string) {
	if d.contexts != nil && d.contexts.categories.look && name != "" && d.contexts.categories.name(i) != name {
		d.contexts.categorise(i, name)
		d.contexts.publishCategory(i)
	}
}

func (d *Direct) Meet(items []policy.Item, at int64) {
	if d.contexts != nil && d.contexts.met.space.HasAge() {
		d.contexts.met.meet(items, at)
	}
}

func (d *Direct) Coefficients() []Coefficient {
	if d.contexts == nil {
		return nil
	}
	return d.contexts.coefficients()
}

// DecideBy implements Readable. The learner's own policy must not be an explorer.
func (d *Direct) DecideBy(p policy.Policy, candidates []policy.Item, about *policy.Context, key policy.Key, dec *Decision) {
	own := d.policy
	d.policy = p
	d.Decide(candidates, about, key, dec)
	d.policy = own
}
