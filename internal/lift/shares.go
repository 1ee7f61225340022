package lift

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// otherRun is a run of the experiment that is not the configured one. Its arms and shares are those of its rankings.
type otherRun struct {
	arms  []experiment.Arm // in the order of their first ranking
	all   []unit
	until event.Millis // the first ranking in place of an arm that a guard took out of service: later units are one-sided
	unfit bool         // units are of another kind, or shares change within the run
}

// other accepts a ranking of another run, with shared learning.
func (u *Units) other(row int32, r *event.Ranking) bool {
	a := &r.Decision.Assignment
	o := u.others[a.Run]
	if o == nil {
		o = &otherRun{until: math.MaxInt64}
		u.others[a.Run] = o
	}
	arm := slices.IndexFunc(o.arms, func(x experiment.Arm) bool { return x.Name == a.Arm })
	if arm < 0 {
		arm = len(o.arms)
		o.arms = append(o.arms, experiment.Arm{Name: a.Arm, Share: a.Probability})
	}
	x, ok := u.unit(row, arm, r)
	if !ok || !same(o.arms[arm].Share, a.Probability) || u.Experiment.ByUser && !u.Experiment.Never() &&
		experiment.PeriodOf(r.Decision.Began, u.Experiment.Period) != x.period {
		o.unfit = true
	}
	if a.Fallback {
		o.until = min(o.until, r.Time)
		return false
	}
	o.all = append(o.all, x)
	return true
}

// compareShares adds lifts by share to the arms, and refuses those whose lifts differ.
func (u *Units) compareShares(r *Report, looks []look, outcomes []joinedlog.Outcome, end event.Millis) {
	var earlier [][]look
	var runs []*Units
	for _, number := range slices.Sorted(maps.Keys(u.others)) {
		if run, why := u.otherUnits(number); run == nil {
			r.Notes = append(r.Notes, fmt.Sprintf("run %d is left out: %s", number, why))
		} else {
			past, _ := run.looks(outcomes, min(end, u.others[number].until))
			runs, earlier = append(runs, run), append(earlier, past)
		}
	}
	shares := 0
	for arm := range r.Arms {
		a := &r.Arms[arm]
		if a.Control {
			continue
		}
		var all []experiment.RunTotals
		for k, run := range runs {
			all = append(all, experiment.RunTotals{Experiment: run.Experiment, Totals: run.totals(earlier[k])})
		}
		all = append(all, experiment.RunTotals{Experiment: u.Experiment, Totals: u.totals(u.before(arm, looks))})
		slices.SortFunc(all, func(a, b experiment.RunTotals) int { return cmp.Compare(a.Run, b.Run) })
		var differ bool
		a.Shares, differ = experiment.AtShares(a.Arm, all)
		shares = max(shares, len(a.Shares))
		if differ {
			a.Verdict, a.Lower, a.Upper, a.Looks, a.Outlook = experiment.Refused.String(), nil, nil, nil, nil
			a.Why = "lifts at different shares differ: with learning: shared, arms change each other's data"
		}
	}
	if shares < 2 {
		r.Notes = append(r.Notes, "arms have shared learning, and had one share each in this log: at another share the lift may have another sign")
	}
}

// otherUnits returns the units of another run, or the reason why it cannot be compared.
func (u *Units) otherUnits(number int32) (run *Units, why string) {
	o, s := u.others[number], u.Experiment.Settings
	s.Run, s.Arms = number, o.arms
	e, err := experiment.New(s)
	switch {
	case o.unfit:
		return nil, "its units or shares are not of one kind"
	case err != nil:
		return nil, err.Error()
	}
	settings := *u.Options
	settings.Experiment = e
	run = NewUnits(&settings)
	for _, x := range o.all {
		x.arm = int16(e.Index(o.arms[x.arm].Name))
		run.all = append(run.all, x)
	}
	return run, ""
}

// same reports whether two recorded shares are equal.
func same(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

// DescribeShares returns an arm's lifts by share, for people.
func (a *Arm) DescribeShares() (lines []string) {
	if len(a.Shares) < 2 {
		return nil
	}
	for _, s := range a.Shares {
		lines = append(lines, fmt.Sprintf("%s with %.4g %% of its own and the control's units (run %s): %+.4f, within [%+.4f, %+.4f], of %s units", a.Arm,
			100*s.Share, strings.Trim(fmt.Sprint(s.Runs), "[]"), s.Lift, s.Lower, s.Upper, config.Grouped(s.Units)))
	}
	return lines
}
