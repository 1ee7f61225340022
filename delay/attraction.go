package delay

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// hashAttraction maps "<item>" to "<with> <without>": impressions with the item on top that ended with and without a selection.
var hashAttraction = named("attraction")

// attraction estimates the share of selections by the item on top. Payoff per impression is that share times payoff per selection, plus
// nothing times the rest. Shares are known within minutes and payoffs after days, so each is learned from its own sample. In the paper
// every impression brings a selection.
//
// An impression counts for the item on top, which every attentive user sees. It counts as selected if the selection is the item itself, or
// one shown before the next leader: by a user with another taste, or who went on. A selection further down shows that the user saw more
// than the item on top: the impression does not count, since windows are neither known nor assumed.
//
// The counts of an impression depend on its ranking and selection alone. So counts are exact integers, add up over partitions, and do not
// depend on the order of impressions. Where shares have fallen, only impressions since then count (falls).
type attraction struct {
	table   *policy.Table // Sums.R: impressions with a selection; Sums.N: all
	counts  tableColumn   // the table's
	falls   falls
	belief  policy.Belief
	nothing float64 // normalised payoff of an impression without a selection

	estimates, known policy.Known
}

func newAttraction(nothing float64) *attraction {
	a := &attraction{table: policy.NewTable(0), falls: newFalls(), nothing: nothing,
		belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}}
	a.table.EvidenceBy(func(i policy.Item) policy.Evidence {
		s := a.table.Pooled(i)
		return policy.Evidence{W: float64(s.N), R: s.R, Q: s.R}
	})
	a.table.ReplaceBy(func(sum, old, by policy.Sums) (policy.Sums, bool) { // of whole numbers, so nothing is rounded
		return policy.Sums{N: sum.N - old.N + by.N, R: sum.R - old.R + by.R}, true
	})
	a.counts = tableColumn{newColumn(&a.table.Totals, attractionFormat()), a.table}
	return a
}

func attractionFormat() format[policy.Sums] {
	return format[policy.Sums]{
		hash: hashAttraction, pooled: true, rests: true,
		append: func(dst []byte, s policy.Sums) []byte { return words.Append(dst, ' ', int64(s.R), s.N-int64(s.R)) },
		read:   readAttraction,
		equal:  same[policy.Sums],
	}
}

// tableColumn is a column of a table's sums. It is no evidence of payoffs, so an item is fresh in this table apart.
type tableColumn struct {
	column[policy.Sums]
	table *policy.Table
}

func (c *tableColumn) share(global statistic, source int32, number func(policy.Item) policy.Item) {
	c.table.ShareTable(global.(*tableColumn).table, source, number)
}

func (c *tableColumn) differs(policy.Item) bool { return false }

func (c *tableColumn) forget(i policy.Item) {
	c.column.forget(i)
	c.table.Forget(i)
}

func (c *tableColumn) Release(i policy.Item) { c.table.Release(i) }

// ended counts an impression that ended, with or without the selection of fb.Item. Without its ranking it is not counted.
func (a *attraction) ended(fb *Feedback, selected bool) {
	if len(fb.Order) == 0 || len(fb.Order) != len(fb.Candidates) {
		return
	}
	s := policy.Sums{N: 1}
	if selected {
		at, ok := fb.shownAt()
		if !ok || at >= policy.NextAbove(fb.Order, 0, len(fb.Order)) {
			return
		}
		s.R = 1
	}
	if a.falls.counts(fb.Began) {
		top := fb.Candidates[fb.Order[0]]
		a.table.AddOwn(top, s, policy.SumsChanged)
		a.falls.counted(a.table, top, s, fb.Began)
	}
}

// differs reports whether payoff per impression can differ from payoff per selection: the mean share is neither 0 nor 1. For nil it is
// false.
func (a *attraction) differs() bool {
	if a == nil {
		return false
	}
	mean := a.table.Mean()
	return mean > 0 && mean < 1
}

// perImpression turns estimates of payoff per selection into estimates of payoff per impression, relative to the mean share. The variance
// is that of the product, with the payoff's part at a share one standard deviation above its mean. Only policies without a belief of their own
// need factors.
func (a *attraction) perImpression(items []policy.Item, from *policy.Known, factors bool) *policy.Known {
	mean := a.table.Mean()
	per, least := 1/mean, mean*(1-mean)
	c := a.belief.Components(a.table)
	kappa := c.Kappa()
	k := &a.known
	k.Variance, k.Kappa, k.Candidates = from.Variance, from.Kappa, slices.Grow(k.Candidates[:0], len(items))[:len(items)]
	k.Plain, k.LogDet, k.Ridge = from.Plain, from.LogDet, from.Ridge
	k.Factors, k.Share, k.Nothing, k.Fair = k.Factors[:0], mean, a.nothing, a.fair()
	for at, i := range items {
		x := from.Candidates[at]
		share := a.share(i, c.Mean, kappa)
		if factors {
			k.Factors = append(k.Factors, policy.Factors{Share: share, Payoff: x})
		}
		if x.Weight > 0 {
			times, above := share.Mean*per, x.Mean-a.nothing
			sd := math.Sqrt(max(share.Mean*(1-share.Mean), least)/share.Weight) * per
			likely := times + sd // at times itself, a share that is low by chance hides how little is known of the payoff
			// σ²/variance, as one division.
			weight := from.Variance * x.Weight / (float64(from.Variance*likely*likely) + float64(above*above*sd*sd*x.Weight))
			x = policy.Estimate{Mean: a.nothing + float64(times*above), Weight: weight}
		}
		k.Candidates[at] = x
	}
	return k
}

// shares writes candidates' shares to s, relative to the mean share. It returns nil if payoff per impression cannot differ. Bounded shares
// are estimates plus MOSS's bonus: only the item on top counts, and robust alone seldom puts an item of high utility there. So an item that
// was never on top leads until its share is known.
func (a *attraction) shares(items []policy.Item, s *policy.Shares, bounded bool) *policy.Shares {
	if !a.differs() {
		return nil
	}
	s.Times, s.Nothing = s.Times[:0], a.nothing
	mean := a.table.Mean()
	c := a.belief.Components(a.table)
	kappa, fair := c.Kappa(), a.fair()
	for _, i := range items {
		x := a.share(i, c.Mean, kappa)
		if bounded {
			s.Times = append(s.Times, policy.TimesAtMost(x, mean, fair))
		} else {
			s.Times = append(s.Times, x.Mean/mean)
		}
	}
	return s
}

// fair returns the mean number of impressions per item.
func (a *attraction) fair() float64 { return float64(a.table.Fed()) / float64(a.table.Len()) }

// leastShare keeps estimated shares away from 0 and 1, for items without evidence of either.
const leastShare = 1e-6

// share returns an item's posterior mean share of selections; its weight is in impressions.
func (a *attraction) share(i policy.Item, prior, kappa float64) policy.Estimate {
	e := a.table.Evidence(i)
	weight := e.W + kappa
	return policy.Estimate{Mean: min(max((e.R+float64(kappa*prior))/weight, leastShare), 1-leastShare), Weight: weight}
}

// mostImpressions bounds counts that are read, so that their sums stay exact.
const mostImpressions = 1 << 50

func readAttraction(r *words.Reader) policy.Sums {
	with, without := r.Int(0, mostImpressions), r.Int(0, mostImpressions)
	r.Check(with+without > 0)
	return policy.Sums{N: with + without, R: float64(with)}
}

func (a *attraction) status(perSelection float64) AttractionStatus {
	share := a.table.Mean()
	return AttractionStatus{Learned: true, Impressions: a.table.Fed(), Share: share, PerSelection: perSelection,
		PerImpression: a.nothing + float64(share*(perSelection-a.nothing))}
}
