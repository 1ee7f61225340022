package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
)

// UnattributedStatus is what has become of the selections of a learner that learns nothing from those that are never paid (on_expiry:
// drop), since its state was loaded. Whether a selection is paid tells something of its item where shares differ between items.
type UnattributedStatus struct {
	Paid, Expired int64
	// Items is the number k of items of which a fair number of selections have finished, and Statistic Pearson's χ² of their being
	// paid alike, Σ (paid_i − c·n_i)²/(c(1−c)n_i), with c the share of all selections that are paid: about k, give or take √2k,
	// if they are. Both are 0 while all are paid, or none.
	Items     int64
	Statistic float64
	// AllEqual tells that a fair number of payoffs have come, and all were equal.
	AllEqual bool
}

const (
	fairSelections = 5 // of an item, for the χ² distribution to be near enough
	fairPayoffs    = 20
	muchExpires    = 0.2
)

// Informative is by how much being paid differs between items, in standard deviations of what it would by chance.
func (d *UnattributedStatus) Informative() float64 {
	if d.Items == 0 {
		return 0
	}
	return (d.Statistic - float64(d.Items)) / math.Sqrt(2*float64(d.Items))
}

// surely is beyond how many standard deviations a difference is taken for one.
const surely = 5

// Misleads tells whether what is dropped would have told something: items differ in how many of their selections are paid, or
// payoffs do not differ, while many selections are not paid.
func (d *UnattributedStatus) Misleads() bool {
	return d.Informative() > surely || d.AllEqual && float64(d.Expired) > muchExpires*float64(d.Paid+d.Expired)
}

// unattributed counts what becomes of a learner's selections.
type unattributed struct {
	items       policy.Pages[outcomesOf] // by number
	all         outcomesOf
	least, most float64 // payoffs, normalised

	// Of the items with fairSelections and more:
	fair    int64
	sum     outcomesOf
	squares float64 // Σ paid²/n
}

type outcomesOf struct{ paid, expired int64 }

func (o outcomesOf) n() int64 { return o.paid + o.expired }

// paid notes a payoff, normalised, of an item.
func (d *unattributed) paid(i policy.Item, payoff float64) {
	if d.all.paid == 0 {
		d.least, d.most = payoff, payoff
	}
	d.least, d.most = min(d.least, payoff), max(d.most, payoff)
	d.add(i, outcomesOf{paid: 1})
}

// expired notes that a selection of an item was never paid.
func (d *unattributed) expired(i policy.Item) { d.add(i, outcomesOf{expired: 1}) }

func (d *unattributed) add(i policy.Item, more outcomesOf) {
	o := d.items.At(i)
	d.count(*o, -1)
	o.paid += more.paid
	o.expired += more.expired
	d.count(*o, 1)
	d.all.paid += more.paid
	d.all.expired += more.expired
}

// forget gives the memory of an item back that has ended. What has become of its selections stays in the sums.
func (d *unattributed) forget(i policy.Item) { d.items.Remove(i) }

// count takes an item in, or out with sign -1.
func (d *unattributed) count(o outcomesOf, sign int64) {
	if o.n() < fairSelections {
		return
	}
	d.fair += sign
	d.sum.paid += sign * o.paid
	d.sum.expired += sign * o.expired
	d.squares += float64(sign) * float64(o.paid) * float64(o.paid) / float64(o.n())
}

// status looks at no item.
func (d *unattributed) status() UnattributedStatus {
	s := UnattributedStatus{Paid: d.all.paid, Expired: d.all.expired, AllEqual: d.all.paid >= fairPayoffs && d.least == d.most}
	if s.Paid > 0 && s.Expired > 0 {
		c := float64(s.Paid) / float64(d.all.n())
		s.Items = d.fair
		s.Statistic = max(0, (d.squares-2*c*float64(d.sum.paid)+c*c*float64(d.sum.n()))/(c*(1-c)))
	}
	return s
}

// untaught is how many selections of the learner certainly expired without teaching anything, where they would not any more: under
// on_expiry: drop, or while it was not configured. Those that ended with a payoff outside the range are none; they have dead letters.
func (m *Machine) untaught(l *learner) int64 {
	if !m.cfg.HasSelections || l.cfg.ExpiryDefault == nil {
		return 0
	}
	a := l.ledger.account()
	return max(0, a.Impressions.Expired-a.Payoffs.Rejected)
}
