package delay

import (
	"errors"
	"math"
	"math/bits"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// by switches to a grouping. The model is empty until all groups have been set.
func (u *contexts) by(choice int) {
	u.model.Alone(u.levels > 1 && u.segments == u.levels && u.choices[choice].Groups == 1)
	if choice == u.chosen {
		return
	}
	u.choose(choice)
	u.stale.Clear()
	u.changedGroups.Clear()
	if u.global != nil {
		return
	}
	u.model.Clear()
	u.pooled, u.changedGroups = policy.Pages[cellSums]{}, policy.Changes{}
	u.pool()
}

// regroup chooses a grouping by the payoffs so far, and returns whether it changed.
func (u *contexts) regroup(t *policy.Table) bool {
	if len(u.choices) == 1 {
		return false
	}
	best := u.better(t)
	if best == u.chosen {
		return false
	}
	u.by(best)
	u.settle(t)
	return true
}

// endsGrouping separates the number of a grouping from the fit behind it.
const endsGrouping = '|'

func (u *contexts) appendGrouping(dst []byte) []byte {
	if len(u.choices) == 1 {
		return dst
	}
	return append(strconv.AppendInt(dst, int64(u.chosen), 10), endsGrouping)
}

// takeGrouping reads the number that appendGrouping wrote, switches to that grouping, and returns the fit behind it. With a global
// learner the grouping is the global one.
func (u *contexts) takeGrouping(value []byte) (fit []byte, err error) {
	if len(u.choices) == 1 {
		return value, nil
	}
	r := words.Of(value, endsGrouping)
	n, fit := r.Int(0, int64(len(u.choices))-1), r.Rest()
	if err := r.End(errGrouping); err != nil {
		return nil, err
	}
	if u.global == nil {
		u.by(int(n))
	}
	return fit, nil
}

// groupKappas are the ratios of payoff variance to group variance that are tried.
var groupKappas = [...]float64{4, 16, 64, 256, 1024}

// clocked holds an item's payoffs from one segment, by level of the clock: their weight n, and the sum r of deviations from the
// payoff that its features predict.
type clocked struct{ n, r []float64 }

// better returns the grouping with the highest likelihood of the cells' payoffs, with item and group effects integrated out. An
// effect of a level on all items counts, too, though it changes no ranking: where few items are selected, it cannot be separated
// from effects of single items.
func (u *contexts) better(t *policy.Table) (best int) {
	all := u.clocked(t)
	if len(all) == 0 {
		return u.chosen
	}
	ofItem := u.model.Kappa(u.items())
	variance := u.model.Deviation(-1)
	variance *= variance
	gains := make([]float64, len(u.choices))
	most := 0.0
	for c := range u.choices {
		if c == 0 {
			continue
		}
		gains[c] = math.Inf(-1)
		for _, kappa := range groupKappas {
			var sum contextual.Wide
			for _, x := range all {
				sum.Add(int64((x.likelihood(&u.choices[c], kappa, ofItem, variance) - x.likelihood(nil, 0, ofItem, variance)) * contextual.Units))
			}
			gains[c] = max(gains[c], sum.Float()/contextual.Units-worthGroups)
		}
		if gains[c] > most {
			best, most = c, gains[c]
		}
	}
	if most < gains[u.chosen]+worthChange && gains[u.chosen] >= 0 {
		return u.chosen
	}
	return best
}

// clocked returns the data of all items, or of a sample where they are many.
func (u *contexts) clocked(t *policy.Table) (all []clocked) {
	var items []policy.Item
	for group, c := range u.pooled.All() {
		if i := group / u.groups; !c.none() && (len(items) == 0 || items[len(items)-1] != i) {
			items = append(items, i)
		}
	}
	skip := bits.Len(uint(max(len(items)-1, 0) / groupedItems))
	for _, i := range items {
		if skip > 0 && contextual.Mix(u.mark(i))>>(64-skip) != 0 {
			continue
		}
		e, fed, awaited := t.Evidence(i), t.Pooled(i), 0.0
		u.silent.read(i)
		u.eachCell(i, func(cell int32) {
			segment := cell % u.segments
			c := u.everywhere(i, segment)
			awaited += float64(c.awaited) * u.each([]int32{segment})
		})
		for first := int32(0); first < u.segments; first += u.levels {
			x, known := clocked{make([]float64, u.levels), make([]float64, u.levels)}, 0.0
			for level := range u.levels {
				c := u.everywhere(i, first+level)
				if c.none() {
					continue
				}
				share := 0.0
				if awaited > 0 {
					share = float64(c.awaited) * u.each([]int32{first + level}) / awaited
				}
				n := float64(c.fed) + share*(e.W-float64(fed.N))
				x.n[level], x.r[level] = n, float64(c.r)/history.Units+share*(e.R-fed.R)-u.expectedOf(&c, n)
				known += n
			}
			if known > 0 {
				all = append(all, x)
			}
		}
	}
	return all
}

// expectedOf returns the sum of n payoffs of a cell that its features predict.
func (u *contexts) expectedOf(c *cellSums, n float64) (sum float64) {
	for j := range u.dim {
		theta, _ := u.model.Coefficient(j)
		switch {
		case j == 0:
			sum += theta * n
		case c.fed > 0:
			sum += theta * n * float64(c.s[j]) / (features.One * float64(c.fed))
		}
	}
	return sum
}

// likelihood returns the log likelihood of an item's payoffs, up to a constant common to all groupings, with the effects of item and
// groups integrated out. A nil grouping is one group. With sums N and R of each group, y = 1/(N+κ_s) and σ² the variance it is
//
//	½·(Σ_groups [y·R²/σ² − log((N+κ_s)/κ_s)] + R'²/((N'+κ)·σ²) − log((N'+κ)/κ)),   N' = Σ κ_s·y·N,   R' = Σ κ_s·y·R.
func (x *clocked) likelihood(g *features.Grouping, kappa, ofItem, variance float64) (log float64) {
	var n, r float64
	if g == nil {
		for level := range x.n {
			n, r = n+x.n[level], r+x.r[level]
		}
	} else {
		var ns, rs [features.MaxLevels]float64
		for level, at := range g.Of {
			ns[at] += x.n[level]
			rs[at] += x.r[level]
		}
		for at := range g.Groups {
			y := 1 / (ns[at] + kappa)
			log += y*rs[at]*rs[at]/variance - math.Log((ns[at]+kappa)/kappa)
			n, r = n+kappa*y*ns[at], r+kappa*y*rs[at]
		}
	}
	return 0.5 * (log + r*r/(n+ofItem)/variance - math.Log((n+ofItem)/ofItem))
}

var errGrouping = errors.New("the value does not begin with the number of a grouping")
