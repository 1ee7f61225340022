package admin

import (
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// FeatureReport is the expected change of a payoff as a feature goes from the middle of its range to its end, in payoff ranges.
type FeatureReport struct {
	Feature string  `json:"feature"` // "intercept" is the payoff at the middle of all
	Effect  float64 `json:"effect"`
	SD      float64 `json:"sd"` // its standard deviation
}

func reportFeatures(all []delay.Coefficient) (r []FeatureReport) {
	for _, c := range all {
		r = append(r, FeatureReport{c.Name, c.Value, c.SD})
	}
	return r
}

// DeviationReport is the spread of payoffs by one cause, in payoff ranges.
type DeviationReport struct {
	Level string  `json:"level"` // payoff: by chance, of one item in one context; or features, category, item or cell
	SD    float64 `json:"sd"`    // in standard deviations
}

// reportDeviations returns nil for a learner without a context.
func reportDeviations(s *delay.ContextualStatus) (r []DeviationReport) {
	for cause, sd := range s.Deviations {
		if s.Known && sd >= 0 {
			r = append(r, DeviationReport{delay.Cause(cause).String(), sd})
		}
	}
	return r
}

// DivisionReport says how finely a learner divides the clock and items' ages, and since when payoffs count.
type DivisionReport struct {
	Groups []GroupsReport `json:"groups,omitempty"`
	Since  string         `json:"since,omitempty"` // RFC 3339: selections that began from then on count; empty: all
}

// GroupsReport is the number of groups of the day ("hour"), the week ("weekday") or items' ages ("age").
type GroupsReport struct {
	Of string `json:"of"`
	N  int    `json:"groups"`
}

// reportDivision returns nil for a learner without a context.
func reportDivision(s *delay.ContextualStatus) *DivisionReport {
	if !s.Known {
		return nil
	}
	r := &DivisionReport{}
	for _, g := range s.Groups {
		r.Groups = append(r.Groups, GroupsReport(g))
	}
	if s.Since != 0 {
		r.Since = time.UnixMilli(s.Since).UTC().Format(time.RFC3339)
	}
	return r
}

// AddReport is one summand of a candidate's expected payoff, in payoff ranges.
type AddReport struct {
	Level   string  `json:"level"`             // features, category, item or cell
	Feature string  `json:"feature,omitempty"` // of a feature; "intercept" is the payoff at the middle of all
	Group   string  `json:"group,omitempty"`   // of a cell: its hours and days, if the learner divides the clock
	Adds    float64 `json:"adds"`
}

func reportParts(parts []delay.Contribution) (r []AddReport) {
	for _, p := range parts {
		r = append(r, AddReport{p.Cause.String(), p.Feature, p.Group, p.Adds})
	}
	return r
}

// ExperimentReport sums an experiment over the partitions inspected. Payoffs are in payoff ranges.
type ExperimentReport struct {
	Experiment string      `json:"experiment"`
	Run        int32       `json:"run"`
	Control    string      `json:"control"`
	By         string      `json:"by"`
	Counted    string      `json:"counted"` // deadline up to which units count, in the slowest partition; RFC 3339; empty: none yet
	Arms       []ArmReport `json:"arms"`
}

type ArmReport struct {
	Arm          string  `json:"arm"`
	Units        int64   `json:"units"`
	Payoff       float64 `json:"payoff"`         // mean of its units
	OutOfService bool    `json:"out_of_service"` // by a guard; the fields below are then as of that moment
	Lift         float64 `json:"lift"`           // over the control; the rest is 0 for the control
	Lower        float64 `json:"lower"`          // bounds that hold at any look
	Upper        float64 `json:"upper"`
	Verdict      string  `json:"verdict"` // better, worse, open or refused; empty for the control
}

func experimentReports(views []*view) []ExperimentReport {
	var all []ExperimentReport
	var totals []experiment.Totals
	var walked []int64
	for n, v := range views {
		for i, x := range v.machine.Experiments() {
			if n == 0 {
				by := "impression"
				if x.Of.ByUser {
					by = "user"
				}
				all = append(all, ExperimentReport{Experiment: x.Name, Run: x.Run, Control: x.Control, By: by, Arms: make([]ArmReport, len(x.Arms))})
				totals, walked = append(totals, make(experiment.Totals, len(x.Arms))), append(walked, x.Walked)
			}
			totals[i].Add(x.Own)
			walked[i] = min(walked[i], x.Walked)
			for k, a := range x.Arms {
				r := &all[i].Arms[k]
				r.Arm = a.Name
				if a.Tripped && !r.OutOfService {
					r.OutOfService = true
					r.set(a.Lift)
				}
			}
		}
	}
	for i := range all {
		if walked[i] > 0 {
			all[i].Counted = time.UnixMilli(walked[i]).UTC().Format(time.RFC3339)
		}
		of := views[0].machine.Experiments()[i].Of
		for k := range all[i].Arms {
			r := &all[i].Arms[k]
			r.Units, r.Payoff = totals[i][k].N, totals[i][k].Mean()
			if k != of.ControlArm() && !r.OutOfService {
				r.set(of.Lift(k, totals[i]))
			}
		}
	}
	return all
}

func (r *ArmReport) set(l experiment.Lift) {
	r.Lift, r.Lower, r.Upper, r.Verdict = l.Estimate, l.Lower, l.Upper, l.Verdict.String()
}
