package dashboard

import "math"

// The estimates of what ranking by utility would have brought; see partition.Comparison.
const (
	byMeans        = "means"        // from what favourites have paid whenever they were selected
	byShares       = "shares"       // likewise, times the share of impressions with a selection that they have on top
	byPropensities = "propensities" // from the favourites' payoffs, weighed by 1/propensity
)

// leastWorth is how many payoffs an estimate by propensities has to be worth to be shown.
const leastWorth = 30

// paidFor is how many impressions ended with a selection: with its payoff, or past its deadline.
func (c *Counts) paidFor() int64 { return c.Ended - c.Unselected }

// selecting is the share of impressions with a selection; not ok where none has ended. A selection counts when it comes, and an impression
// without one when its deadline has passed: soon after each other, whenever payoffs come. Without a selections topic it is 1.
func (c *Counts) selecting() (x float64, ok bool) {
	switch {
	case c.Joined+c.Unselected > 0:
		return float64(c.Joined) / float64(c.Joined+c.Unselected), true
	case c.Ended > 0:
		return 1, true
	}
	return 0, false
}

// perSelection is the mean payoff of selections that have ended, in the payoffs' own unit; not ok where none has. An unpaid selection
// brought 0.
func (c *Counts) perSelection(payoffs [2]float64) (x float64, ok bool) {
	if c.paidFor() <= 0 {
		return 0, false
	}
	return (payoffs[0]*float64(c.Payoffs) + (payoffs[1]-payoffs[0])*c.PayoffSum) / float64(c.paidFor()), true
}

// perImpression is the share of impressions with a selection, times the payoff per selection; nil where either is not known. An impression
// without a selection brought 0. Payoffs over impressions that have ended would be off while payoffs are on their way.
func (c *Counts) perImpression(payoffs [2]float64) *float64 {
	share, known := c.selecting()
	each, paid := c.perSelection(payoffs)
	if !known || !paid && share > 0 {
		return nil
	}
	return rounded(share * each)
}

// byUtility estimates payoff per impression under ranking by utility, had as many selections been paid, and returns how. It goes by the
// share of impressions with a selection that favourites have on top, where that is learned, and else takes it to be the same. It is nil where
// nothing is known, or too little.
func (c *Counts) byUtility(payoffs [2]float64) (x *float64, how string) {
	share, ok := c.selecting()
	if !ok || c.Payoffs <= 0 || c.paidFor() <= 0 {
		return nil, ""
	}
	var each float64
	switch {
	case 2*c.Weighed > c.Payoffs:
		how = byPropensities
		if c.worth() < leastWorth {
			return nil, how
		}
		each = c.WeighedSum / c.Weights
	case c.Shared > 0 && c.SharesSum > 0:
		how, share, each = byShares, c.SharesSum/float64(c.Shared), c.PayingSum/c.SharesSum
	case c.Expected > 0:
		how, each = byMeans, c.ExpectedSum/float64(c.Expected)
	default:
		return nil, ""
	}
	return rounded(share * (payoffs[0] + (payoffs[1]-payoffs[0])*each) * float64(c.Payoffs) / float64(c.paidFor())), how
}

// worth is how many payoffs the estimate by propensities is worth: Kish's effective sample size.
func (c *Counts) worth() float64 {
	if c.Squares <= 0 {
		return 0
	}
	return c.Weights * c.Weights / c.Squares
}

// share is part of whole; nil of nothing.
func share(part, whole int64) *float64 {
	if whole <= 0 {
		return nil
	}
	return rounded(float64(part) / float64(whole))
}

// rounded keeps five digits, which is more than a page shows.
func rounded(x float64) *float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
		return &x
	}
	scale := math.Pow(10, 5-math.Ceil(math.Log10(math.Abs(x))))
	if r := math.Round(x*scale) / scale; !math.IsNaN(r) && !math.IsInf(r, 0) {
		x = r
	}
	return &x
}

// quantile of counts by upper bounds, behind them those beyond the last; within a bound it is interpolated. Nil where there are none.
func quantile(q float64, bounds []float64, counts []int64) *float64 {
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if total <= 0 || len(counts) != len(bounds)+1 {
		return nil
	}
	want, below := q*float64(total), 0.0
	low := 0.0
	for k, bound := range bounds {
		if n := float64(counts[k]); below+n >= want && n > 0 {
			return rounded(low + (bound-low)*(want-below)/n)
		}
		below += float64(counts[k])
		low = bound
	}
	return rounded(low)
}

// interval is an item's mean payoff and where it lies with a probability of about 95 in 100, in payoff ranges: that of A. Agresti and
// B. Coull ("Approximate is better than exact for interval estimation of binomial proportions", The American Statistician 1998), with
// two payoffs of 0 and two of 1 added, so that few payoffs make a wide interval.
func (i *Item) interval() (mean, low, high float64) {
	const added, deviations = 4, 1.96
	n := max(i.W, 0) + added
	center := (i.R + added/2) / n
	half := deviations * math.Sqrt(max(0, (i.Q+added/2)/n-center*center)/n)
	mean = center
	if i.W > 0 {
		mean = min(max(i.R/i.W, 0), 1)
	}
	return mean, max(0, min(center-half, mean)), min(1, max(center+half, mean))
}
