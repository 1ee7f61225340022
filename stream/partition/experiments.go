package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// ErrExperiment means that an experiment is configured otherwise than when its stored run began.
var ErrExperiment = errors.New("partition: experiment does not fit the stored state")

// ExperimentConfig is an experiment on the impressions of the learner with its name. Its arms are learners.
type ExperimentConfig struct {
	*experiment.Experiment
	// Definition is a text of all settings that only a new run may change. It must match the stored one.
	Definition string
	Unpaid     float64 // payoff assumed for a selection that was never paid, in raw units
	Guarded    bool
	Margin     float64 // of the guard, in payoff ranges
	To         string  // the arm that ranks in place of one out of service; without a guard, the control
	// Shared arms decide by the statistics of the control, which is fed all payoffs. Policies are theirs then, in the order of Arms.
	Shared   bool
	Policies []policy.Policy
	Shadows  []ShadowConfig // decide by the control's statistics
}

// ExperimentVerdict is a guard's decision about an arm.
type ExperimentVerdict struct {
	Experiment, Arm string
	Run             int32
	Units           int64 // of the arm and the control together
	Lower, Upper    float64
}

type trials struct {
	all    []*trial // as configured
	byName map[string]*trial
	arms   armTable
	strays []string // stored fields without an owner, to be deleted
	others pool     // published by other partitions; used if the process has no PooledState
	taken  uint64   // the pool's version as of which verdicts and totals were read
}

type trial struct {
	*ExperimentConfig
	arms    []trialArm // as in Experiment.Arms
	horizon event.Millis
	since   event.Millis // units that began earlier are not counted: this run was not known here
	idle    bool         // a later run has begun: arms are assigned, and nothing is counted
	changed bool         // the run's beginning changed since the last seal
	longest int          // length of the longest arm's name
	shadows []shadow
	// longestShadows is the length of all shadows' names together.
	longestShadows int
	sums           trialSums

	outside int64 // impressions without a user, since the state was loaded
}

type trialArm struct {
	learner  *learner
	number   int32 // in the table of arms
	verdict  verdictOf
	ranked   int64 // impressions assigned to it and ranked by it, since the state was loaded
	fallback int64 // impressions assigned to it and ranked by another arm
}

type verdictOf struct {
	tripped      bool
	said         bool // a ranking of this partition carries it
	changed      bool // since the last seal
	units        int64
	lower, upper float64
}

type assignment struct {
	trial   *trial // nil: none
	outside *trial // the experiment that leaves the impression out, because it names no user
	arm     int
	served  int // the arm that ranks it
	group   int32
	period  int64
}

func (m *Machine) newTrials() error {
	t := &m.trials
	t.byName, t.arms.byID = make(map[string]*trial), make(map[armID]int32)
	for i := range m.cfg.Experiments {
		c := &m.cfg.Experiments[i]
		x := &trial{ExperimentConfig: c}
		if m.byName[c.Name] == nil || t.byName[c.Name] != nil {
			return fmt.Errorf("%w: experiment %q: there is no such learner, or it comes twice", errConfig, c.Name)
		}
		for _, a := range c.Arms {
			l := m.byName[a.Name]
			if l == nil {
				return fmt.Errorf("%w: experiment %q: arm %q is no learner", errConfig, c.Name, a.Name)
			}
			x.arms = append(x.arms, trialArm{learner: l})
			x.horizon, x.longest = l.cfg.PayoffHorizon, max(x.longest, len(a.Name))
		}
		if c.To != "" && c.Index(c.To) < 0 {
			return fmt.Errorf("%w: experiment %q: %q is none of its arms", errConfig, c.Name, c.To)
		}
		if err := m.readers(x); err != nil {
			return fmt.Errorf("%w: experiment %q: arms or shadows cannot decide by its control's statistics", err, c.Name)
		}
		x.sums = newTrialSums(x)
		t.all, t.byName[c.Name] = append(t.all, x), x
		m.byName[c.Name].trial = x
	}
	return nil
}

// give returns the learner that ranks an impression: an arm of its learner's experiment, the control outside of it, or the learner itself.
func (m *Machine) give(l *learner, imp *event.Impression, began event.Millis) (by *learner, g assignment) {
	x := l.trial
	if x == nil {
		return l, g
	}
	g.trial = x
	if !x.ByUser {
		g.arm = x.Arm(imp.ID)
	} else {
		if len(imp.User) == 0 {
			return x.arms[x.ControlArm()].learner, assignment{outside: x}
		}
		g.group, g.period = int32(experiment.GroupOf(imp.User)), experiment.PeriodOf(began, x.Period)
		m.scratch.unit = experiment.AppendUnit(m.scratch.unit[:0], int(g.group), g.period, x.Period != 0)
		g.arm = x.Arm(m.scratch.unit)
	}
	if g.served = x.serves(g.arm); x.Shared {
		return x.knowing(), g
	}
	return x.arms[g.served].learner, g
}

// serves returns the arm that ranks for an arm: itself, unless it is out of service.
func (x *trial) serves(arm int) int {
	if !x.arms[arm].verdict.tripped {
		return arm
	}
	if to := x.Index(x.To); to >= 0 && !x.arms[to].verdict.tripped {
		return to
	}
	return x.ControlArm()
}

// assignment writes the assignment into a decision. A verdict is written once.
func (g *assignment) assignment(m *Machine, d *event.Decision) {
	x := g.trial
	if g.outside != nil {
		g.outside.outside++
	}
	if x == nil {
		return // no assignment to write
	}
	a := &x.arms[g.arm]
	d.Assignment = event.Assignment{Experiment: x.Name, Run: x.Run, Arm: a.learner.name, Probability: x.Arms[g.arm].Share,
		Fallback: g.served != g.arm}
	if x.ByUser {
		d.Assignment.Unit = m.scratch.unit
	}
	for k := range x.arms {
		if v := &x.arms[k].verdict; v.tripped && !v.said {
			v.said, v.changed = true, true
			d.Verdict = event.Verdict{Run: x.Run, Arm: x.arms[k].learner.name, Units: v.units, Lower: v.lower, Upper: v.upper}
			break
		}
	}
	if g.served == g.arm {
		a.ranked++
	} else {
		a.fallback++
	}
}

// enrol makes the current entry, which has just begun, a unit of its arm, unless another arm ranked it.
func (m *Machine) enrol(g *assignment) {
	if g.trial == nil || g.served != g.arm {
		return
	}
	e := &m.cur.entry
	e.arm, e.group, e.period = g.trial.arms[g.arm].number, g.group, g.period
	g.trial.count(g.arm, e, experiment.Unit)
}

// enrolAdopted makes the current entry the unit that the log says.
func (m *Machine) enrolAdopted(r *event.Ranking) {
	a := &r.Decision.Assignment
	if a.Experiment == "" {
		return
	}
	x := m.trials.byName[a.Experiment]
	if v := &r.Decision.Verdict; v.Arm != "" && x != nil && x.Run == v.Run && !x.idle {
		if k := x.Index(v.Arm); k >= 0 {
			of := &x.arms[k].verdict
			of.take(&verdictOf{units: v.Units, lower: v.Lower, upper: v.Upper})
			of.said, of.changed = true, true // the store may have it as not written yet
		}
	}
	if a.Fallback {
		return
	}
	e := &m.cur.entry
	if len(a.Unit) > 0 {
		group, period, _, ok := experiment.ParseUnit(string(a.Unit))
		if !ok {
			return
		}
		e.group, e.period = int32(group), period
	}
	if strings.ContainsFunc(a.Experiment+a.Arm, unicode.IsSpace) { // it was not in any configuration
		return
	}
	e.arm = m.trials.arms.number(armID{a.Experiment, a.Run, a.Arm})
	if x, k := m.unitOf(e); x != nil {
		x.count(k, e, experiment.Unit)
	}
}

// take copies a verdict, unless there is one already.
func (v *verdictOf) take(o *verdictOf) {
	if !v.tripped {
		*v = *o
		v.tripped, v.said, v.changed = true, false, true
	}
}

func (m *Machine) unitOf(e *entry) (x *trial, arm int) {
	if e.arm == noArm || int(e.arm) >= len(m.trials.arms.all) {
		return nil, 0
	}
	id := &m.trials.arms.all[e.arm]
	x = m.trials.byName[id.experiment]
	if x == nil || x.idle || x.Run != id.run {
		return nil, 0
	}
	if arm = x.Index(id.arm); arm < 0 {
		return nil, 0
	}
	return x, arm
}

// unitEnded counts the worth of the current entry, which ends, in payoff ranges. Entries of learners that are gone are not counted.
func (m *Machine) unitEnded(worth float64) {
	e := &m.cur.entry
	x, arm := m.unitOf(e)
	switch {
	case x == nil:
	case m.learners[e.learner].gone:
		m.leaveOut()
	default:
		x.count(arm, e, experiment.Of(worth))
	}
}

func (m *Machine) leaveOut() {
	e := &m.cur.entry
	if x, arm := m.unitOf(e); x != nil {
		x.count(arm, e, experiment.Counts{N: -1})
	}
	e.arm = noArm
}

func (m *Machine) worthOf(how outcome) float64 {
	e := &m.cur.entry
	x, _ := m.unitOf(e)
	l := m.learners[e.learner]
	if x == nil || l.gone {
		return 0
	}
	raw := 0.0
	if how != unselected && e.selected >= 0 {
		raw = x.Unpaid
	}
	r, _ := l.normalise(raw)
	return r
}

// ExperimentStatus is an experiment's status for people and metrics.
type ExperimentStatus struct {
	Name, Control string
	Run           int32
	Arms          []ArmStatus
	Outside       int64 // impressions without a user, since the state was loaded
	// Decides is true in the partition that compares the totals of all partitions and runs the guard.
	Decides bool
	// Walked is the time up to which deadlines are counted.
	Walked event.Millis
}

// ArmStatus is an arm's status.
type ArmStatus struct {
	Name             string
	Ranked, Fallback int64 // impressions since the state was loaded
	Tripped          bool  // out of service
	// Lift compares with the control over all partitions; for an arm out of service, when it was taken out. The control has none. Mean is
	// the mean payoff of its units, in payoff ranges.
	Lift  experiment.Lift
	Units int64
	Mean  float64
}

// Experiments returns the status of the experiments, in the order of the configuration.
func (m *Machine) Experiments() []ExperimentStatus {
	m.show()
	var all []ExperimentStatus
	for _, x := range m.trials.all {
		s := ExperimentStatus{Name: x.Name, Control: x.Control, Run: x.Run, Outside: x.outside, Decides: m.cfg.Partition == deciding && !x.idle,
			Walked: x.walked(m.expiry.floor)}
		totals := m.totalsOf(x)
		for k := range x.arms {
			a := &x.arms[k]
			st := ArmStatus{Name: a.learner.name, Ranked: a.ranked, Fallback: a.fallback, Tripped: a.verdict.tripped, Units: totals[k].N,
				Mean: totals[k].Mean()}
			if k != x.ControlArm() && s.Decides {
				st.Lift = x.Lift(k, totals)
			}
			if v := &a.verdict; v.tripped {
				st.Lift.Units, st.Lift.Lower, st.Lift.Upper, st.Lift.Verdict = v.units, v.lower, v.upper, experiment.Worse
				st.Lift.Estimate = (v.lower + v.upper) / 2
			}
			s.Arms = append(s.Arms, st)
		}
		all = append(all, s)
	}
	return all
}

type armID struct {
	experiment string
	run        int32
	arm        string
}

// armTable numbers arms for entries. A number is never reused.
type armTable struct {
	all     []armID
	byID    map[armID]int32
	changed bool
}

// number returns an arm's number, a new one if it has none.
func (t *armTable) number(id armID) int32 {
	n, ok := t.byID[id]
	if !ok {
		n = int32(len(t.all))
		t.all, t.byID[id], t.changed = append(t.all, id), n, true
	}
	return n
}

// noArm marks an entry that is not a unit of an experiment.
const noArm int32 = -1

// deciding is the number of the partition that runs the guards.
const deciding int32 = 0

func ascending[V any](of map[int64]V) []int64 {
	keys := make([]int64, 0, len(of))
	for k := range of {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
