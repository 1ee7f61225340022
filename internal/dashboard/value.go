package dashboard

import (
	"math"

	"github.com/ranker-worker/ranker-worker/policy"
)

// The estimates of the payoff of ranking by utility; see partition.Counterfactual.
const (
	byMeans        = "means"        // from the favourites' payoffs per selection
	byShares       = "shares"       // likewise, times the share of selections with them on top
	byPropensities = "propensities" // from the favourites' payoffs, weighted by 1/propensity
	byRankings     = "rankings"     // all rankings are by utility
	byRules        = "rules"        // none: rules change too many rankings
)

// mostRuled is the share of rankings that rules may change: ranking by utility would be under the same rules, with unknown payoffs.
const mostRuled = 0.01

// leastWorth is the effective sample size from which on an estimate by propensities is shown.
const leastWorth = 30

// early returns why it is too early for values over impressions: too many of the learner's outcomes are not known yet, and those that are
// known are the early ones. It is empty otherwise.
func (l *Learner) early() string {
	unselected, unpaid := l.open()
	switch {
	case unselected > mostOpen && l.Timeout > 0:
		return earlySelections
	case unselected > mostOpen, unpaid > mostOpen, l.Coming > mostComing:
		return earlyPayoffs
	}
	return ""
}

// expectFigures sets when values that are too early are known. A simulated clock is not that of the page.
func (p *Page) expectFigures(sums map[string]Counts) {
	for k := range p.Learners {
		l := &p.Learners[k]
		ranked := sums[l.Name].Decisions
		switch {
		case l.Early == "" || p.Simulated:
		case p.Now-l.LastAt > idleAfter:
			_, deadline := l.waitsFor()
			l.FirstAt = l.LastAt + int64(1000*deadline)
		case ranked > 0 && p.Seconds > 0:
			l.FirstAt = p.Now + int64(1000*l.remains(float64(ranked)/float64(p.Seconds)))
		}
	}
}

// idleAfter is the time in milliseconds without an impression after which the page shows that a learner has no traffic. Event time goes on
// without records, and deadlines pass; but a selection in flight grows no older than the newest payoff (docs/understand/in-flight.md).
const idleAfter = 60_000

// remains returns after how many seconds a value is known at the latest. It assumes that impressions have always come at this rate. An
// outcome is known at its deadline, so that open ones are at most as old as the timeout, or the horizon.
func (l *Learner) remains(perSecond float64) float64 {
	age := float64(l.Ranked) / perSecond
	share, deadline := l.waitsFor()
	return max(deadline, share/mostOpen*max(age, deadline)) - age
}

// waitsFor returns the share of the outcomes that a value which is too early waits for, and their deadline in seconds.
func (l *Learner) waitsFor() (share, deadline float64) {
	unselected, unpaid := l.open()
	if l.early() == earlySelections {
		return unselected, l.Timeout
	}
	return unpaid, l.Horizon
}

const (
	// mostOpen is the share of outcomes that may be unknown.
	mostOpen = 1. / 3
	// mostComing is the share of payoffs at the greatest ages seen above which as many may come at greater ones.
	mostComing = 0.1
	// mostUnweighed is the weight of selections in flight, by payoffs, up to which payoffs stand for all selections.
	mostUnweighed = 0.05
)

// Reasons of early.
const (
	earlyPayoffs    = "payoffs"
	earlySelections = "selections"
)

// open returns, since the learner began, the share of impressions that wait for a selection, and of selections in flight that do not count
// as ended. Had all of these no selection and no payoff, values were lower by so much.
func (l *Learner) open() (unselected, unpaid float64) {
	unselected = max(0, float64(l.Ranked-l.Resolved-l.Left-l.Awaited)) / max(1, float64(l.Ranked))
	unpaid = float64(l.Awaited)
	if l.Silence != nil {
		unpaid -= l.Silence.Weight
	}
	return unselected, max(0, unpaid) / max(1, float64(l.Resolved+l.Awaited))
}

// paidFor returns the impressions that ended with a selection, with its payoff or past its deadline, and the weight with which those in
// flight count as ended.
func (c *Counts) paidFor() float64 { return float64(c.Ended-c.Unselected) + c.Counting.Weight }

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

// paying returns the mean payoff of selections in payoff ranges, and the share of them that it covers. Selections that are dropped at their
// deadline pay 0 in the payoffs' own unit. It is not ok before one has ended.
func (c *Counts) paying() (mean, covered float64, ok bool) {
	n := float64(c.Payoffs) + c.Counting.Weight
	if c.paidFor() <= 0 || n <= 0 {
		return 0, 0, c.paidFor() > 0
	}
	return (c.PayoffSum + c.Counting.Payoffs) / n, n / c.paidFor(), true
}

// perSelection returns the mean payoff of selections, in the payoffs' own unit; not ok before one has ended.
func (c *Counts) perSelection(payoffs [2]float64) (x float64, ok bool) {
	mean, covered, ok := c.paying()
	return covered * scaled(mean, payoffs), ok
}

// scaled returns a payoff of the payoff range in the payoffs' own unit.
func scaled(payoff float64, payoffs [2]float64) float64 {
	return payoffs[0] + (payoffs[1]-payoffs[0])*payoff
}

// perImpression returns the share of impressions with a selection, times the payoff per selection, and half the length of its 95 %
// interval; nil if either factor is unknown.
func (c *Counts) perImpression(payoffs [2]float64) (x, half *float64) {
	share, known := c.selecting()
	each, paid := c.perSelection(payoffs)
	if !known || !paid && share > 0 {
		return nil, nil
	}
	return rounded(share * each), rounded(deviations * math.Sqrt(c.variance(share, each, payoffs)))
}

// deviations of the normal distribution have 95 % of it between them.
const deviations = 1.96

// variance returns the variance of a share of impressions times a payoff per selection. The share's is that of independent impressions. A
// payoff's is that of the payoffs of all selections, each of a selection's weight. Selections that are dropped pay 0.
func (c *Counts) variance(share, each float64, payoffs [2]float64) float64 {
	width := payoffs[1] - payoffs[0]
	dropped, nothing := max(0, float64(c.Ended-c.Unselected-c.Payoffs)), -payoffs[0]/width
	e := policy.Evidence{W: c.paidFor(), R: c.PayoffSum + c.Counting.Payoffs + dropped*nothing, Q: c.PayoffSquares + dropped*nothing*nothing}
	if c.Counting.Weight > 0 {
		e.Q += c.Counting.Payoffs * c.Counting.Payoffs / c.Counting.Weight
	}
	_, v := e.Wald()
	ofPayoff := share * share * width * width * v
	if n := float64(c.Joined + c.Unselected); n > 0 {
		return ofPayoff + each*each*share*(1-share)/n
	}
	return ofPayoff
}

// byUtility estimates the payoff per impression of ranking by utility, with the same share of paid selections, and names the estimate. Half
// the length of the 95 % interval of the learner's own payoff minus it is half. It uses the share of selections with favourites on top if
// that is learned, else the observed share. It is nil without enough data.
func (c *Counts) byUtility(payoffs [2]float64) (x, half *float64, how string) {
	share, ok := c.selecting()
	mean, covered, paid := c.paying()
	if !ok || !paid || covered <= 0 {
		return nil, nil, ""
	}
	if float64(c.Ruled) > mostRuled*float64(c.Decisions) {
		return nil, nil, byRules
	}
	ofOwn := c.variance(share, covered*scaled(mean, payoffs), payoffs)
	var each, variance float64
	switch {
	case c.Decisions > 0 && c.First == c.Decisions:
		x, _ = c.perImpression(payoffs)
		return x, rounded(0), byRankings
	case c.weighed():
		if how = byPropensities; c.worth() < leastWorth {
			return nil, nil, how
		}
		each = c.WeighedSum / c.Weights
		_, variance = policy.Evidence{W: c.worth(), R: each * c.worth(), Q: each * c.worth()}.Wald()
	case c.Shared > 0 && c.SharesSum > 0:
		how, share, each = byShares, c.SharesSum/float64(c.Shared), c.PayingSum/c.SharesSum
		variance = c.ExpectedVariance / float64(c.Expected)
	case c.Expected > 0:
		how, each = byMeans, c.ExpectedSum/float64(c.Expected)
		variance = c.ExpectedVariance / float64(c.Expected)
	default:
		return nil, nil, ""
	}
	width := share * covered * (payoffs[1] - payoffs[0])
	return rounded(share * covered * scaled(each, payoffs)), rounded(deviations * math.Sqrt(ofOwn+width*width*variance)), how
}

// weighed returns whether most payoffs are weighted by propensities, and almost all selections that count have a payoff. Before the first
// deadlines the weighted ones are those of paid selections alone.
func (c *Counts) weighed() bool {
	return 2*c.Weighed > c.Payoffs && math.Abs(c.Counting.Weight) <= mostUnweighed*float64(c.Payoffs)
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

// interval returns an item's mean payoff and its 95 % interval, in payoff ranges (see policy.Evidence.Wald). It reaches down to the mean
// if all selections in flight had no payoff.
func (i *Item) interval() (mean, low, high float64) {
	center, variance := policy.Evidence{W: i.W, R: i.R, Q: i.Q}.Wald()
	half := deviations * math.Sqrt(variance)
	mean = center
	if i.W > 0 {
		mean = min(max(i.R/i.W, 0), 1)
	}
	low = min(center-half, mean) - mean*i.Open/max(1, i.W+i.Open)
	return mean, max(0, low), min(1, max(center+half, mean))
}
