package partition

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// LearnerStatus is a learner's status for people and metrics.
type LearnerStatus struct {
	Name     string
	Number   int32
	Gone     bool // not configured any more: it learns nothing, and pending impressions expire
	Items    int
	Ended    int64 // items dropped since the state was loaded
	HoldItem string
	// Account covers the impressions that this learner ranked, and their selections and payoffs. Impressions read are the ranked ones,
	// without duplicates. Selections and payoffs are counted once they have ended.
	Account Account
	// Drops is the zero value unless on_expiry is drop. Untaught counts expired selections that taught nothing, under on_expiry: drop or
	// while the learner was not configured, although an expiry default is set now.
	Drops    UnattributedStatus
	Untaught int64
	Conduct  UserModel
	// Counting is the change of the weight of selections in flight, and of its payoffs, since the state was loaded.
	Counting Counting
	Context  ContextStatus // the zero value if the learner uses items alone
	Filled   FilledStatus  // 0 if the learner finds the order of utilities itself
	// Counterfactual is the zero value if the learner is gone.
	Comparison Counterfactual
	// PayoffMin and PayoffMax are the ends of the payoff range, in raw units.
	PayoffMin, PayoffMax float64
	delay.Status
}

// Counting is the weight with which selections in flight count as ended, and the sum of their payoffs in payoff ranges.
type Counting struct{ Weight, Payoffs float64 }

func (l *learner) counting() Counting {
	s := l.delay.Status().Silence
	return Counting{s.Weight, s.Payoffs}
}

// FilledStatus counts candidates without a utility, which got the median of the others', and their impressions, since the state was loaded.
type FilledStatus struct{ Candidates, Impressions int64 }

type LearnerAccount struct {
	Name    string
	Account Account
}

// observer collects facts about a learner for pages and metrics, since its state was loaded. No decision depends on it.
type observer struct {
	drops         unattributed // used if on_expiry is drop
	conduct       UserModel
	countedBefore Counting // the weight of selections in flight as the state was loaded
	contexts      contexts
	filled        FilledStatus
	comparison    Counterfactual
	looking       sampling
}

// decided is called after a decision on an impression. The candidates are in the learner's order.
func (o *observer) decided(l *learner, imp *event.Impression, candidates []policy.Item, d *delay.Decision, r *event.Ranking) {
	if n := len(imp.Filled); n > 0 && !l.cfg.FindsUtilities {
		o.filled.Candidates += int64(n)
		o.filled.Impressions++
	}
	favourite := favouriteOf(l, candidates, d)
	o.comparison.decided(l, candidates, favourite, favourite == int(d.Order[0]))
	o.looking.decided(l, candidates, favourite, d, r)
}

// paid is called after a payoff, or a default, of an impression that ends; known means that the learner still has the item.
func (o *observer) paid(l *learner, e *entry, i policy.Item, known bool, how outcome, r float64) {
	o.conduct.paid(r)
	o.comparison.paid(e, r)
	if known && how == paid && l.cfg.ExpiryDefault == nil {
		o.drops.paid(i, r)
	}
}

// Accounts returns the learners' accounts by ascending number; see LearnerStatus.
func (m *Machine) Accounts() []LearnerAccount {
	all := make([]LearnerAccount, len(m.learners))
	for i, l := range m.learners {
		all[i] = LearnerAccount{l.name, l.ledger.account()}
	}
	return all
}

// Learners returns the learners' statuses by ascending number.
func (m *Machine) Learners() []LearnerStatus {
	m.show()
	all := make([]LearnerStatus, 0, len(m.learners))
	for _, l := range m.learners {
		all = append(all, l.status(m.cfg.HasSelections))
	}
	return all
}

func (l *learner) status(hasSelections bool) LearnerStatus {
	s := LearnerStatus{Name: l.name, Number: l.number, Gone: l.gone, Items: l.items.len(), Ended: l.ended, Account: l.ledger.account()}
	if l.gone {
		return s
	}
	o := &l.observer
	s.Status, s.Drops = l.delay.Status(), o.drops.status()
	if hasSelections && l.cfg.ExpiryDefault != nil { // payoffs outside the range have dead letters
		s.Untaught = max(0, s.Account.Impressions.Expired-s.Account.Payoffs.Rejected)
	}
	s.Conduct, s.Comparison, s.Context, s.Filled = o.conduct, o.comparison, o.contexts.status(l.cfg.Context), o.filled
	s.PayoffMin, s.PayoffMax = l.cfg.PayoffMin, l.cfg.PayoffMax
	s.Counting = Counting{s.Silence.Weight - o.countedBefore.Weight, s.Silence.Payoffs - o.countedBefore.Payoffs}
	if s.OnHold && l.items.has(s.Item) {
		s.HoldItem = l.items.name(s.Item)
	}
	return s
}

// Experiments returns the status of the experiments, in the order of the configuration.
func (m *Machine) Experiments() []ExperimentStatus {
	m.show()
	return m.trials.status(m.expiry.floor)
}
