package evaluate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/evaluate/usermodel"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

// impressions evaluate targets per impression, by a user model fitted to the log.
type impressions struct {
	model  *usermodel.Model
	misfit usermodel.Misfit
	rows   int   // rows that count
	every  int32 // the model is fitted to one row of so many

	shows usermodel.Shows
	shown []int32 // scratch
	other []int32 // scratch
}

const mostFitted = 100_000

const (
	mostMisfit     = 0.05 // share of selections of other kinds than the model expects
	mostDeviations = 5    // of chance, if a model fits
)

// newImpressions fits a model in one pass over the log, and sets the windows. It fails without a selections topic.
func newImpressions(ctx context.Context, log *joinedlog.Log, l *config.Learner, w *windows) (*impressions, error) {
	if l.SelectionTimeout == 0 {
		return nil, fmt.Errorf("--per impression needs a selections topic: without one nobody is known to have left; judge per selection")
	}
	m := &impressions{every: 1}
	for k := range log.Outcomes {
		if ended(&log.Outcomes[k]) {
			m.rows++
		}
	}
	m.every = max(1, int32(m.rows/mostFitted))
	var rows usermodel.Rows
	var shown []int32
	var events int64
	err := log.Play(func(e *joinedlog.Event) error {
		if events++; events%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.Kind != joinedlog.Decided || !m.fitted(e.Row) {
			return nil
		}
		if out := &log.Outcomes[e.Row]; ended(out) {
			shown = usermodel.Shown(shown[:0], e.Items, e.Order)
			rows.Add(shown, selectedAt(out, e.Order))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var given []float64
	if w.Source == configured {
		given = w.Q
	}
	m.model = rows.Fit(len(w.Q), given)
	m.misfit = m.model.Check()
	return m, w.set(m.model.Q, m.model.Noise)
}

func ended(out *joinedlog.Outcome) bool {
	return out.How == joinedlog.Paid || out.How == joinedlog.Unpaid && !out.Refused || out.How == joinedlog.Unselected
}

func (m *impressions) fitted(row int32) bool { return row%m.every == 0 }

// selectedAt returns the position of the selection; -1 if there is none.
func selectedAt(out *joinedlog.Outcome, order []int32) int {
	if out.How == joinedlog.Unselected {
		return -1
	}
	return slices.Index(order, out.Selected)
}

// add adds the present row to a target's estimate: order is its ranking, pi its probabilities that a candidate is found.
func (m *impressions) add(est *usermodel.Estimate, e *joinedlog.Event, j *judge, order []int32, pi []float64) {
	m.shows = usermodel.Shows{Logged: j.row.logged, Other: pi, Items: e.Items, Worth: j.worth, Fitted: m.fitted(e.Row)}
	within := est.Add(&m.shows, j.row.selected)
	if j.row.selected < 0 {
		return
	}
	m.shown = usermodel.Shown(m.shown[:0], e.Items, e.Order)
	m.other = usermodel.Shown(m.other[:0], e.Items, order)
	rank := int32(j.row.selected)
	est.Paid(&m.shows, m.shown, slices.Index(e.Order, rank), m.other, slices.Index(order, rank), within, j.raw(j.row.payoff))
}

// refused returns the reasons why the model cannot answer for any target.
func (m *impressions) refused() (reasons []string) {
	if m.misfit.Deviations > mostDeviations && m.misfit.Share > mostMisfit {
		reasons = append(reasons, fmt.Sprintf("%.0f %% of the selections are others than those of users who look some way down and take or leave their favourite there",
			100*m.misfit.Share))
	}
	return reasons
}

// reportImpressions reports an estimate per impression, in raw units, in which an impression without a selection is worth 0. One payoff
// makes up the share largest of the log's variance.
func reportImpressions(name string, est *usermodel.Estimate, units config.Range, refused []string, largest float64) TargetReport {
	r := est.Result()
	t := TargetReport{Target: name, Verdict: OK, EffectiveSamples: r.Effective, MeanWeight: r.MeanWeight, MaxWeight: r.MaxWeight,
		Unsupported: &r.Unsupported, PerImpression: &Value{Value: r.Value, Stderr: r.Stderr}, Difference: Value{Value: r.Value - r.Paid, Stderr: r.Difference}}
	if r.Effective >= fewForInterval && largest <= mostForInterval {
		byWeights := r.Value - r.Filled
		low, high := bounds(byWeights, r.Stderr, units)
		t.PerImpression.within(r.Filled, low, high)
		low, high = difference(byWeights, &r, units)
		t.Difference.within(r.Filled, low, high)
	}
	for _, reason := range refused {
		t.refuse("%s", reason)
	}
	switch {
	case r.Impressions < fewForAnswer:
		t.refuse("%s, at least %d are needed", plural.N(int64(r.Impressions), "row"), fewForAnswer)
	case r.Unsupported > mostUnsupported:
		t.refuse("%.1f %% of its selections hardly ever happen with the log's policy", 100*r.Unsupported)
	case r.Effective < fewForAnswer:
		t.refuse("it differs so much from the log that %s are worth %.0f", plural.N(int64(r.Impressions), "row"), math.Floor(r.Effective))
	case largest > mostForAnswer:
		t.refuse(tooLarge, plural.N(int64(r.Impressions), "row"), 100*largest)
	case r.Unbalanced > mostUnbalanced:
		t.refuse("the weights do not add up: users do not select as the rankings and utilities say")
	}
	return t
}

const mostUnbalanced = 4

// bounds returns a 95% interval, on a logarithmic scale since windows divide; on a linear one if payoffs may be negative.
func bounds(value, stderr float64, units config.Range) (low, high float64) {
	if units.Min < 0 {
		return value - deviations*stderr, value + deviations*stderr
	}
	if value <= 0 {
		return 0, deviations * stderr
	}
	factor := math.Exp(deviations * stderr / value)
	return value / factor, value * factor
}

// difference returns such an interval of the value minus the log's payoff.
func difference(value float64, r *usermodel.Result, units config.Range) (low, high float64) {
	if units.Min < 0 || value <= 0 || r.Paid <= 0 {
		return value - r.Paid - deviations*r.Difference, value - r.Paid + deviations*r.Difference
	}
	factor := math.Exp(deviations * r.Ratio)
	return value/factor - r.Paid, value*factor - r.Paid
}

// within sets an interval. The part filled by the model of payoffs may be off by its own size.
func (v *Value) within(filled, low, high float64) {
	low, high = low+min(0, 2*filled), high+max(0, 2*filled)
	v.Lower, v.Upper = &low, &high
}

// widen moves the ends of an interval away, if there is one.
func (v *Value) widen(below, above float64) {
	if v.Lower != nil {
		low, high := *v.Lower-below, *v.Upper+above
		v.Lower, v.Upper = &low, &high
	}
}
