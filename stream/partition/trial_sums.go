package partition

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// trialSums are an experiment's counts of units in a partition. By impression, cohorts are folded into the totals, which add up over
// partitions. By user, a group's impressions are in all partitions: each closes its periods and publishes them. The deciding partition
// folds a period that all have closed, and publishes the totals. The others then drop the period and store these totals, in one checkpoint.
// So a deciding partition that is rolled back finds, in each other partition, the period or totals that include it.
type trialSums struct {
	cohorts *experiment.Cohorts
	totals  experiment.Totals // by user of all partitions up to folded, also where another one decides
	others  experiment.Totals // of all other partitions, in the deciding one

	periods map[int64]experiment.Groups // open ones
	past    map[int64]experiment.Groups // closed, and not known to be folded
	closed  int64                       // the last period closed here
	folded  int64                       // the last period known to be folded by the deciding partition

	// Changes since the last seal.
	changedCohorts map[int64]bool
	changedBlocks  map[groupBlock]bool
	changedPast    map[int64]bool
	changedTotals  bool
	changedClosed  bool
}

type groupBlock struct {
	period int64
	block  int32
}

// groupsInBlock is the number of groups in a block: few, so that a checkpoint writes little of a barely changed period.
const groupsInBlock = 32

const noPeriod int64 = math.MinInt64

func newTrialSums(x *trial) trialSums {
	n := len(x.Arms)
	return trialSums{cohorts: experiment.NewCohorts(n, experiment.Width(x.horizon)), totals: make(experiment.Totals, n),
		others: make(experiment.Totals, n), periods: make(map[int64]experiment.Groups), past: make(map[int64]experiment.Groups),
		closed: noPeriod, folded: noPeriod, changedCohorts: make(map[int64]bool), changedBlocks: make(map[groupBlock]bool),
		changedPast: make(map[int64]bool)}
}

// counts reports whether an experiment counts an entry. Experiments that never re-assign arms (Never) are compared by the command lift
// alone.
func (x *trial) counts(e *entry) bool { return !x.idle && !x.Never() && e.began >= x.since }

func (x *trial) count(arm int, e *entry, c experiment.Counts) {
	s := &x.sums
	switch {
	case !x.counts(e):
	case !x.ByUser:
		n := s.cohorts.Number(e.payoffDeadline)
		s.cohorts.Add(n, arm, c)
		s.changedCohorts[n] = true
	case e.period > s.closed:
		if s.periods[e.period] == nil {
			s.periods[e.period] = make(experiment.Groups, experiment.GroupCount)
		}
		s.periods[e.period].Add(int(e.group), c)
		s.changedBlocks[groupBlock{e.period, e.group / groupsInBlock}] = true
	}
}

// walked returns the time up to which all units' deadlines are past, if the walk has closed all buckets below floor. A bucket may be as
// wide as 1/256 of the horizon.
func (x *trial) walked(floor int64) event.Millis {
	return (floor - (x.horizon/tick+1+widthPart-1)/widthPart - 1) * tick
}

// closeUp folds the cohorts, or closes the periods, that the walk has passed.
func (x *trial) closeUp(floor int64) {
	s, walked := &x.sums, x.walked(floor)
	if x.idle || x.Never() {
		return
	}
	if !x.ByUser {
		for {
			n, by, ok := s.cohorts.Close(walked)
			if !ok {
				return
			}
			s.totals.Fold(by)
			s.changedCohorts[n], s.changedTotals = true, true
		}
	}
	// Its last impression begins just before the next period.
	last := experiment.PeriodOf(walked-x.horizon, x.Period) - 1
	if last <= s.closed {
		return
	}
	s.closed, s.changedClosed = last, true
	for _, p := range ascending(s.periods) {
		if p <= last {
			if p > s.folded { // else a rollback made it count twice
				s.past[p], s.changedPast[p] = s.periods[p], true
			}
			delete(s.periods, p)
			for b := range int32(experiment.GroupCount / groupsInBlock) {
				s.changedBlocks[groupBlock{p, b}] = true
			}
		}
	}
}

// foldPeriods folds the periods that all partitions have closed.
func (x *trial) foldPeriods(of *pool, self, partitions int32) {
	s := &x.sums
	if !x.ByUser || x.idle || x.Never() {
		return
	}
	least := s.closed
	for source := range partitions {
		if source != self {
			least = min(least, of.closed(source, x))
		}
	}
	if least > s.folded {
		x.takeFoldedOf(of) // of a period that others have dropped
	}
	if least <= s.folded {
		return
	}
	all := make(map[int64]experiment.Groups)
	add := func(period int64, groups experiment.Groups) {
		if period <= s.folded || period > least {
			return
		}
		if all[period] == nil {
			all[period] = make(experiment.Groups, experiment.GroupCount)
		}
		for k, g := range groups {
			all[period][k] = all[period][k].Add(g)
		}
	}
	for p, groups := range s.past {
		add(p, groups)
	}
	for source := range partitions {
		if source != self {
			of.past(source, x, add)
		}
	}
	totals := slices.Clone(s.totals)
	for _, p := range ascending(all) {
		x.Fold(totals, p, all[p])
	}
	s.takeFolded(least, totals)
}

// takeFolded takes over all partitions' totals up to a period, unless it has later ones, and drops the periods in them.
func (s *trialSums) takeFolded(upTo int64, totals experiment.Totals) {
	if upTo <= s.folded {
		return
	}
	s.folded, s.totals, s.changedTotals = upTo, totals, true
	for p := range s.past {
		if p <= upTo {
			delete(s.past, p)
			s.changedPast[p] = true
		}
	}
}

// all returns the totals of all partitions in the deciding one, else this one's.
func (s *trialSums) all() experiment.Totals {
	t := slices.Clone(s.totals)
	t.Add(s.others)
	return t
}

// walked closes cohorts and periods once the walk has closed all buckets below floor, and compares arms.
func (t *trials) walked(floor int64) {
	for _, x := range t.all {
		x.closeUp(floor)
		if t.partition != deciding || x.idle {
			continue
		}
		x.foldPeriods(t.published, t.partition, t.partitions)
		x.guard()
	}
}

// takeFoldedOf takes over the totals that reach furthest. Only the deciding partition folds; it takes its totals back after a rollback.
func (x *trial) takeFoldedOf(of *pool) {
	if !x.ByUser {
		return
	}
	for _, source := range of.sources() {
		if folded, totals, err := parseFolded(x, of.of[source][x.Name+foldedField]); err == nil {
			x.sums.takeFolded(folded, totals)
		}
	}
}

func (x *trial) guard() {
	if !x.Guarded || x.Never() {
		return
	}
	totals := x.sums.all()
	for k := range x.arms {
		v := &x.arms[k].verdict
		if k == x.ControlArm() || v.tripped || totals[k].N == 0 {
			continue
		}
		if l := x.Lift(k, totals); l.Trips(x.Margin) {
			v.take(&verdictOf{units: l.Units, lower: l.Lower, upper: l.Upper})
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
		if x.idle {
			continue
		}
		for _, source := range of.sources() {
			if source == t.partition {
				continue
			}
			for k := range x.arms {
				if v, ok := of.verdict(source, x, k); ok {
					x.arms[k].verdict.take(&v)
				}
			}
		}
		x.takeFoldedOf(of)
		if t.partition != deciding {
			continue
		}
		clear(x.sums.others)
		for _, source := range of.sources() {
			if source != t.partition && !x.ByUser {
				x.sums.others.Add(of.totals(source, x))
			}
		}
	}
}
