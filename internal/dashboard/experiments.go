package dashboard

import (
	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Arm is an arm of an experiment, as reported by the owner of the deciding partition. Payoffs are in the payoffs' own unit.
type Arm struct {
	Experiment string  `json:"experiment"`
	Run        int32   `json:"run"`
	Arm        string  `json:"arm"`
	Control    bool    `json:"control,omitempty"` // without a lift
	Policy     string  `json:"policy"`
	Share      float64 `json:"share"`                // of units, as configured
	OffShares  bool    `json:"off_shares,omitempty"` // the units of the arm and the control do not fit their shares
	Units      int64   `json:"units"`                // past their deadline
	Payoff     float64 `json:"payoff"`               // their mean
	Lift       float64 `json:"lift"`                 // over the control
	Lower      float64 `json:"lower"`                // bounds that hold at any look
	Upper      float64 `json:"upper"`
	Verdict    string  `json:"verdict"`         // better, worse, open, refused; or out of service
	Why        string  `json:"why,omitempty"`   // reason of a refusal
	FirstAt    int64   `json:"first,omitempty"` // without units, when the first will count, by the worker's clock; 0: not known
	// AnyAge compares by units of any age; nil without any.
	AnyAge *AnyAge `json:"any_age,omitempty"`
}

// AnyAge compares an arm with the control by units of any age.
type AnyAge struct {
	Units    int64    `json:"units"` // of both
	SoFar    float64  `json:"so_far"`
	SoFarIs  string   `json:"so_far_is"` // ahead, behind or open; empty where it is not known
	SoFarWhy string   `json:"so_far_why,omitempty"`
	End      float64  `json:"end"`               // the lift at the horizon, about
	AtLeast  float64  `json:"at_least"`          // its lower bound
	AtMost   *float64 `json:"at_most,omitempty"` // its upper bound; nil while there is none
	EndIs    string   `json:"end_is"`            // better, worse, open or refused
	EndWhy   string   `json:"end_why,omitempty"`
	KnownAt  int64    `json:"known,omitempty"` // when the first deadlines pass, by event time; 0 if they have
	Timing   string   `json:"timing,omitempty"`
	// Explained is the share of the variance of End that covariates take away. BreakEven is the multiple of the control's later payoffs that the
	// arm needs to draw level, 0 if not above 1.
	Explained float64              `json:"explained,omitempty"`
	BreakEven float64              `json:"break_even,omitempty"`
	Forecast  *experiment.Forecast `json:"forecast,omitempty"` // no proof; nil: not known
}

const mostArms = 24

const outOfService = "out of service"

// addExperiments adds the experiments of the deciding partition, whose arms are learners.
func (s *Summary) addExperiments(all []partition.ExperimentStatus, learners map[string]*Learner) {
	for i := range all {
		x := &all[i]
		if !x.Decides {
			continue
		}
		counted := int64(0)
		for k := range x.Arms {
			counted += x.Arms[k].Units
		}
		for k := range x.Arms {
			a := &x.Arms[k]
			one := armOf(a, learners[a.Name])
			one.Experiment, one.Run, one.Control = clipName(x.Name), x.Run, a.Name == x.Control
			if one.Control {
				one.Lift, one.Lower, one.Upper, one.Verdict = 0, 0, 0, ""
			}
			if a.Tripped {
				one.Verdict = outOfService
			}
			if !one.Control && a.Outlook.Units > 0 && !a.Tripped {
				one.AnyAge = anyAge(a, learners[a.Name])
				if a.Outlook.Due == 0 {
					one.AnyAge.KnownAt = x.FirstDue
				}
			}
			if counted == 0 {
				one.FirstAt = x.Next
			}
			s.Arms = append(s.Arms, one)
		}
	}
	s.Arms = first(s.Arms, mostArms)
}

func armOf(a *partition.ArmStatus, l *Learner) Arm {
	payoffs, policy := [2]float64{0, 1}, ""
	if l != nil {
		payoffs, policy = l.PayoffRange, l.Policy
	}
	width := payoffs[1] - payoffs[0]
	return Arm{Arm: clipName(a.Name), Policy: policy, Share: a.Share, OffShares: a.OffShares, Units: a.Units, Payoff: scaled(a.Mean, payoffs),
		Lift: width * a.Lift.Estimate, Lower: width * a.Lift.Lower, Upper: width * a.Lift.Upper, Verdict: a.Lift.Verdict.String(),
		Why: clip(a.Lift.Why, wordsRunes)}
}

func anyAge(a *partition.ArmStatus, l *Learner) *AnyAge {
	width, o := 1.0, &a.Outlook
	if l != nil {
		width = l.PayoffRange[1] - l.PayoffRange[0]
	}
	x := &AnyAge{Units: o.Units, SoFar: width * o.SoFar.Estimate, SoFarIs: o.Ahead(), SoFarWhy: o.SoFarWhy, End: width * o.End.Estimate,
		AtLeast: width * o.End.Lower, EndIs: o.End.Verdict.String(), EndWhy: clip(o.End.Why, wordsRunes), Timing: o.Timing.String(),
		Explained: o.End.Explained, BreakEven: o.End.BreakEven, Forecast: o.End.Forecast}
	if o.End.Upper < 1 {
		x.AtMost = new(width * o.End.Upper)
	}
	return x
}

// Lifts are the lifts of experiments' arms since the worker began. Lists are as long as Times; null where an arm was not reported.
type Lifts struct {
	Times []int64   `json:"times"` // milliseconds since 1970
	Arms  []ArmPast `json:"arms"`
}

// ArmPast is one arm's lift over time.
type ArmPast struct {
	Experiment string     `json:"experiment"`
	Run        int32      `json:"run"`
	Arm        string     `json:"arm"`
	Lift       []*float64 `json:"lift"`
	Lower      []*float64 `json:"lower"`
	Upper      []*float64 `json:"upper"`
}

// liftPoint holds the arms that have a lift at one time.
type liftPoint struct {
	at   int64
	arms []Arm
}

// lifted returns the arms with a lift and bounds.
func lifted(arms []Arm) (all []Arm) {
	for _, a := range arms {
		if !a.Control && a.Units > 0 && a.Verdict != "refused" {
			all = append(all, a)
		}
	}
	return all
}

// liftsOf makes the series of all arms.
func liftsOf(points []liftPoint) Lifts {
	out := Lifts{Times: make([]int64, len(points)), Arms: []ArmPast{}}
	for at := range points {
		out.Times[at] = points[at].at
		for _, a := range points[at].arms {
			s := out.armOf(&a)
			s.Lift[at], s.Lower[at], s.Upper[at] = rounded(a.Lift), rounded(a.Lower), rounded(a.Upper)
		}
	}
	return out
}

// armOf returns the series of an arm, a new one at its first point.
func (l *Lifts) armOf(a *Arm) *ArmPast {
	for k := range l.Arms {
		if s := &l.Arms[k]; s.Experiment == a.Experiment && s.Run == a.Run && s.Arm == a.Arm {
			return s
		}
	}
	n := len(l.Times)
	l.Arms = append(l.Arms, ArmPast{Experiment: a.Experiment, Run: a.Run, Arm: a.Arm,
		Lift: make([]*float64, n), Lower: make([]*float64, n), Upper: make([]*float64, n)})
	return &l.Arms[len(l.Arms)-1]
}
