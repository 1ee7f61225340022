package evaluate

import (
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
)

// Plan is the size of a log that decides whether a target is better than the log's policy, if it is by Difference.
type Plan struct {
	Difference float64 `json:"difference"` // in raw units
	// OneLook and AnyLook are the sizes at which the difference's lower bound, for one look or at any look, is above 0 in four of five logs.
	// Nil: more than mostPlanned times this log.
	OneLook *PlannedLog `json:"one_look"`
	AnyLook *PlannedLog `json:"any_look"`
}

// PlannedLog is the size of a log from its beginning.
type PlannedLog struct {
	Impressions int64   `json:"impressions"` // that are old enough to count
	Days        float64 `json:"days"`        // at the log's pace, with the payoff horizon; 0 if times are unknown
}

const (
	mostPlanned = 1000
	fourOfFive  = 0.8416 // a standard normal variable is below it with probability 4/5
)

// rowsFor returns the rows after which the target is known to be better by a difference, for one look and at any look; +Inf if never. From
// here on, rows are like those since half of the log or less.
//
// The one-look bound is 1.96 standard errors s of the difference below its estimate. It is above 0 in four of five logs if the true
// difference is 1.96·s + 0.84·s or more. The bound at any look replaces 1.96·s by its distance from the value.
func (e *estimator) rowsFor(difference float64) (oneLook, anyLook float64) {
	oneLook = e.rowsUntil(func(x *sums) bool {
		_, s := x.difference.mean()
		return (deviations+fourOfFive)*s+e.below(x) <= difference && x.effective() >= fewForInterval
	})
	anyLook = e.rowsUntil(func(x *sums) bool {
		_, s := x.difference.mean()
		value, _ := x.direct.mean()
		return value-x.lower.bound(alpha)+fourOfFive*s <= difference
	})
	return oneLook, anyLook
}

// rowsUntil returns the least number of rows, not below the present one, at which ok holds.
func (e *estimator) rowsUntil(ok func(*sums) bool) float64 {
	step := e.sums.less(&e.earlier[0])
	at := func(rows float64) bool {
		x := e.sums.plus(&step, (rows-e.rows)/step.rows)
		return ok(&x)
	}
	if e.rows == 0 {
		return math.Inf(1)
	}
	low, high := e.rows, e.rows
	for !at(high) {
		if low, high = high, 2*high; high > mostPlanned*e.rows {
			return math.Inf(1)
		}
	}
	for high-low > 0.001*high {
		if mid := (low + high) / 2; at(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Ceil(high)
}

// less returns the sums over the rows after those of o.
func (s *sums) less(o *sums) sums { return s.plus(o, -1) }

// plus adds k times the sums of o, for those sums that a plan needs.
func (s *sums) plus(o *sums, k float64) sums {
	out := *s
	out.rows += k * o.rows
	out.w += k * o.w
	out.w2 += k * o.w2
	out.unsupported += k * o.unsupported
	out.modelled += k * o.modelled
	out.direct.plus(&o.direct, k)
	out.difference.plus(&o.difference, k)
	out.lower.n += k * o.lower.n
	for i := range out.lower.by {
		out.lower.by[i].sum += k * o.lower.by[i].sum
		out.lower.by[i].v += k * o.lower.by[i].v
	}
	return out
}

func (m *moments) plus(o *moments, k float64) {
	m.n += k * o.n
	m.sum += k * o.sum
	m.squares += k * o.squares
}

// pace converts rows into impressions and days.
type pace struct {
	impressions float64       // per row
	each        time.Duration // between impressions; 0: unknown
	horizon     time.Duration
}

func (p *pace) log(rows float64) *PlannedLog {
	if math.IsInf(rows, 1) {
		return nil
	}
	l := &PlannedLog{Impressions: int64(math.Ceil(rows * p.impressions))}
	if p.each > 0 {
		l.Days = (float64(l.Impressions)*p.each.Hours() + p.horizon.Hours()) / 24
	}
	return l
}

// plan adds a target's plan, unless it is refused for a reason that a longer log does not mend.
func (e *estimator) plan(t *TargetReport, difference float64, units config.Range, p *pace) {
	if difference == 0 || t.Verdict == Refused && !t.young {
		return
	}
	one, many := e.rowsFor(difference / (units.Max - units.Min))
	t.Plan = &Plan{difference, p.log(one), p.log(many)}
}
