package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// ComparedFrom is from how many payoffs of an item on its mean is compared with another's.
const ComparedFrom = 10

// Counterfactual holds a learner against ranking by utility, since its state was loaded. Payoffs are in payoff ranges. The favourite
// of an impression is its candidate of the highest utility: ranking by utility shows it first, and every user who selects
// anything selects it then.
//
// What ranking by utility would have brought cannot be observed where the learner ranked otherwise. There are two estimates, and
// each says what it rests on.
type Counterfactual struct {
	// Decisions is how many impressions were ranked. Decisions adopted from the log are not among them: who made them counted them.
	Decisions int64
	// Known is how many of these had a known favourite: all where utilities are given, else those whose order is certain.
	// First is how many of the known were shown first.
	Known, First int64
	// Compared is in how many decisions ComparedFrom payoffs or more were known of the favourite and of another candidate, and
	// Outpaid in how many of them another one of these candidates had a higher mean than the favourite, as far as was known then.
	Compared, Outpaid int64
	// Expected is how many favourites had a known mean payoff at the decision, and ExpectedSum the sum of these means: what
	// ranking by utility would have brought for each selection, if an item's mean does not depend on the impression.
	Expected    int64
	ExpectedSum float64
	// Shared is of how many of these the learner knew the share of impressions with a selection that a favourite on top has, SharesSum the
	// sum of these shares, and PayingSum the sum of share times mean: payoff per impression under ranking by utility.
	Shared               int64
	SharesSum, PayingSum float64
	// Of each payoff of an impression whose propensities and order of utilities are recorded, Weighed counts one; and where the
	// favourite was selected, with propensity p, Weights adds up 1/p, Squares 1/p², and WeighedSum the payoff over p. WeighedSum/Weights is
	// what ranking by utility would have brought for each selection, whatever payoffs depend on, if users' windows are as assumed.
	Weighed                      int64
	Weights, Squares, WeighedSum float64
}

// favouriteOf is the position in the candidates of the one of the highest utility, -1 where it is not known. They are in
// increasing utility, or in any order where the learner finds that itself.
func favouriteOf(l *learner, candidates []policy.Item, d *delay.Decision) int {
	last := len(candidates) - 1
	switch {
	case !l.cfg.FindsUtilities:
		return last
	case len(d.Undecided) > 0:
		return -1
	}
	return int(d.Order[slices.Index(d.Ranks, int32(last))])
}

// decided takes in a decision; at is the position of the favourite in the candidates, -1 where it is not known.
func (c *Counterfactual) decided(l *learner, candidates []policy.Item, at int, first bool) {
	c.Decisions++
	if at < 0 {
		return
	}
	c.Known++
	if first {
		c.First++
	}
	favourite := l.delay.Evidence(candidates[at])
	if favourite.W < 1 {
		return
	}
	mean := favourite.Mean()
	c.Expected++
	expected := min(max(mean, 0), 1) // what silence counts as is an estimate
	c.ExpectedSum += expected
	if a, ok := l.delay.(delay.Attracting); ok {
		if share, known := a.ShareOnTop(candidates[at]); known {
			c.Shared++
			c.SharesSum += share
			c.PayingSum += float64(share * expected)
		}
	}
	if favourite.W < ComparedFrom {
		return
	}
	compared, outpaid := false, false
	for k, i := range candidates {
		if e := l.delay.Evidence(i); k != at && e.W >= ComparedFrom {
			compared, outpaid = true, outpaid || e.R > mean*e.W
		}
	}
	if compared {
		c.Compared++
	}
	if outpaid {
		c.Outpaid++
	}
}

// paid takes in the payoff of an impression that is still pending.
func (c *Counterfactual) paid(e *entry, payoff float64) {
	p := e.propensity()
	if !e.ordered || p <= 0 {
		return
	}
	c.Weighed++
	if e.favourite {
		w := 1 / p
		c.Weights += w
		c.Squares += w * w
		c.WeighedSum += w * payoff
	}
}
