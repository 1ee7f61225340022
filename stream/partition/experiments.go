package partition

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
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
	Margin     float64 // of the guard: share of the control's mean payoff
	To         string  // the arm that ranks in place of one out of service; without a guard, the control
	// Shared arms decide by the statistics of the control, which is fed all payoffs. Policies are theirs then, in the order of Arms.
	Shared   bool
	Policies []policy.Policy
	Shadows  []ShadowConfig // decide by the control's statistics
}

// ShadowConfig is a learner that ranks as an arm would, and is not shown.
type ShadowConfig struct {
	Name   string // of a learner
	Share  float64
	Policy policy.Policy
}

type shadow struct {
	*ShadowConfig
	learner  *learner
	decision delay.Decision
}

// trials are the experiments of a partition: they assign impressions to arms, count ended units, and compare arms.
type trials struct {
	partition  int32 // its number
	partitions int32
	all        []*trial // as configured
	byName     map[string]*trial
	arms       armTable
	strays     state.Changes // of stored fields without an owner
	left       state.Changes // stored runs and verdicts of unconfigured experiments, for a Transfer
	published  *pool         // by other partitions
	taken      uint64        // the pool's version as of which verdicts and totals were read
	unit       []byte        // scratch: the unit of an experiment by user
}

type trial struct {
	*ExperimentConfig
	arms    []trialArm // as in Experiment.Arms
	changed bool       // the run's beginning changed since the last seal
	longest int        // length of the longest arm's name
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

type assignment struct {
	trial   *trial // nil: none
	outside *trial // the experiment that leaves the impression out, because it names no user
	arm     int
	served  int // the arm that ranks it
	group   int32
	period  int64
	unit    []byte // group and period as text, in an experiment by user
	// covariate is the unit's, in units of 10⁻⁶; 0 by user.
	covariate int32
}

func newTrials(all []ExperimentConfig, learners map[string]*learner, partition, partitions int32, published *pool) (t trials, err error) {
	t = trials{partition: partition, partitions: partitions, byName: make(map[string]*trial), published: published}
	t.arms.byID = make(map[armID]int32)
	for i := range all {
		c := &all[i]
		x := &trial{ExperimentConfig: c}
		if learners[c.Name] == nil || t.byName[c.Name] != nil {
			return t, fmt.Errorf("%w: experiment %q: there is no such learner, or it comes twice", errConfig, c.Name)
		}
		var horizon event.Millis
		for _, a := range c.Arms {
			l := learners[a.Name]
			if l == nil {
				return t, fmt.Errorf("%w: experiment %q: arm %q is no learner", errConfig, c.Name, a.Name)
			}
			x.arms = append(x.arms, trialArm{learner: l})
			horizon, x.longest = l.cfg.PayoffHorizon, max(x.longest, len(a.Name))
		}
		if c.To != "" && c.Index(c.To) < 0 {
			return t, fmt.Errorf("%w: experiment %q: %q is none of its arms", errConfig, c.Name, c.To)
		}
		if err := x.readers(learners); err != nil {
			return t, fmt.Errorf("%w: experiment %q: arms or shadows cannot decide by its control's statistics", err, c.Name)
		}
		x.sums = newTrialSums(c.Experiment, horizon)
		t.all, t.byName[c.Name] = append(t.all, x), x
	}
	return t, nil
}

// give returns the learner that ranks an impression: an arm of its learner's experiment, the control outside of it, or the learner itself.
func (t *trials) give(l *learner, imp *event.Impression, began event.Millis) (by *learner, g assignment) {
	if len(t.all) == 0 {
		return l, g
	}
	x := t.byName[l.name]
	if x == nil {
		return l, g
	}
	g.trial = x
	if !x.ByUser {
		g.arm, g.covariate = x.Arm(imp.ID), covariateOf(imp, l)
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

// covariateOf returns a number that predicts an impression's payoff whatever arm ranks it, from 0 to 1, in units of 10⁻⁶. It is the greatest
// prediction of the candidates, in payoff ranges. Without any it is (1 + u/(1+|u|))/2 of the greatest utility u, or 0 without utilities.
func covariateOf(imp *event.Impression, l *learner) int32 {
	best := math.Inf(-1)
	for k := range imp.Context.Candidates {
		if p := imp.Context.Candidates[k].Predicted; p > best { // false for none
			best = p
		}
	}
	z, _ := l.normalise(best)
	if math.IsInf(best, -1) && imp.HasUtilities {
		for k := range imp.Candidates {
			best = max(best, imp.Candidates[k].Utility)
		}
		z = (1 + best/(1+math.Abs(best))) / 2
	}
	return int32(event.Millionths(z))
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
		Unit: g.unit, Fallback: g.served != g.arm, Covariate: g.covariate}
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
	e.unit = unit{g.trial.arms[g.arm].number, g.group, g.period, g.covariate}
	g.trial.sums.enter(g.arm, e, 1)
}

// enrolAdopted makes an entry the unit that the log says.
func (t *trials) enrolAdopted(e *entry, r *event.Ranking) {
	a := &r.Decision.Assignment
	if a.Experiment == "" {
		return
	}
	x := t.byName[a.Experiment]
	if v := &r.Decision.Verdict; v.Arm != "" && x != nil && x.Run == v.Run && !x.sums.idle {
		if k := x.Index(v.Arm); k >= 0 {
			// The store may have it as not written yet. One that went back can have the guard decide once more, on other units.
			x.arms[k].verdict = verdictOf{tripped: true, said: true, changed: true, units: v.Units, lower: v.Lower, upper: v.Upper}
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
	e.arm, e.covariate = t.arms.number(armID{a.Experiment, a.Run, a.Arm}), a.Covariate
	if x, k := t.unitOf(e); x != nil {
		x.sums.enter(k, e, 1)
	}
}

func (t *trials) unitOf(e *entry) (x *trial, arm int) {
	if e.arm == noArm || int(e.arm) >= len(t.arms.all) {
		return nil, 0
	}
	id := &t.arms.all[e.arm]
	x = t.byName[id.experiment]
	if x == nil || x.sums.idle || x.Run != id.run {
		return nil, 0
	}
	if arm = x.Index(id.arm); arm < 0 {
		return nil, 0
	}
	return x, arm
}

// ended counts the worth of an entry that ends at a time, in payoff ranges; paid says that a payoff ends it. Entries of learners that are gone
// are not counted.
func (t *trials) ended(e *entry, l *learner, worth float64, at event.Millis, paid bool) {
	x, arm := t.unitOf(e)
	switch {
	case x == nil:
	case l.gone:
		t.leaveOut(e)
	default:
		x.sums.count(arm, e, experiment.Of(worth, e.z()))
		x.sums.pay(arm, e, at, experiment.PaidInParts(worthSoFar(e, l), worth, e.z(), paid && e.count == 0))
	}
}

func (t *trials) leaveOut(e *entry) {
	if x, arm := t.unitOf(e); x != nil {
		x.sums.leaveOut(arm, e)
	}
	e.arm = noArm
}

// paidPart counts a partial payoff, in an entry's sum already, by the entry's worth before.
func (t *trials) paidPart(e *entry, l *learner, before float64, at event.Millis) {
	if x, arm := t.unitOf(e); x != nil {
		x.sums.pay(arm, e, at, experiment.PaidInParts(before, worthSoFar(e, l), e.z(), true))
	}
}

// worthSoFar returns the worth of an entry's partial payoffs, in payoff ranges; 0 without any.
func worthSoFar(e *entry, l *learner) float64 {
	if e.count == 0 {
		return 0
	}
	r, _ := l.normalise(e.sum)
	return r
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

// deciding is the number of the partition that runs the guards.
const deciding int32 = 0

// readers sets up the policies that use the control's statistics: arms under shared learning, and shadows.
func (x *trial) readers(learners map[string]*learner) error {
	for i := range x.Shadows {
		c := &x.Shadows[i]
		l := learners[c.Name]
		if l == nil {
			return errConfig
		}
		x.shadows, x.longestShadows = append(x.shadows, shadow{ShadowConfig: c, learner: l}), x.longestShadows+len(c.Name)
	}
	if len(x.Shadows) == 0 && !x.Shared {
		return nil
	}
	if _, ok := x.knowing().delay.(delay.Readable); !ok || x.Shared && len(x.Policies) != len(x.arms) {
		return errConfig
	}
	return nil
}

// knowing returns the learner whose statistics the arms share: the control.
func (x *trial) knowing() *learner { return x.arms[x.ControlArm()].learner }

// stateOf returns the learner that is fed the outcome of an adopted decision; nil if it is not known here.
func (t *trials) stateOf(r *event.Ranking, learners map[string]*learner) *learner {
	a := &r.Decision.Assignment
	if x := t.byName[a.Experiment]; x != nil && x.Shared && x.Run == a.Run && x.Index(string(r.Learner)) >= 0 {
		return x.knowing()
	}
	return learners[string(r.Learner)]
}

// decideAs decides with the statistics of l and, under shared learning, the policy of the arm that ranks.
func (g *assignment) decideAs(l *learner, candidates []policy.Item, about *policy.Context, key policy.Key, d *delay.Decision) {
	if x := g.trial; x != nil && x.Shared {
		l.delay.(delay.Readable).DecideBy(x.Policies[g.served], candidates, about, key, d)
		return
	}
	l.delay.Decide(candidates, about, key, d)
}

func (g *assignment) ranks(l *learner) *learner {
	if x := g.trial; x != nil && x.Shared {
		return x.arms[g.served].learner
	}
	return l
}

// walked closes cohorts and periods once the walk has closed all buckets below floor, and compares arms.
func (t *trials) walked(floor int64) {
	for _, x := range t.all {
		x.sums.closeUp(floor)
		if t.partition != deciding || x.sums.idle {
			continue
		}
		x.sums.foldPeriods(t.published, t.partition, t.partitions)
		x.guard()
	}
}

func (x *trial) guard() {
	if !x.Guarded || x.Never() {
		return
	}
	totals, lags := x.sums.all(), x.sums.allLags()
	of := x.knowing().cfg
	nothing := -of.PayoffMin / (of.PayoffMax - of.PayoffMin)
	margin := x.Margin * max(0, totals[x.ControlArm()].Mean()-nothing)
	for k := range x.arms {
		v := &x.arms[k].verdict
		if k == x.ControlArm() || v.tripped || totals[k].N == 0 {
			continue
		}
		l := x.Lift(k, totals)
		if l.Verdict == experiment.Refused { // in the end, too
			continue
		}
		if l.Trips(margin) {
			v.take(&verdictOf{units: l.Units, lower: l.Lower, upper: l.Upper})
		} else if end := x.AtHorizon(k, lags); end.Trips(margin) {
			v.take(&verdictOf{units: l.Units, lower: end.Lower, upper: end.Upper})
		}
	}
}

// takeIn takes in verdicts and totals of folded periods that other partitions have published since the last call; in the deciding
// partition also their totals by impression.
func (t *trials) takeIn() {
	of := t.published
	if len(t.all) == 0 || t.taken == of.version {
		return
	}
	t.taken = of.version
	for _, x := range t.all {
		if x.sums.idle {
			continue
		}
		for _, source := range of.sources() {
			if source == t.partition {
				continue
			}
			for k := range x.arms {
				if v, ok := of.verdict(source, x.Experiment, x.arms[k].learner.name); ok {
					x.arms[k].verdict.take(&v)
				}
			}
		}
		x.sums.takeFoldedOf(of)
		if t.partition != deciding {
			continue
		}
		clear(x.sums.others)
		x.sums.readLags(of, t.partition)
		for _, source := range of.sources() {
			if source != t.partition && !x.ByUser {
				x.sums.others.Add(of.totals(source, x.Experiment))
			}
		}
	}
}
