package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
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
	Drops     UnattributedStatus
	Untaught  int64
	UserModel UserModel
	Value     Value         // the zero value if the learner is gone
	Context   ContextStatus // the zero value if the learner uses items alone
	Filled    FilledStatus  // 0 if the learner finds the order of utilities itself
	// PayoffMin and PayoffMax are the ends of the payoff range, in raw units.
	PayoffMin, PayoffMax float64
	delay.Status
}

type LearnerAccount struct {
	Name    string
	Account Account
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
	s.UserModel, s.Value, s.Context, s.Filled = o.userModel, o.value, o.contexts.status(l.cfg.Context), o.filled
	if l.cfg.ExpiryDefault != nil {
		r, _ := l.normalise(*l.cfg.ExpiryDefault)
		s.UserModel.expects(r)
	}
	s.PayoffMin, s.PayoffMax = l.cfg.PayoffMin, l.cfg.PayoffMax
	s.Value.Counting = Counting{s.Silence.Weight - o.countedBefore.Weight, s.Silence.Payoffs - o.countedBefore.Payoffs}
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

// Look returns a sample, and has each learner keep its next decision for the next one.
func (m *Machine) Look() *Sample {
	m.show()
	look := &Sample{}
	for _, l := range m.learners {
		if !l.gone {
			look.Learners = append(look.Learners, l.sample())
		}
	}
	return look
}

func (l *learner) sample() LearnerSample {
	k := &l.observer.looking
	one := LearnerSample{Name: l.name, First: k.first.total, Favourite: k.favourite.total, Ranking: k.ranking}
	if i, ok := l.delay.(delay.Inspector); ok {
		one.Rule, one.Coming = i.Rule(), i.Coming()
	}
	if one.Coefficients = l.delay.Coefficients(); one.Coefficients != nil {
		one.Contextual = l.delay.Status().Contextual
	}
	items := append(k.first.top(lookItems), k.favourite.top(lookItems)...)
	for n, c := range items {
		if !l.items.has(c.item) || slices.ContainsFunc(items[:n], func(o itemCount) bool { return o.item == c.item }) {
			continue
		}
		one.Items = append(one.Items, ItemSample{Name: l.items.name(c.item), First: k.first.of(c.item),
			Favourite: k.favourite.of(c.item), Evidence: l.delay.Evidence(c.item)})
	}
	k.wanted = true
	return one
}

// ExperimentStatus is an experiment's status for people and metrics.
type ExperimentStatus struct {
	Name, Control string
	Run           int32
	Arms          []ArmStatus
	Outside       int64 // impressions without a user, since the state was loaded
	// Decides is true in the partition that compares the totals of all partitions and runs the guard.
	Decides bool
	// Walked is the time up to which deadlines are counted. Next is the event time at which the earliest units that do not count yet will:
	// 0 without any.
	Walked, Next event.Millis
	// FirstDue is the time at which the first units of outlooks will have passed their deadlines; 0 without any.
	FirstDue event.Millis
}

// ArmStatus is an arm's status.
type ArmStatus struct {
	Name             string
	Share            float64 // of units, as configured
	Ranked, Fallback int64   // impressions since the state was loaded
	Tripped          bool    // out of service
	// Lift compares with the control over all partitions; for an arm out of service, when it was taken out. The control has none. Mean is
	// the mean payoff of its units, in payoff ranges.
	Lift  experiment.Lift
	Units int64
	Mean  float64
	// Outlook compares with the control by units of all ages. An arm out of service has none, since only the control goes on.
	Outlook experiment.Outlook
	// OffShares: the numbers of units of the arm and the control do not fit their shares.
	OffShares bool
}

// status returns the status of the experiments, in the order of the configuration, if the walk has closed all buckets below floor.
func (t *trials) status(floor int64) (all []ExperimentStatus) {
	for _, x := range t.all {
		s := ExperimentStatus{Name: x.Name, Control: x.Control, Run: x.Run, Outside: x.outside, Decides: t.partition == deciding && !x.sums.idle,
			Walked: x.sums.walked(floor), Next: x.sums.next()}
		totals := x.sums.all()
		var lags experiment.LagTotals
		var h *experiment.History
		var no string
		if s.Decides {
			lags = x.sums.allLags()
			h, no = x.history()
			s.FirstDue = x.sums.runOffs.FirstDue()
		}
		for k := range x.arms {
			a := &x.arms[k]
			st := ArmStatus{Name: a.learner.name, Share: x.Arms[k].Share, Ranked: a.ranked, Fallback: a.fallback, Tripped: a.verdict.tripped,
				Units: totals[k].N, Mean: totals[k].Mean()}
			if v := &a.verdict; v.tripped {
				st.Lift = experiment.OutOfService(v.units, v.lower, v.upper)
			} else if k != x.ControlArm() && s.Decides {
				st.Lift, st.OffShares = x.Lift(k, totals), !x.InShares(k, totals)
				st.Outlook = x.Outlook(k, lags, h, no)
			}
			s.Arms = append(s.Arms, st)
		}
		all = append(all, s)
	}
	return all
}
