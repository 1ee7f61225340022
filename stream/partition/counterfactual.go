package partition

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// comparedFrom is the number of payoffs from which on an item's mean is compared.
const comparedFrom = 10

// Value sums a learner's payoffs, since its state was loaded, in payoff ranges.
type Value struct {
	Payoffs       int64 // of ended impressions, defaults included
	PayoffSum     float64
	PayoffSquares float64
	Counting      Counting // change of selections in flight that count as ended
	Counterfactual
}

// Counting is the weight with which selections in flight count as ended, and the sum of their payoffs in payoff ranges.
type Counting struct{ Weight, Payoffs float64 }

// Plus returns the sums of v and those of o times sign.
func (v Value) Plus(o Value, sign float64) Value {
	n := int64(sign)
	return Value{v.Payoffs + n*o.Payoffs, v.PayoffSum + sign*o.PayoffSum, v.PayoffSquares + sign*o.PayoffSquares,
		Counting{v.Counting.Weight + sign*o.Counting.Weight, v.Counting.Payoffs + sign*o.Counting.Payoffs},
		Counterfactual{v.Decisions + n*o.Decisions, v.Ruled + n*o.Ruled, v.Known + n*o.Known, v.First + n*o.First, v.Compared + n*o.Compared,
			v.Outpaid + n*o.Outpaid, v.Expected + n*o.Expected, v.ExpectedSum + sign*o.ExpectedSum, v.ExpectedVariance + sign*o.ExpectedVariance,
			v.Shared + n*o.Shared, v.SharesSum + sign*o.SharesSum, v.PayingSum + sign*o.PayingSum,
			v.Weighed + n*o.Weighed, v.Weights + sign*o.Weights, v.Squares + sign*o.Squares, v.WeighedSum + sign*o.WeighedSum}}
}

func (v *Value) paid(e *entry, payoff float64) {
	v.Payoffs++
	v.PayoffSum += payoff
	v.PayoffSquares += payoff * payoff
	v.Counterfactual.paid(e, payoff)
}

// Counterfactual compares a learner with ranking by utility, since its state was loaded. Payoffs are scaled to the payoff range. The
// favourite of an impression is its candidate with the highest utility. Ranking by utility shows it first, and every user who selects
// anything selects it.
//
// Payoffs under ranking by utility are not observed where the learner ranked otherwise. Two estimates stand in for them.
type Counterfactual struct {
	// Decisions counts ranked impressions, without decisions adopted from the log: their maker counted them.
	Decisions int64
	// Ruled counts the decisions whose order pins or caps could have changed. Nothing else counts them.
	Ruled int64
	// Known counts the decisions with a known favourite: all where utilities are given, else those whose order is certain. First counts
	// those whose favourite was shown first.
	Known, First int64
	// Compared counts decisions in which the favourite and another candidate had comparedFrom payoffs or more. Outpaid counts those of them
	// in which another such candidate had a higher mean.
	Compared, Outpaid int64
	// Expected counts favourites with a known mean payoff at the decision. ExpectedSum adds these means up: the payoff per selection under
	// ranking by utility, if an item's mean does not depend on the impression. ExpectedVariance adds up their variances. A mean is known
	// once at least half of the item's selections count.
	Expected         int64
	ExpectedSum      float64
	ExpectedVariance float64
	// Shared counts those of them whose share of selections on top is known. SharesSum adds the shares up, and PayingSum share times mean:
	// the payoff per impression under ranking by utility.
	Shared               int64
	SharesSum, PayingSum float64
	// Weighed counts payoffs of impressions whose propensities and order of utilities are recorded. If the favourite was selected with
	// propensity p, Weights grows by 1/p, Squares by 1/p², and WeighedSum by the payoff over p. WeighedSum/Weights estimates the payoff per
	// selection under ranking by utility, if users' windows are as assumed. It is a self-normalised importance-weighted estimate.
	Weighed                      int64
	Weights, Squares, WeighedSum float64
}

// favouriteOf returns the position of the candidate with the highest utility, -1 if it is not known. Candidates ascend in utility, or are
// in any order if the learner finds the order itself.
func favouriteOf(findsUtilities bool, candidates []policy.Item, d *delay.Decision) int {
	last := len(candidates) - 1
	switch {
	case !findsUtilities:
		return last
	case len(d.Undecided) > 0:
		return -1
	}
	return int(d.Order[slices.Index(d.Ranks, int32(last))])
}

// decided counts a decision; at is the favourite's position in the candidates, -1 if it is not known.
func (c *Counterfactual) decided(l delay.Learner, candidates []policy.Item, at int, first bool) {
	c.Decisions++
	if at < 0 {
		return
	}
	c.Known++
	if first {
		c.First++
	}
	favourite := l.Evidence(candidates[at])
	if favourite.W < 1 || favourite.Open > favourite.W {
		return
	}
	mean := favourite.Mean()
	c.Expected++
	expected := min(max(mean, 0), 1) // the mean includes estimates for unpaid selections
	c.ExpectedSum += expected
	_, variance := favourite.Wald()
	c.ExpectedVariance += variance
	if share, known := l.ShareOnTop(candidates[at]); known {
		c.Shared++
		c.SharesSum += share
		c.PayingSum += float64(share * expected)
	}
	if favourite.W < comparedFrom {
		return
	}
	compared, outpaid := false, false
	for k, i := range candidates {
		if e := l.Evidence(i); k != at && e.W >= comparedFrom {
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
