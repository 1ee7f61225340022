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

// trials are the experiments of a partition: they assign impressions to arms, count ended units, and compare arms.
type trials struct {
	partition  int32 // its number
	partitions int32
	all        []*trial // as configured
	byName     map[string]*trial
	arms       armTable
	strays     []string // stored fields without an owner, to be deleted
	published  *pool    // by other partitions
	taken      uint64   // the pool's version as of which verdicts and totals were read
	unit       []byte   // scratch: the unit of an experiment by user
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
	unit    []byte // group and period as text, in an experiment by user
}

func newTrials(cfg *Config, learners map[string]*learner) (t trials, err error) {
	t = trials{partition: cfg.Partition, partitions: cfg.Partitions, byName: make(map[string]*trial), published: &pool{}}
	if t.arms.byID = make(map[armID]int32); cfg.Pooled != nil {
		t.published = &cfg.Pooled.trials
	}
	for i := range cfg.Experiments {
		c := &cfg.Experiments[i]
		x := &trial{ExperimentConfig: c}
		if learners[c.Name] == nil || t.byName[c.Name] != nil {
			return t, fmt.Errorf("%w: experiment %q: there is no such learner, or it comes twice", errConfig, c.Name)
		}
		for _, a := range c.Arms {
			l := learners[a.Name]
			if l == nil {
				return t, fmt.Errorf("%w: experiment %q: arm %q is no learner", errConfig, c.Name, a.Name)
			}
			x.arms = append(x.arms, trialArm{learner: l})
			x.horizon, x.longest = l.cfg.PayoffHorizon, max(x.longest, len(a.Name))
		}
		if c.To != "" && c.Index(c.To) < 0 {
			return t, fmt.Errorf("%w: experiment %q: %q is none of its arms", errConfig, c.Name, c.To)
		}
		if err := x.readers(learners); err != nil {
			return t, fmt.Errorf("%w: experiment %q: arms or shadows cannot decide by its control's statistics", err, c.Name)
		}
		x.sums = newTrialSums(x)
		t.all, t.byName[c.Name] = append(t.all, x), x
		learners[c.Name].trial = x
	}
	return t, nil
}

// give returns the learner that ranks an impression: an arm of its learner's experiment, the control outside of it, or the learner itself.
func (t *trials) give(l *learner, imp *event.Impression, began event.Millis) (by *learner, g assignment) {
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
		t.unit = experiment.AppendUnit(t.unit[:0], int(g.group), g.period, x.Period != 0)
		g.unit, g.arm = t.unit, x.Arm(t.unit)
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

// write writes the assignment into a decision. A verdict is written once.
func (g *assignment) write(d *event.Decision) {
	x := g.trial
	if g.outside != nil {
		g.outside.outside++
	}
	if x == nil {
		return // no assignment to write
	}
	a := &x.arms[g.arm]
	d.Assignment = event.Assignment{Experiment: x.Name, Run: x.Run, Arm: a.learner.name, Probability: x.Arms[g.arm].Share,
		Unit: g.unit, Fallback: g.served != g.arm}
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

// enrol makes an entry that has just begun a unit of its arm, unless another arm ranked it.
func (g *assignment) enrol(e *entry) {
	if g.trial == nil || g.served != g.arm {
		return
	}
	e.arm, e.group, e.period = g.trial.arms[g.arm].number, g.group, g.period
	g.trial.count(g.arm, e, experiment.Unit)
}

// enrolAdopted makes an entry the unit that the log says.
func (t *trials) enrolAdopted(e *entry, r *event.Ranking) {
	a := &r.Decision.Assignment
	if a.Experiment == "" {
		return
	}
	x := t.byName[a.Experiment]
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
	e.arm = t.arms.number(armID{a.Experiment, a.Run, a.Arm})
	if x, k := t.unitOf(e); x != nil {
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

func (t *trials) unitOf(e *entry) (x *trial, arm int) {
	if e.arm == noArm || int(e.arm) >= len(t.arms.all) {
		return nil, 0
	}
	id := &t.arms.all[e.arm]
	x = t.byName[id.experiment]
	if x == nil || x.idle || x.Run != id.run {
		return nil, 0
	}
	if arm = x.Index(id.arm); arm < 0 {
		return nil, 0
	}
	return x, arm
}

// ended counts the worth of an entry that ends, in payoff ranges. Entries of learners that are gone are not counted.
func (t *trials) ended(e *entry, l *learner, worth float64) {
	x, arm := t.unitOf(e)
	switch {
	case x == nil:
	case l.gone:
		t.leaveOut(e)
	default:
		x.count(arm, e, experiment.Of(worth))
	}
}

func (t *trials) leaveOut(e *entry) {
	if x, arm := t.unitOf(e); x != nil {
		x.count(arm, e, experiment.Counts{N: -1})
	}
	e.arm = noArm
}

// worthUnpaid returns the worth of an entry that ends without a payoff, in payoff ranges.
func (t *trials) worthUnpaid(e *entry, l *learner) float64 {
	x, _ := t.unitOf(e)
	if x == nil || l.gone {
		return 0
	}
	raw := 0.0
	if e.selected >= 0 {
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

// status returns the status of the experiments, in the order of the configuration, if the walk has closed all buckets below floor.
func (t *trials) status(floor int64) (all []ExperimentStatus) {
	for _, x := range t.all {
		s := ExperimentStatus{Name: x.Name, Control: x.Control, Run: x.Run, Outside: x.outside, Decides: t.partition == deciding && !x.idle,
			Walked: x.walked(floor)}
		totals := x.sums.all()
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
