package partition

import (
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// trialSums are what units of an experiment have come to in a partition. By impression cohorts are folded into the totals, which are
// added up over partitions. By user a group's impressions are in all partitions: each partition closes its periods and publishes them. The
// deciding partition folds a period that all have closed, and publishes the totals. Each other partition drops the period and stores these
// totals, in one checkpoint. So a deciding partition that is rolled back finds, of each other partition, the period or totals that have it.
type trialSums struct {
	cohorts *experiment.Cohorts
	totals  experiment.Totals // by user those of all partitions up to folded, also where another one decides
	others  experiment.Totals // of all other partitions, where this one decides

	periods map[int64]experiment.Groups // that are open
	past    map[int64]experiment.Groups // closed, and not folded yet as far as is known
	closed  int64                       // the last period that is closed here
	folded  int64                       // the last that the deciding partition has folded, as far as is known

	// What has changed since the last seal.
	changedCohorts map[int64]bool
	changedBlocks  map[groupBlock]bool
	changedPast    map[int64]bool
	changedTotals  bool
	changedClosed  bool
}

// groupBlock is a part of the groups of an open period, which is stored in one field.
type groupBlock struct {
	period int64
	block  int32
}

// groupsInBlock is how many groups that part has: few enough that a checkpoint writes little of a period of which little has changed.
const groupsInBlock = 32

// noPeriod is before all periods.
const noPeriod int64 = math.MinInt64

func newTrialSums(x *trial) trialSums {
	n := len(x.Arms)
	return trialSums{cohorts: experiment.NewCohorts(n, experiment.Width(x.horizon)), totals: make(experiment.Totals, n),
		others: make(experiment.Totals, n), periods: make(map[int64]experiment.Groups), past: make(map[int64]experiment.Groups),
		closed: noPeriod, folded: noPeriod, changedCohorts: make(map[int64]bool), changedBlocks: make(map[groupBlock]bool),
		changedPast: make(map[int64]bool)}
}

// counts tells whether an experiment counts an entry's unit: those who keep their arm for good are compared by the command lift alone.
func (x *trial) counts(e *entry) bool { return !x.idle && !x.Never() && e.began >= x.since }

// count adds to the sums of an entry's unit.
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

// walked is up to when all units' deadlines have been walked over, where the walk has closed all buckets below floor: a bucket may be as wide
// as a 256th of the horizon.
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
			if p > s.folded { // else it was counted again, after a rollback
				s.past[p], s.changedPast[p] = s.periods[p], true
			}
			delete(s.periods, p)
			for b := range int32(experiment.GroupCount / groupsInBlock) {
				s.changedBlocks[groupBlock{p, b}] = true
			}
		}
	}
}

// foldPeriods folds what all partitions have closed.
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

// takeFolded makes the totals those of all partitions up to a period, unless they reach that far, and drops the periods that they have.
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

// totalsOf are what is known of all partitions together where this one decides, else of this one.
func (m *Machine) totalsOf(x *trial) experiment.Totals {
	t := append(experiment.Totals(nil), x.sums.totals...)
	t.Add(x.sums.others)
	return t
}

// compare closes what the walk has passed, and has guards look.
func (m *Machine) compare() {
	for _, x := range m.trials.all {
		x.closeUp(m.expiry.floor)
		if m.cfg.Partition != deciding || x.idle {
			continue
		}
		x.foldPeriods(m.published(), m.cfg.Partition, m.cfg.Partitions)
		m.guard(x)
	}
}

// takeFoldedOf takes over the totals of the partition whose totals reach furthest. Only the deciding one folds; it takes them back
// itself after a rollback.
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

// guard takes arms out of service that are worse than the control.
func (m *Machine) guard(x *trial) {
	if !x.Guarded || x.Never() {
		return
	}
	totals := m.totalsOf(x)
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

// published is what other partitions have published of their experiments.
func (m *Machine) published() *pool {
	if m.cfg.Pooled != nil {
		return &m.cfg.Pooled.trials
	}
	return &m.trials.others
}

// takeTrials takes in what other partitions have published since the last time: verdicts, and totals of folded periods. Where this
// partition decides, also their totals by impression.
func (m *Machine) takeTrials() {
	of := m.published()
	if len(m.trials.all) == 0 || m.trials.taken == of.version {
		return
	}
	m.trials.taken = of.version
	for _, x := range m.trials.all {
		if x.idle {
			continue
		}
		for _, source := range of.sources() {
			if source == m.cfg.Partition {
				continue
			}
			for k := range x.arms {
				if v, ok := of.verdict(source, x, k); ok {
					x.arms[k].verdict.take(&v)
				}
			}
		}
		x.takeFoldedOf(of)
		if m.cfg.Partition != deciding {
			continue
		}
		clear(x.sums.others)
		for _, source := range of.sources() {
			if source != m.cfg.Partition && !x.ByUser {
				x.sums.others.Add(of.totals(source, x))
			}
		}
	}
}
