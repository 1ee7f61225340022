package delay

import (
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
)

// deviations are the payoffs of an item's paid selections, as deviations from the default.
type deviations struct{ n, sum, squares float64 }

// outcomesKnown is the share of an item's selections whose outcomes must be known. Those fed under another law, or as totals, have none:
// defaults would pass for paid selections.
const outcomesKnown = 0.99

func deviationsOf(a *awaiting, i policy.Item) (d deviations) {
	sums, settled := a.sums(i), a.settled.Pooled(i)
	n := float64(sums.N)
	d.n = float64(sums.N - settled.Unpaid)
	if d.n <= 0 || float64(settled.Paid+settled.Unpaid) < outcomesKnown*n {
		return deviations{}
	}
	d.sum = sums.R - float64(a.law.Default*n)
	d.squares = max(sums.Q-float64(2*a.law.Default*sums.R)+float64(a.law.Default*a.law.Default*n), float64(d.sum/d.n*d.sum))
	return d
}

// within returns the sum of squares around the mean.
func (d *deviations) within() float64 { return d.squares - float64(d.sum/d.n*d.sum) }

// expected returns the value of an item's paid selections, as a deviation from the default, were it as others.
func (e *estimated) expected(a *awaiting, i policy.Item) float64 {
	value := e.high - a.law.Default
	if e.below > 0 {
		settled, ours, others := a.settled.Pooled(i), a.ours(i), a.elsewhere(i)
		paid, _ := inflight.ItemShares(e.share, e.below, settled, ours, others)
		value -= float64(inflight.BelowSoFar(paid, e.below, settled.Unpaid, ours, others) * (e.high - e.low))
	}
	return value
}

// nearlyAll is the share of paid selections from which on values are means (valued). Items then need not be weighed again at each tick.
const nearlyAll = 0.99

// compare estimates how much items differ. Sums over items are of integers, and so do not depend on their order.
func (e *estimated) compare(a *awaiting) {
	e.set(0, 1, 1)
	if a.sums == nil || e.share > nearlyAll && e.below == 0 {
		return
	}
	var n, free int64
	var above, within contextual.Wide
	each := func(do func(i policy.Item, d deviations)) {
		for i := range policy.Item(a.column.Len()) {
			if d := deviationsOf(a, i); d.n > 0 {
				do(i, d)
			}
		}
	}
	each(func(i policy.Item, d deviations) {
		n += int64(d.n)
		above.Add(history.InUnits(d.sum))
		within.Add(history.InUnits(d.within()))
		free += int64(d.n) - 1
	})
	above.Add(history.InUnits(a.law.Default)*a.all.Below - a.all.Low)
	if n <= a.all.Below || within.Float() <= 0 || free <= 0 {
		return
	}
	e.high = min(1, max(0, a.law.Default+above.Float()/history.Units/float64(n-a.all.Below)))
	all, variance := float64(n), within.Float()/history.Units/float64(free)
	var apart, freedom, payoffs contextual.Wide // squares between items, in variances; their degrees of freedom; payoffs that show differences
	each(func(i policy.Item, d deviations) {
		f := 1 - d.n/all
		off := d.sum/d.n - e.expected(a, i)
		apart.Add(history.InUnits(min(float64(d.n*off)*off/variance, 1<<20)))
		freedom.Add(history.InUnits(f))
		payoffs.Add(history.InUnits(math.Min(float64(d.n*f), 1<<32)))
	})
	chance := freedom.Float() / history.Units
	if float64(free) < math.Floor(chance) || chance <= 0 {
		return
	}
	// Items that seem alike may be so by chance: a standard deviation of chance is added, and a degree of freedom.
	apart.Minus(freedom)
	more := max(0, apart.Float()/history.Units+math.Sqrt(2*chance)) + 1
	one, of := more/(payoffs.Float()/history.Units), more/chance
	e.set(e.high, one/(1+one), of/(1+of))
}

// valued returns the changes of the sums of an item's payoffs, and of their squares, if its value is drawn towards that of all items. The
// changes are smaller the more selections are paid: where all are, values are means, which policies compare themselves.
func (e *estimated) valued(a *awaiting, i policy.Item) (r, q float64) {
	if a.sums == nil || e.own == 1 {
		return 0, 0
	}
	d := deviationsOf(a, i)
	if d.n == 0 {
		return 0, 0
	}
	alike := float64(d.n * e.expected(a, i))
	own := d.n * e.own / (float64(d.n*e.own) + 1 - e.own)
	own += float64((1 - own) * e.share)
	spread := e.spread + float64((1-e.spread)*e.share)
	sum := alike + float64(own*(d.sum-alike))
	r = sum - d.sum
	return r, float64(sum/d.n*sum) + float64(spread*d.within()) - d.squares + float64(2*a.law.Default*r)
}
