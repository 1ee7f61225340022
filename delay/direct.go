package delay

import "github.com/ranker-worker/ranker-worker/policy"

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

var _ Learner = (*Direct)(nil)

// NewDirect returns a learner without items.
func NewDirect(p policy.Policy, s Silence) *Direct { return direct(newBase(p), s) }

// NewExploringDirect returns a learner with an exploring BASE, for given or learned windows. It fails with ErrWindows.
func NewExploringDirect(e policy.Explorer, w WindowsConfig, s Silence) (*Direct, error) {
	b, err := newExploring(e, w)
	if err != nil {
		return nil, err
	}
	return direct(b, s), nil
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
