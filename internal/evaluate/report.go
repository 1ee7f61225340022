package evaluate

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/config"
)

// Report is what an evaluation came to. Payoffs are in the units in which they were sent.
type Report struct {
	Per     string         `json:"per"` // selection or impression
	Log     LogReport      `json:"log"`
	Windows *WindowsReport `json:"windows,omitempty"` // of users who select from rankings
	Check   CheckReport    `json:"check"`
	Targets []TargetReport `json:"targets"`
	Notes   []string       `json:"notes,omitempty"`
}

// LogReport says what was judged.
type LogReport struct {
	Source     string   `json:"source"`
	Learner    string   `json:"learner,omitempty"`
	Policy     string   `json:"policy,omitempty"` // the latest that decided
	From       string   `json:"from,omitempty"`   // the first decision's time
	To         string   `json:"to,omitempty"`     // the last one's
	Records    int64    `json:"records"`          // decisions read
	Judged     int64    `json:"judged"`           // of them, those that count
	Immature   int64    `json:"immature"`         // too young to count: others of their age may still be paid
	Unselected int64    `json:"unselected"`
	Unpaid     int64    `json:"unpaid"` // selected, and no payoff came in time
	Logged     *float64 `json:"logged"` // what those judged were paid in the mean; null: there are none
}

// WindowsReport says how users select.
type WindowsReport struct {
	Source       string    `json:"source"`       // configured, learned, or fitted together with how often users take items that they find
	Propensities string    `json:"propensities"` // recorded or shown: what p was taken from
	Selections   int64     `json:"selections"`   // learned from
	Blocked      int64     `json:"blocked"`      // of these, of items below a better one
	Noise        float64   `json:"noise"`        // the share of users who take anything they look at
	Q            []float64 `json:"q"`            // how likely windows of 1, 2, … are
}

// CheckReport says how far the weights of the log's own policy are from 1.
type CheckReport struct {
	LoggingMaxDeviation float64 `json:"logging_max_deviation"`
}

// The verdicts on a target.
const (
	OK      = "ok"
	Refused = "refused"
)

// TargetReport says what a target would have been worth.
type TargetReport struct {
	Target  string   `json:"target"`
	Verdict string   `json:"verdict"`           // ok or refused
	Reasons []string `json:"reasons,omitempty"` // why it is refused
	// Bounded tells of a refused target that Sequence holds all the same: what the log does not say of it counts as the least below and
	// the most above.
	Bounded bool `json:"bounded,omitempty"`

	IPS           Value    `json:"ips,omitzero"` // this and the next three are per selection
	SNIPS         Value    `json:"snips,omitzero"`
	DR            Value    `json:"dr,omitzero"`
	Sequence      Interval `json:"sequence,omitzero"`        // holds at every look
	PerImpression *Value   `json:"per_impression,omitempty"` // nil per selection
	Difference    Value    `json:"difference"`               // of the value, less the log's payoff, on the same rows

	EffectiveSamples float64 `json:"effective_samples"`
	MeanWeight       float64 `json:"mean_weight"`
	MaxWeight        float64 `json:"max_weight"`
	Unsupported      float64 `json:"unsupported"` // the share of the target's selections that the log's policy never leads to
}

// Value is the answer.
func (t *TargetReport) Value() *Value {
	if t.PerImpression != nil {
		return t.PerImpression
	}
	return &t.DR
}

// Value is an estimate. Its interval is of 95 % for one look, and null where there are too few rows for it.
type Value struct {
	Value  float64  `json:"value"`
	Stderr float64  `json:"stderr"`
	Lower  *float64 `json:"lower"`
	Upper  *float64 `json:"upper"`
}

// Interval is one that has no estimate in its middle.
type Interval struct {
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

const (
	alpha            = 0.05
	deviations       = 1.96 // on each side, of 95 %
	fewForInterval   = 100  // effective samples: with fewer the interval of one look is too short
	fewForAnswer     = 30   // likewise: with fewer there is no answer
	mostUnsupported  = 0.05
	fewForWindows    = 1000 // selections that windows are learned from
	mostNoise        = 0.2
	mostImpossible   = 0.01 // of the selections may be impossible by the configured windows
	mostUnpaidUnsaid = 0.01 // of the judged rows may be unpaid where nothing says what that is worth
)

// report says what an estimator came to, in the units of a range.
func (e *estimator) report(name string, units config.Range, refused []string) TargetReport {
	t := TargetReport{Target: name, Verdict: OK, EffectiveSamples: e.effective(), MaxWeight: e.most, Reasons: refused}
	if e.rows > 0 {
		t.MeanWeight, t.Unsupported = e.w/e.rows, e.unsupported/e.rows
	}
	size := units.Max - units.Min
	value := func(v, stderr, from float64) Value {
		out := Value{Value: from + size*v, Stderr: size * stderr}
		if t.EffectiveSamples >= fewForInterval {
			low, high := out.Value-deviations*out.Stderr, out.Value+deviations*out.Stderr
			out.Lower, out.Upper = &low, &high
		}
		return out
	}
	v, s := e.ips()
	t.IPS = value(v, s, units.Min)
	v, s = e.snips()
	t.SNIPS = value(v, s, units.Min)
	v, s = e.direct.mean()
	t.DR = value(v, s, units.Min)
	v, s = e.difference.mean()
	t.Difference = value(v, s, 0)
	lower, upper := max(0, e.lower.bound(alpha)), min(1, 1-e.upper.bound(alpha))
	t.Sequence = Interval{units.Min + size*lower, units.Min + size*upper}

	refuse := func(format string, args ...any) { t.Reasons = append(t.Reasons, fmt.Sprintf(format, args...)) }
	if e.known && !e.balanced() {
		refuse("the weights do not add up: the log's propensities are not those that its selections were made with")
	}
	t.Bounded = len(t.Reasons) == 0
	switch {
	case e.rows < fewForAnswer:
		refuse("there are %d rows, it takes %d", int64(e.rows), fewForAnswer)
	case e.unsupported > mostUnsupported*e.rows:
		refuse("%.1f %% of its selections never happen with the log's policy", 100*t.Unsupported)
	case t.EffectiveSamples < fewForAnswer:
		refuse("what it does differs so much from the log that %d rows are worth %.0f", int64(e.rows), math.Floor(t.EffectiveSamples))
	}
	if len(t.Reasons) > 0 {
		t.Verdict = Refused
	}
	t.Bounded = t.Bounded && t.Verdict == Refused
	return t
}
