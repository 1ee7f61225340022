package partition

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// trialSums are an experiment's counts of units in a partition. By impression, cohorts are folded into the totals, which add up over
// partitions. By user, a group's impressions are in all partitions: each closes its periods and publishes them. The deciding partition
// folds a period that all have closed, and publishes the totals. The others then drop the period and store these totals, in one checkpoint.
// So a deciding partition that is rolled back finds, in each other partition, the period or totals that include it.
type trialSums struct {
	*experiment.Experiment
	horizon event.Millis
	since   event.Millis // units that began earlier are not counted: this run was not known here
	idle    bool         // a later run has begun: arms are assigned, and nothing is counted

	cohorts *experiment.Cohorts
	totals  experiment.Totals // by user of all partitions up to folded, also where another one decides
	others  experiment.Totals // of all other partitions, in the deciding one

	// Payoffs by age, by user those of each block of groups. Each partition publishes its ended buckets; the deciding one adds them up.
	runOffs    experiment.RunOffs
	theirs     map[lagsOf]string    // texts in othersLags, in the deciding partition
	othersLags experiment.LagTotals // of all other partitions; nil before one is read

	periods map[int64]experiment.Groups // open ones
	past    map[int64]experiment.Groups // closed, and not known to be folded
	closed  int64                       // the last period closed here
	folded  int64                       // the last period known to be folded by the deciding partition

	changed map[trialField]struct{} // since the last seal
}

// lagsOf names the ended buckets of a block of groups in another partition.
type lagsOf struct {
	source int32
	block  int
}

// groupsInBlock is the number of groups in a block: few, so that a checkpoint writes little of a barely changed period.
const groupsInBlock = 32

func newTrialSums(x *experiment.Experiment, horizon event.Millis) trialSums {
	n := len(x.Arms)
	return trialSums{Experiment: x, horizon: horizon, cohorts: experiment.NewCohorts(n, experiment.Width(horizon)), totals: make(experiment.Totals, n),
		others: make(experiment.Totals, n), periods: make(map[int64]experiment.Groups), past: make(map[int64]experiment.Groups),
		closed: noPeriod, folded: noPeriod, runOffs: x.NewRunOffs(horizon), theirs: make(map[lagsOf]string), changed: make(map[trialField]struct{})}
}

func (s *trialSums) mark(kind string, n int64, block int) {
	s.changed[trialField{kind, n, block}] = struct{}{}
}

// counts reports whether an experiment counts an entry. Experiments that never re-assign arms (Never) are compared by the command lift
// alone.
func (s *trialSums) counts(e *entry) bool { return !s.idle && !s.Never() && e.began >= s.since }

func (s *trialSums) count(arm int, e *entry, c experiment.Counts) {
	switch {
	case !s.counts(e):
	case !s.ByUser:
		n := s.cohorts.Number(e.payoffDeadline)
		s.cohorts.Add(n, arm, c)
		s.mark(cohortField, n, 0)
	case e.period > s.closed:
		if s.periods[e.period] == nil {
			s.periods[e.period] = make(experiment.Groups, experiment.GroupCount)
		}
		s.periods[e.period].Add(int(e.group), c)
		s.mark(groupsField, e.period, int(e.group/groupsInBlock))
	}
}

// walked returns the time up to which all units' deadlines are past, if the walk has closed all buckets below floor. A bucket may be as
// wide as 1/256 of the horizon.
func (s *trialSums) walked(floor int64) event.Millis {
	return (floor - (s.horizon/tick+1+widthPart-1)/widthPart - 1) * tick
}

// next returns the event time at which the earliest open cohort or period closes, apart from the granularity of walked; 0 without any.
func (s *trialSums) next() event.Millis {
	if number, ok := s.cohorts.First(); ok {
		return s.cohorts.Ends(number)
	}
	if open := slices.Sorted(maps.Keys(s.periods)); len(open) > 0 {
		return (open[0]+1)*s.Period + s.horizon
	}
	return 0
}

// closeUp folds the cohorts, or closes the periods, that the walk has passed.
func (s *trialSums) closeUp(floor int64) {
	walked := s.walked(floor)
	if s.idle || s.Never() {
		return
	}
	s.endBuckets(walked)
	if !s.ByUser {
		for {
			n, by, ok := s.cohorts.Close(walked)
			if !ok {
				return
			}
			s.totals.Fold(by)
			s.mark(cohortField, n, 0)
			s.mark(totalsField, 0, 0)
		}
	}
	// Its last impression begins just before the next period.
	last := experiment.PeriodOf(walked-s.horizon, s.Period) - 1
	if last <= s.closed {
		return
	}
	s.closed = last
	s.mark(closedField, 0, 0)
	for _, p := range slices.Sorted(maps.Keys(s.periods)) {
		if p <= last {
			if p > s.folded { // else a rollback made it count twice
				s.past[p] = s.periods[p]
				s.mark(pastField, p, 0)
			}
			delete(s.periods, p)
			for b := range experiment.GroupCount / groupsInBlock {
				s.mark(groupsField, p, b)
			}
		}
	}
}

// endBuckets ends the buckets that the walk has passed, of a few blocks: those that are furthest behind. The next steps of the walk end the
// others'. All blocks at once would exceed the bound of a checkpoint's published changes, and be read again whole by all workers. A full
// run-off begins again.
func (s *trialSums) endBuckets(walked event.Millis) {
	for range max(1, armsEnded/len(s.Arms)) {
		block := s.runOffs.Behind()
		ended, any := s.runOffs[block].EndUpTo(walked)
		if !any {
			return
		}
		if s.runOffs[block].Full() {
			ended = append(ended, s.runOffs[block].Restart()...)
		}
		for _, b := range ended {
			s.mark(bucketField, b, block)
		}
		s.mark(lagsField, 0, block)
	}
}

// armsEnded bounds the arms of the blocks whose buckets a step of the walk ends, at up to 2 kB each: several steps may share a checkpoint.
const armsEnded = 32

// foldPeriods folds the periods that all partitions have closed.
func (s *trialSums) foldPeriods(of *pool, self, partitions int32) {
	if !s.ByUser || s.idle || s.Never() {
		return
	}
	least := s.closed
	for source := range partitions {
		if source != self {
			least = min(least, of.closed(source, s.Experiment))
		}
	}
	if least > s.folded {
		s.takeFoldedOf(of) // of a period that others have dropped
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
			of.past(source, s.Experiment, add)
		}
	}
	totals := slices.Clone(s.totals)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		s.Fold(totals, p, all[p])
	}
	s.takeFolded(least, totals)
}

// takeFolded takes over all partitions' totals up to a period, unless it has later ones, and drops the periods in them.
func (s *trialSums) takeFolded(upTo int64, totals experiment.Totals) {
	if upTo <= s.folded {
		return
	}
	s.folded, s.totals = upTo, totals
	s.mark(foldedField, 0, 0)
	for p := range s.past {
		if p <= upTo {
			delete(s.past, p)
			s.mark(pastField, p, 0)
		}
	}
}

// all returns the totals of all partitions in the deciding one, else this one's.
func (s *trialSums) all() experiment.Totals {
	t := slices.Clone(s.totals)
	t.Add(s.others)
	return t
}

// takeFoldedOf takes over the totals that reach furthest. Only the deciding partition folds; it takes its totals back after a rollback.
func (s *trialSums) takeFoldedOf(of *pool) {
	if !s.ByUser {
		return
	}
	for _, source := range of.sources() {
		if folded, totals, err := parseFolded(s.Experiment, of.of[source][s.Name+foldedField]); err == nil {
			s.takeFolded(folded, totals)
		}
	}
}

// load loads a field with sums, and ignores others.
func (s *trialSums) load(name, value string) (err error) {
	f, ok := parseField(name, s.ByUser)
	if _, known := trialKinds[f.kind]; !known {
		return nil
	}
	blocks := len(s.runOffs)
	if f.kind == groupsField {
		blocks = experiment.GroupCount / groupsInBlock
	}
	if !ok || f.block < 0 || f.block >= blocks {
		return fmt.Errorf("%w: there is no such field", errTrial)
	}
	switch f.kind {
	case totalsField:
		s.totals, err = s.ParseTotals(value)
	case foldedField:
		s.folded, s.totals, err = parseFolded(s.Experiment, value)
	case closedField:
		s.closed, err = parsePeriod(s.Experiment, value)
	case pastField:
		s.past[f.n], err = parsePast(s.Experiment, value)
	case groupsField:
		if s.periods[f.n] == nil {
			s.periods[f.n] = make(experiment.Groups, experiment.GroupCount)
		}
		from := f.block * groupsInBlock
		err = s.ParseGroups(value, s.periods[f.n], from, from+groupsInBlock)
	case cohortField:
		by, err := s.ParseCohort(value)
		if err != nil {
			return fmt.Errorf("%w: %w", errTrial, err)
		}
		s.cohorts.Set(f.n, by)
	case lagsField:
		err = s.ParseRunOff(value, s.runOffs[f.block])
	case bucketField:
		err = s.ParseBucket(value, s.runOffs[f.block], f.n)
	}
	return err
}

func (s *trialSums) seal(dst *state.Changes) {
	for _, f := range slices.SortedFunc(maps.Keys(s.changed), trialField.compare) {
		writeTrial(dst, s.Name+f.name(s.ByUser), s.value(f), trialKinds[f.kind].published)
	}
	clear(s.changed)
}

// value returns a field's value; nil if it is to be deleted.
func (s *trialSums) value(f trialField) []byte {
	switch f.kind {
	case totalsField:
		return s.AppendTotals(nil, s.totals)
	case foldedField:
		return appendFolded(nil, s.Experiment, s.folded, s.totals)
	case closedField:
		return appendNumbers(s.Head(nil), s.closed)
	case pastField:
		if groups := s.past[f.n]; groups != nil {
			return s.AppendGroups(nil, groups, 0, experiment.GroupCount)
		}
	case groupsField:
		if groups := s.periods[f.n]; groups != nil {
			from := f.block * groupsInBlock
			return s.AppendGroups(nil, groups, from, from+groupsInBlock)
		}
	case cohortField:
		if by := s.cohorts.Get(f.n); by != nil {
			return s.AppendCohort(nil, by)
		}
	case lagsField:
		return s.AppendRunOff(nil, s.runOffs[f.block])
	case bucketField:
		return s.AppendBucket(nil, s.runOffs[f.block], f.n)
	}
	return nil
}

// enter counts a unit that begins; n is −1 to withdraw it.
func (s *trialSums) enter(arm int, e *entry, n int64) {
	c := experiment.Unit(n, e.z())
	s.count(arm, e, c)
	if r, block := s.lagsFor(e); r != nil {
		bucket, open := r.Enter(arm, e.began, c)
		s.markLags(block, bucket, open)
	}
}

// lagsFor returns the run-off that counts a unit, and its block; nil if none does.
func (s *trialSums) lagsFor(e *entry) (r *experiment.RunOff, block int) {
	if r, block = s.runOffs.Of(int(e.group)); !s.counts(e) || !r.Counts(e.began) {
		return nil, 0
	}
	return r, block
}

// pay counts an increase of an entry's payoff at a time.
func (s *trialSums) pay(arm int, e *entry, at event.Millis, p experiment.Paid) {
	if r, block := s.lagsFor(e); r != nil && p != (experiment.Paid{}) {
		bucket, open := r.Pay(arm, e.began, at, p)
		s.markLags(block, bucket, open)
	}
}

// markLags marks a block's open bucket as changed, or its ended ones.
func (s *trialSums) markLags(block int, bucket int64, open bool) {
	if open {
		s.mark(bucketField, bucket, block)
	} else {
		s.mark(lagsField, 0, block)
	}
}

// leaveOut withdraws a unit. One that was paid in part, whose learner is gone, leaves payoffs behind: the run-off then begins again.
func (s *trialSums) leaveOut(arm int, e *entry) {
	s.enter(arm, e, -1)
	r, block := s.lagsFor(e)
	if e.count == 0 || r == nil {
		return
	}
	for _, b := range r.Restart() {
		s.mark(bucketField, b, block)
	}
	s.mark(lagsField, 0, block)
}

// readLags reads the run-offs that other partitions have published.
func (s *trialSums) readLags(of *pool, self int32) {
	if s.othersLags == nil {
		s.othersLags = s.NewLagTotals()
	}
	for _, source := range of.sources() {
		for block := range s.runOffs {
			text, key := of.of[source][s.Name+trialField{lagsField, 0, block}.name(s.ByUser)], lagsOf{source, block}
			if source == self || s.theirs[key] == text {
				continue
			}
			totals := s.othersLags.Block(block, len(s.Arms))
			totals.Subtract(s.runOffOf(s.theirs[key]))
			totals.Add(s.runOffOf(text))
			s.theirs[key] = text
		}
	}
}

// runOffOf reads published ended buckets. It returns an empty run-off if they are not of this run.
func (s *trialSums) runOffOf(text string) *experiment.RunOff {
	r := experiment.NewRunOff(len(s.Arms), s.horizon)
	_ = s.ParseRunOff(text, r) // changes nothing if it fails
	return r
}

// allLags returns the totals of all partitions in the deciding one, else this one's.
func (s *trialSums) allLags() experiment.LagTotals {
	t := s.NewLagTotals()
	t.AddAll(s.runOffs)
	t.Merge(s.othersLags)
	return t
}
