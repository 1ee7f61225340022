package dashboard

import (
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Arm is an arm of an experiment, as reported by the owner of the deciding partition. Payoffs are in payoff ranges.
type Arm struct {
	Experiment string  `json:"experiment"`
	Run        int32   `json:"run"`
	Arm        string  `json:"arm"`
	Control    bool    `json:"control,omitempty"` // without a lift
	Units      int64   `json:"units"`             // past their deadline
	Payoff     float64 `json:"payoff"`            // their mean
	Lift       float64 `json:"lift"`              // over the control
	Lower      float64 `json:"lower"`             // bounds that hold at any look
	Upper      float64 `json:"upper"`
	Verdict    string  `json:"verdict"` // better, worse, open, refused; or out of service
}

const mostArms = 24

const outOfService = "out of service"

// addExperiments adds the experiments of the deciding partition.
func (s *Summary) addExperiments(all []partition.ExperimentStatus) {
	for i := range all {
		x := &all[i]
		if !x.Decides {
			continue
		}
		for k := range x.Arms {
			a, l := &x.Arms[k], &x.Arms[k].Lift
			one := Arm{Experiment: clip(x.Name, nameRunes), Run: x.Run, Arm: clip(a.Name, nameRunes), Control: a.Name == x.Control, Units: a.Units,
				Payoff: a.Mean}
			if !one.Control {
				one.Lift, one.Lower, one.Upper, one.Verdict = l.Estimate, l.Lower, l.Upper, l.Verdict.String()
			}
			if a.Tripped {
				one.Verdict = outOfService
			}
			s.Arms = append(s.Arms, one)
		}
	}
	s.Arms = first(s.Arms, mostArms)
}
