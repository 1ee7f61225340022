package partition

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
)

// UnattributedStatus counts the selections of a learner with on_expiry: drop, which learns nothing from unpaid ones, since its state was
// loaded. Unpaid selections are informative if items differ in their paid share.
type UnattributedStatus struct {
	Paid, Expired int64
	// Items is the number k of items with enough ended selections. Statistic is Pearson's χ² of equal paid shares, Σ (paid_i −
	// c·n_i)²/(c(1−c)n_i), with c the paid share of all selections. Under equality it is about k, give or take √2k. Both are 0 while all
	// are paid, or none.
	Items     int64
	Statistic float64
	// AllEqual means that many payoffs have come, and all were equal.
	AllEqual bool
}

const (
	fairSelections = 5 // of an item, so that the χ² distribution is near enough
	fairPayoffs    = 20
	muchExpires    = 0.2
)

// Informative returns by how much paid shares differ between items, in standard deviations under equality.
func (d *UnattributedStatus) Informative() float64 {
	if d.Items == 0 {
		return 0
	}
	return (d.Statistic - float64(d.Items)) / math.Sqrt(2*float64(d.Items))
}

// surely is the number of standard deviations above which a difference is taken as real.
const surely = 5

// Misleads reports whether the dropped selections would have been informative: paid shares differ between items, or payoffs are all equal
// while many selections are not paid.
func (d *UnattributedStatus) Misleads() bool {
	return d.Informative() > surely || d.AllEqual && float64(d.Expired) > muchExpires*float64(d.Paid+d.Expired)
}

type unattributed struct {
	items       policy.Pages[outcomesOf] // by number
	all         outcomesOf
	least, most float64 // payoffs, normalised

	// Of the items with fairSelections or more:
	fair    int64
	sum     outcomesOf
	squares float64 // Σ paid²/n
}

type outcomesOf struct{ paid, expired int64 }

func (o outcomesOf) n() int64 { return o.paid + o.expired }

func (d *unattributed) paid(i policy.Item, payoff float64) {
	if d.all.paid == 0 {
		d.least, d.most = payoff, payoff
	}
	d.least, d.most = min(d.least, payoff), max(d.most, payoff)
	d.add(i, outcomesOf{paid: 1})
}

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

// forget frees an ended item's memory. The sums keep its selections.
func (d *unattributed) forget(i policy.Item) { d.items.Remove(i) }

func (d *unattributed) count(o outcomesOf, sign int64) {
	if o.n() < fairSelections {
		return
	}
	d.fair += sign
	d.sum.paid += sign * o.paid
	d.sum.expired += sign * o.expired
	d.squares += float64(sign) * float64(o.paid) * float64(o.paid) / float64(o.n())
}

func (d *unattributed) status() UnattributedStatus {
	s := UnattributedStatus{Paid: d.all.paid, Expired: d.all.expired, AllEqual: d.all.paid >= fairPayoffs && d.least == d.most}
	if s.Paid > 0 && s.Expired > 0 {
		c := float64(s.Paid) / float64(d.all.n())
		s.Items = d.fair
		s.Statistic = max(0, (d.squares-2*c*float64(d.sum.paid)+c*c*float64(d.sum.n()))/(c*(1-c)))
	}
	return s
}
