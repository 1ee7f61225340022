package lift

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// Report is the state of an experiment. Payoffs and lifts are in payoff ranges, as in metrics and guards.
type Report struct {
	Experiment string   `json:"experiment"`
	Run        int32    `json:"run"`
	By         string   `json:"by"`
	AsOf       string   `json:"as_of"`    // event time up to which deadlines count
	Units      int64    `json:"units"`    // counted
	Immature   int64    `json:"immature"` // impressions too young to count
	Range      Range    `json:"payoff_range"`
	Once       bool     `json:"once,omitempty"` // each group of users counts once, and bounds hold for one look
	Control    string   `json:"control"`
	Arms       []Arm    `json:"arms"`
	Notes      []string `json:"notes,omitempty"`
}

type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Arm is the state of an arm. The control has no lift.
type Arm struct {
	Arm     string  `json:"arm"`
	Share   float64 `json:"share"`
	Control bool    `json:"control,omitempty"`
	Verdict string  `json:"verdict,omitempty"`
	Why     string  `json:"why,omitempty"` // reason of a refusal
	Units   int64   `json:"units"`
	// Mean is the mean payoff of units; nil without units.
	Mean  *float64 `json:"mean"`
	Lift  *float64 `json:"lift,omitempty"`
	Lower *float64 `json:"lower,omitempty"` // nil if refused
	Upper *float64 `json:"upper,omitempty"`
	// Out is set if a guard took the arm out of service. Verdict, lift, bounds and looks are as of then.
	Out *Out `json:"out_of_service,omitempty"`
	// Shares are the lifts by share, with shared learning.
	Shares []experiment.AtShare `json:"shares,omitempty"`
	Looks  []Look               `json:"looks,omitempty"`
	// Outlook compares by units of all ages, by impression only; nil if Out is set.
	Outlook *Outlook `json:"outlook,omitempty"`
}

type Out struct {
	Since string  `json:"since"`
	Units int64   `json:"units"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// Look is an arm's lift at one time.
type Look struct {
	At    string  `json:"at"`
	Units int64   `json:"units"` // of arm and control
	Lift  float64 `json:"lift"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

const mostLooks = 200

var (
	// ErrNone is wrapped if no ranking belongs to the experiment.
	ErrNone = errors.New("no ranking belongs to the experiment")
	// ErrNoEnd is returned if a topic has no record, and no time was given.
	ErrNoEnd = errors.New("a topic without a record: the files do not say how far event time has come; give --as-of")
	// ErrShares is wrapped if units were assigned with other shares than configured.
	ErrShares = errors.New("the run's arms or shares have changed; raise run with every change, and compare with the configured ones")
)

// Report compares the arms by a log whose rows u has accepted. It fails with ErrNone, ErrNoEnd or ErrShares.
func (u *Units) Report(log *joinedlog.Log) (*Report, error) {
	e := u.Experiment
	if u.shares > 0 {
		return nil, fmt.Errorf("%w: %d rankings of run %d are of arms or shares that are not configured", ErrShares, u.shares, e.Run)
	}
	if len(u.all) == 0 {
		for run, o := range u.others {
			u.runs[run] = int64(len(o.all))
		}
		err := fmt.Errorf("%w %q, run %d, among %d", ErrNone, e.Name, e.Run, log.Counts.Records[event.Rankings])
		for run, n := range u.runs {
			err = fmt.Errorf("%w; %d are of run %d", err, n, run)
		}
		if e.ByUser {
			err = fmt.Errorf("%w; impressions without `user` are ranked by the control and are not in it: see ranker_experiment_outside_total", err)
		}
		return nil, err
	}
	end := log.End
	if u.AsOf != 0 {
		end = u.AsOf
	}
	if end == math.MinInt64 {
		return nil, ErrNoEnd
	}
	r := &Report{Experiment: e.Name, Run: e.Run, By: "impression", AsOf: stamp(end), Control: e.Control, Once: u.Once, Range: Range{u.Payoffs.Min, u.Payoffs.Max},
		Notes: append(u.notes(), log.Notes...)}
	if e.ByUser {
		r.By = "user"
	}
	for arm, v := range u.verdicts {
		if v != nil && v.at > end { // passed later
			u.verdicts[arm] = nil
		}
	}
	looks, young := u.looks(log.Outcomes, end)
	r.Immature = young
	for arm := range e.Arms {
		a := u.arm(arm, looks)
		r.Units += a.Units
		r.Arms = append(r.Arms, a)
	}
	u.advise(r, end)
	u.outlooks(r, end)
	if u.Shared {
		u.compareShares(r, looks, log.Outcomes, end)
	}
	return r, nil
}

// arm compares an arm with the control. The lift of an arm out of service is the one for which its guard took it out.
func (u *Units) arm(arm int, looks []look) Arm {
	e := u.Experiment
	a := Arm{Arm: e.Arms[arm].Name, Share: e.Arms[arm].Share, Control: arm == e.ControlArm()}
	if v := u.verdicts[arm]; v != nil {
		a.Out = &Out{stamp(v.at), v.Units, v.Lower, v.Upper}
	}
	totals := u.totals(looks)
	if a.Units = totals[arm].N; a.Units > 0 {
		mean := totals[arm].Mean()
		a.Mean = &mean
	}
	if a.Control {
		return a
	}
	l := u.lift(arm, totals)
	if o := a.Out; o != nil {
		l, looks = experiment.OutOfService(o.Units, o.Lower, o.Upper), u.before(arm, looks)
	}
	a.Verdict, a.Why, a.Lift = l.Verdict.String(), l.Why, &l.Estimate
	if l.Verdict == experiment.Refused {
		return a
	}
	a.Lower, a.Upper = &l.Lower, &l.Upper
	n := len(looks)
	for k := range min(n, mostLooks) {
		at := &looks[(k+1)*n/min(n, mostLooks)-1]
		l := u.lift(arm, at.totals)
		a.Looks = append(a.Looks, Look{stamp(at.at), l.Units, l.Estimate, l.Lower, l.Upper})
	}
	return a
}

// advise adds a note if no unit is old enough to count: perhaps its records are deleted before.
func (u *Units) advise(r *Report, end event.Millis) {
	if oldest := slices.MinFunc(u.all, func(a, b unit) int { return cmp.Compare(a.began, b.began) }).began; end-oldest < u.Horizon {
		r.Notes = append(r.Notes, fmt.Sprintf("the oldest impression is of %s, and counts once its payoff_horizon of %s is over: topics need a retention above that",
			stamp(oldest), config.FormatDuration(time.Duration(u.Horizon)*time.Millisecond)))
	}
}

// before returns the looks before a guard took the arm out of service.
func (u *Units) before(arm int, looks []look) []look {
	for v := u.verdicts[arm]; v != nil && len(looks) > 0 && looks[len(looks)-1].at > v.at; {
		looks = looks[:len(looks)-1]
	}
	return looks
}

// totals returns the totals of the last look.
func (u *Units) totals(looks []look) experiment.Totals {
	if len(looks) == 0 {
		return make(experiment.Totals, len(u.Experiment.Arms))
	}
	return looks[len(looks)-1].totals
}

func (u *Units) lift(arm int, t experiment.Totals) experiment.Lift {
	if u.Once {
		return u.Experiment.Bounds(arm, t)
	}
	return u.Experiment.Lift(arm, t)
}

// Err returns refused if no arm has bounds, else nil.
func (r *Report) Err(refused error) error {
	for i := range r.Arms {
		if a := &r.Arms[i]; a.Lower != nil {
			return nil
		}
	}
	return refused
}

func stamp(at event.Millis) string { return time.UnixMilli(at).UTC().Format(time.RFC3339) }
