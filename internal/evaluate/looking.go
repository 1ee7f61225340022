package evaluate

import (
	"math"
	"math/bits"

	"github.com/ranker-worker/ranker-worker/policy"
)

// looking tests whether payoffs depend on how far users look. Weights by the selection alone are then wrong: a ranking that shows an item
// higher up has it selected by other users. A selection's depth is the mean window of the users who make it. With r̄ and z̄, the recent means
// of payoffs and depths of the same item at about the same utility rank,
//
//	Σ(r − r̄)(z − z̄) / √Σ(r − r̄)²(z − z̄)²
//
// is about standard normal without a dependence, and Σ(r − r̄)(z − z̄) / Σ(z − z̄)² is the rise of the payoff with each place.
// Ranks are apart, since users may like items that pay them more. Recent means are for payoffs that drift.
type looking struct {
	cells                      map[cell]cellMeans
	product, variance, squares float64 // Σ(r−r̄)(z−z̄), Σ(r−r̄)²(z−z̄)², Σ(z−z̄)²
}

// cell is an item with the bits of its utility rank, from 0 for the user's favourite.
type cell struct {
	item policy.Item
	rank int8
}

type cellMeans struct{ n, payoff, depth float64 }

// recent is the number of rows behind a cell's means.
const recent = 20

func (l *looking) add(item policy.Item, rank int, payoff, depth float64) {
	if l.cells == nil {
		l.cells = map[cell]cellMeans{}
	}
	key := cell{item, int8(bits.Len(uint(rank)))}
	c := l.cells[key]
	r, z := payoff-c.payoff, depth-c.depth
	if c.n > 0 {
		l.product += r * z
		l.variance += r * r * z * z
		l.squares += z * z
	}
	c.n = min(c.n+1, recent)
	c.payoff += r / c.n
	c.depth += z / c.n
	l.cells[key] = c
}

// slope returns the rise of the payoff with the depth, and its distance from 0 in standard errors.
func (l *looking) slope() (slope, off float64) {
	if l.variance == 0 {
		return 0, 0
	}
	return l.product / l.squares, math.Abs(l.product) / math.Sqrt(l.variance)
}

// depths compare the depth of the selections of a target, by their weights, with that of the log's. Of the judged rows that the target has
// decided, n have a selection.
type depths struct{ rows, n, log, weights, target float64 }

func (d *depths) add(w, depth float64) {
	d.n++
	d.log += depth
	d.weights += w
	d.target += w * depth
}

// difference returns the mean depth of the target's minus that of the log's.
func (d *depths) difference() float64 {
	if d.weights == 0 {
		return 0
	}
	return d.target/d.weights - d.log/d.n
}

// The numbers of standard errors from which payoffs seem to depend on the depth, and certainly do.
const (
	seemsDeep = 2
	isDeep    = 4
)

// checkDepth refuses a target whose value is wrong by more than half of a standard error, if payoffs certainly depend on the depth. Where they
// seem to, its intervals are wider by the error. A learner that uses contexts shows an item higher to users who pay more for it, so its log
// is not tested.
func (j *judge) checkDepth(p *player, t *TargetReport) {
	slope, off := j.looking.slope()
	if off < seemsDeep || j.learner.Context.On() {
		return
	}
	r := j.learner.PayoffRange
	slope *= r.Max - r.Min
	wrong := slope * p.depths.difference() * p.depths.n / max(1, p.depths.rows)
	if off > isDeep && math.Abs(wrong) > t.Value().Stderr/2 {
		t.refuse("the same item pays %+.2g for each place that users look further down (%.0f standard errors): its value would be wrong by %+.2g",
			slope, off, wrong)
	}
	wrong = math.Abs(wrong)
	t.Value().widen(wrong, wrong)
	t.Difference.widen(wrong, wrong)
	if t.PerImpression == nil {
		t.Sequence = Interval{max(r.Min, t.Sequence.Lower-wrong), min(r.Max, t.Sequence.Upper+wrong)}
	}
}
