package admin

import (
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// DivisionReport says how finely a learner divides the clock and items' ages, and since when payoffs count.
type DivisionReport struct {
	Groups []delay.Groups `json:"groups,omitempty"`
	Since  string         `json:"since,omitempty"` // RFC 3339: selections that began from then on count; empty: all
}

// reportDivision returns nil for a learner without a context.
func reportDivision(s *delay.ContextualStatus) *DivisionReport {
	if !s.Known {
		return nil
	}
	r := &DivisionReport{Groups: s.Groups}
	if s.Since != 0 {
		r.Since = time.UnixMilli(s.Since).UTC().Format(time.RFC3339)
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
