package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Direct feeds every payoff to BASE as it arrives, and tells BASE how many selections of each item are in flight, as
// samples that are on their way (policy.Evidence.Open): a bonus for what is little known shrinks when an item is
// selected and not only when its payoff comes, so that a wait is not spent on one item. Nothing is ever on hold, what
// other sources know is taken in at once, and windows need not be lazy. In exchange BASE sees payoffs in another order
// and number than it would without delay, so that it must not depend on when it is fed: the policies with an upper index,
// a posterior, or none of both do not; elimination's proof does.
//
// Silence says what a selection counts as while its payoff is awaited. Of a payoff that comes in parts (Partial) what has come so
// far counts with that.
//
// Where selections are told with their payoffs, there is nothing in flight at any decision.
//
// Its state is stored in hashes of its own, besides the items' sums: "flights" maps "<item>" to the number of its
// selections in flight, where there are any, in decimal; where silence counts, sources pool it. So
// with what has come in parts of their payoffs, in "open", and what was paid by when it began, in "history". What is learned of windows, for a BASE that needs them, is
// stored as BOLD stores it.
// With features (NewPersonal) payoffs may depend on the user and on what is known of the candidate.
type Direct struct{ base }

var _ Learner = (*Direct)(nil)

// NewDirect makes a learner that knows no items yet.
func NewDirect(p policy.Policy, s Silence) *Direct { return direct(newBase(p), s) }

// NewExploringDirect makes a learner with a BASE that explores, for windows as given or learned. It fails with
// ErrWindows.
func NewExploringDirect(e policy.Explorer, w WindowsConfig, s Silence) (*Direct, error) {
	b, err := newExploring(e, w)
	if err != nil {
		return nil, err
	}
	return direct(b, s), nil
}

func direct(b base, s Silence) *Direct {
	d := &Direct{b}
	d.flights.tell(d.table, s)
	return d
}

// Selected implements Learner: the payoff is awaited from now on.
func (d *Direct) Selected(fb Feedback) {
	if d.users != nil {
		d.users.begin(&fb)
	}
	d.selected(&fb)
}

// Partial implements Learner: what has come so far counts, as Silence says.
func (d *Direct) Partial(fb Feedback) { d.flights.part(&fb) }

// Paid implements Learner: BASE is fed.
func (d *Direct) Paid(fb Feedback) {
	if d.users != nil {
		var fed bool
		if fb.Payoff, fed = d.users.pay(&fb); !fed {
			d.dropped(&fb)
			return
		}
	}
	if d.flights.drift != nil {
		d.flights.drift.pay(&fb)
	}
	d.paid(&fb)
	d.feed(fb.Item, fb.Payoff)
}

// Expired implements Learner: the payoff is awaited no longer, and nothing is learned.
func (d *Direct) Expired(fb Feedback) {
	if d.users != nil {
		d.users.await(&fb, -1)
	}
	d.dropped(&fb)
}

// SetSource implements Learner.
func (d *Direct) SetSource(source int32, i policy.Item, s policy.Sums) {
	if _, told := d.table.From(source, i); !told && s == (policy.Sums{}) {
		return // of most items of a large catalogue
	}
	d.table.SetSource(source, i, s)
}

// Status implements Learner.
func (d *Direct) Status() Status { return d.status() }

// Hashes implements Learner.
func (d *Direct) Hashes() []string {
	all := append([]string{hashFlights, hashWindows, hashLearner}, d.flights.hashes()...)
	if d.users != nil {
		all = append(all, hashCells, hashCategories, hashMet, hashLinear)
	}
	if d.attraction != nil {
		all = append(all, hashAttraction)
	}
	return all
}

// Harvest implements Learner.
func (d *Direct) Harvest(r Recorder) {
	if d.users != nil {
		d.users.harvest(r, &d.writer)
	}
	d.harvest(r)
}

// LoadField implements Learner.
func (d *Direct) LoadField(hash string, field, value []byte) error {
	return faulty(d.loadField(hash, field, value), hash, field, value)
}

// Loaded implements Learner. Every field stands for itself, so that none can be missing.
func (d *Direct) Loaded() error {
	d.windows.settle()
	d.flights.loaded(d.table)
	if d.users != nil {
		d.users.loaded(d.table)
	}
	if d.table.Shares() {
		if d.attraction != nil {
			d.attraction.table.Loaded(d.differs)
		}
		d.table.Loaded(d.differs)
	}
	if d.users != nil {
		d.users.settle(d.table)
	}
	return nil
}
