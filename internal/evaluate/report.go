package evaluate

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

// Report is the result of an evaluation. Payoffs are in raw units.
type Report struct {
	Per     string         `json:"per"` // selection or impression
	Log     LogReport      `json:"log"`
	Windows *WindowsReport `json:"windows,omitempty"` // of users' selections
	Check   CheckReport    `json:"check"`
	Targets []TargetReport `json:"targets"`
	Notes   []string       `json:"notes,omitempty"`
}

// LogReport describes the evaluated log.
type LogReport struct {
	Source     string   `json:"source"`
	Learner    string   `json:"learner,omitempty"`
	Policy     string   `json:"policy,omitempty"` // of the last decision
	From       string   `json:"from,omitempty"`   // time of the first decision
	To         string   `json:"to,omitempty"`     // time of the last one
	Records    int64    `json:"records"`          // decisions read
	Judged     int64    `json:"judged"`           // decisions that count
	Immature   int64    `json:"immature"`         // too young to count: others of their age may still be paid
	Unselected int64    `json:"unselected"`
	Unpaid     int64    `json:"unpaid"` // selected without a payoff in time
	Logged     *float64 `json:"logged"` // mean payoff of the judged; null without any
}

// WindowsReport describes the user model.
type WindowsReport struct {
	Source       string    `json:"source"`       // configured, learned, or fitted together with selection probabilities
	Propensities string    `json:"propensities"` // recorded or shown: the source of p
	Selections   int64     `json:"selections"`   // number behind it
	Blocked      int64     `json:"blocked"`      // of these, of blocked items
	Noise        float64   `json:"noise"`        // share of users who select any item that they look at
	Q            []float64 `json:"q"`            // probabilities of windows 1, 2, …
}

// CheckReport holds the largest deviation of the log policy's own weights from 1.
type CheckReport struct {
	LoggingMaxDeviation float64 `json:"logging_max_deviation"`
}

// Verdicts on a target.
const (
	OK      = "ok"
	Refused = "refused"
)

// TargetReport holds the value of a target.
type TargetReport struct {
	Target  string   `json:"target"`
	Verdict string   `json:"verdict"`           // ok or refused
	Reasons []string `json:"reasons,omitempty"` // why it is refused
	// Bounded says that a refused target's sequence holds: unsupported selections count as the least below and the most above.
	Bounded bool `json:"bounded,omitempty"`

	IPS           Value    `json:"ips,omitzero"` // this and the next three are per selection
	SNIPS         Value    `json:"snips,omitzero"`
	DR            Value    `json:"dr,omitzero"`
	Sequence      Interval `json:"sequence,omitzero"`        // valid at all looks
	PerImpression *Value   `json:"per_impression,omitempty"` // nil per selection
	Difference    Value    `json:"difference"`               // value minus the log's payoff, on the same rows

	EffectiveSamples float64  `json:"effective_samples"`
	MeanWeight       float64  `json:"mean_weight"`
	MaxWeight        float64  `json:"max_weight"`
	Unsupported      *float64 `json:"unsupported"` // share of the target's selections that the log's policy never makes; null if unknown

	Plan  *Plan `json:"plan,omitempty"`
	young bool  // it is refused for too few rows alone
}

// refuse adds a reason why the target has no value.
func (t *TargetReport) refuse(format string, args ...any) {
	t.Reasons, t.Verdict = append(t.Reasons, fmt.Sprintf(format, args...)), Refused
	t.Bounded, t.young = false, false
}

// refuseYoung is refuse where a longer log may have an answer.
func (t *TargetReport) refuseYoung(format string, args ...any) {
	t.refuse(format, args...)
	t.young = len(t.Reasons) == 1
}

// Value returns the main estimate.
func (t *TargetReport) Value() *Value {
	if t.PerImpression != nil {
		return t.PerImpression
	}
	return &t.DR
}

// Value is an estimate with a 95% interval for one look, null with too few rows.
type Value struct {
	Value  float64  `json:"value"`
	Stderr float64  `json:"stderr"`
	Lower  *float64 `json:"lower"`
	Upper  *float64 `json:"upper"`
}

// Interval has no central estimate.
type Interval struct {
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

const (
	alpha            = 0.05
	deviations       = 1.96 // on each side, of 95 %
	fewForInterval   = 100  // effective samples below which the interval of one look is too short
	fewForAnswer     = 30   // likewise, below which there is no answer
	mostForInterval  = 0.1  // share of the payoffs' variance that one makes up, above which the interval of one look is too short
	mostForAnswer    = 0.5  // likewise, above which there is no answer
	mostUnsupported  = 0.05
	fewForWindows    = 1000 // selections needed to learn windows
	mostNoise        = 0.2
	mostImpossible   = 0.01 // share of selections that may be impossible by configured windows or recorded propensities
	mostUnpaidUnsaid = 0.01 // share of judged rows that may be unpaid with an unknown payoff
)

const tooLarge = "the payoff of one of %s makes up %.0f %% of their variance: it is too large for a mean"

// report returns an estimator's values in units. One payoff makes up the share largest of the log's variance.
func (e *estimator) report(name string, units config.Range, refused []string, largest float64) TargetReport {
	t := TargetReport{Target: name, Verdict: OK, EffectiveSamples: e.effective(), MaxWeight: e.most, MeanWeight: e.w / max(e.rows, 1)}
	unsupported := e.unsupported / max(e.rows, 1)
	if e.blind.n == 0 {
		t.Unsupported = &unsupported
	}
	size := units.Max - units.Min
	value := func(v, stderr, from float64) Value {
		out := Value{Value: from + size*v, Stderr: size * stderr}
		if t.EffectiveSamples >= fewForInterval && largest <= mostForInterval {
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
	below, above := size*e.below(&e.sums), size*e.above/max(e.rows, 1)
	t.DR.widen(below, above)
	t.Difference.widen(below, above)
	t.Sequence = Interval{units.Min + size*e.lower.bound(alpha), units.Max - size*e.upper.bound(alpha)}

	for _, reason := range refused {
		t.refuse("%s", reason)
	}
	rows := plural.N(int64(e.rows), "row")
	switch {
	case e.rows < fewForAnswer:
		t.refuseYoung("%s, at least %d are needed", rows, fewForAnswer)
	case unsupported > mostUnsupported:
		t.refuse("%.1f %% of its selections never happen with the log's policy", 100*unsupported)
	case t.EffectiveSamples < fewForAnswer:
		t.refuseYoung("its decisions differ so much from the log that %s are worth %.0f", rows, math.Floor(t.EffectiveSamples))
	case largest > mostForAnswer:
		t.refuse(tooLarge, rows, 100*largest)
	}
	t.Bounded = t.Verdict == Refused && len(refused) == 0
	known, blind := e.balanced()
	if !known {
		t.refuse("the weights do not add up: the log's propensities are not those that its selections were made with; " +
			"if these are a learner's first rankings, try a later --from")
	}
	if !blind {
		mean, _ := e.blind.mean()
		t.refuse("its weights have a mean of %.3g, not 1: the log's propensities are wrong, or some of its selections never happen there", mean)
	}
	return t
}
