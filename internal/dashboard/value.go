package dashboard

import "math"

// The estimates of the payoff of ranking by utility; see partition.Counterfactual.
const (
	byMeans        = "means"        // from the favourites' payoffs per selection
	byShares       = "shares"       // likewise, times the share of selections with them on top
	byPropensities = "propensities" // from the favourites' payoffs, weighted by 1/propensity
)

// leastWorth is the effective sample size from which on an estimate by propensities is shown.
const leastWorth = 30

// paidFor returns the impressions that ended with a selection: with its payoff, or past its deadline.
func (c *Counts) paidFor() int64 { return c.Ended - c.Unselected }

// selecting returns the share of impressions with a selection; not ok before one has ended. A selection counts
// when it comes, an impression without one at its deadline soon after. Without a selections topic it is 1.
func (c *Counts) selecting() (x float64, ok bool) {
	switch {
	case c.Joined+c.Unselected > 0:
		return float64(c.Joined) / float64(c.Joined+c.Unselected), true
	case c.Ended > 0:
		return 1, true
	}
	return 0, false
}

// perSelection returns the mean payoff of ended selections, in the payoffs' own unit, with 0 for unpaid ones; not ok before one has ended.
func (c *Counts) perSelection(payoffs [2]float64) (x float64, ok bool) {
	if c.paidFor() <= 0 {
		return 0, false
	}
	return (payoffs[0]*float64(c.Payoffs) + (payoffs[1]-payoffs[0])*c.PayoffSum) / float64(c.paidFor()), true
}

// perImpression returns the share of impressions with a selection, times the payoff per selection; nil
// if either is unknown. Payoffs over ended impressions would be biased while payoffs are on their way.
func (c *Counts) perImpression(payoffs [2]float64) *float64 {
	share, known := c.selecting()
	each, paid := c.perSelection(payoffs)
	if !known || !paid && share > 0 {
		return nil
	}
	return rounded(share * each)
}

// byUtility estimates the payoff per impression of ranking by utility, with the same share of paid selections, and names the estimate.
// It uses the share of selections with favourites on top if that is learned, else the observed share. It is nil without enough data.
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

// worth returns the number of payoffs that the estimate by propensities is worth: Kish's effective sample size.
func (c *Counts) worth() float64 {
	if c.Squares <= 0 {
		return 0
	}
	return c.Weights * c.Weights / c.Squares
}

func share(part, whole int64) *float64 {
	if whole <= 0 {
		return nil
	}
	return rounded(float64(part) / float64(whole))
}

// rounded keeps five digits, more than a page shows.
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

// quantile interpolates a quantile of counts by upper bounds, with a last count beyond them. Nil if there are none.
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

// interval returns an item's mean payoff and its 95 % interval, in payoff ranges (A. Agresti and B.
// Coull, "Approximate is better than exact for interval estimation of binomial proportions", The American
// Statistician 1998): two payoffs of 0 and two of 1 are added, so that few payoffs make a wide interval.
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
