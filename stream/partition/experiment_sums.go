package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	lagSums

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

func newTrialSums(x *experiment.Experiment, horizon event.Millis) trialSums {
	n := len(x.Arms)
	return trialSums{Experiment: x, horizon: horizon, cohorts: experiment.NewCohorts(n, experiment.Width(horizon)), totals: make(experiment.Totals, n),
		others: make(experiment.Totals, n), periods: make(map[int64]experiment.Groups), past: make(map[int64]experiment.Groups),
		closed: noPeriod, folded: noPeriod, changedCohorts: make(map[int64]bool), changedBlocks: make(map[groupBlock]bool),
		changedPast: make(map[int64]bool), lagSums: newLagSums(x, horizon)}
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
			s.changedCohorts[n], s.changedTotals = true, true
		}
	}
	// Its last impression begins just before the next period.
	last := experiment.PeriodOf(walked-s.horizon, s.Period) - 1
	if last <= s.closed {
		return
	}
	s.closed, s.changedClosed = last, true
	for _, p := range slices.Sorted(maps.Keys(s.periods)) {
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

func (s *trialSums) load(field, value string) (err error) {
	kind, name := field, ""
	if at := strings.IndexByte(field[1:], ':'); at >= 0 {
		kind, name = field[:at+2], field[at+2:]
	}
	switch kind {
	case totalsField:
		s.totals, err = s.ParseTotals(value)
	case closedField:
		s.closed, err = parsePeriod(s.Experiment, value)
	case foldedField:
		s.folded, s.totals, err = parseFolded(s.Experiment, value)
	case pastField:
		var period int64
		var groups experiment.Groups
		if period, groups, err = parsePast(s.Experiment, name, value); err == nil {
			s.past[period] = groups
		}
	case cohortField:
		err = s.loadCohort(name, value)
	case groupsField:
		err = s.loadGroups(name, value)
	case lagsField, lagsField + ":", bucketField:
		err = s.loadLags(kind, name, value)
	}
	return err
}

func (s *trialSums) loadCohort(name, value string) error {
	number, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", errTrial, err)
	}
	by, err := s.ParseCohort(value)
	if err != nil {
		return fmt.Errorf("%w: %w", errTrial, err)
	}
	s.cohorts.Set(number, by)
	return nil
}

func (s *trialSums) loadGroups(name, value string) error {
	of, part, _ := strings.Cut(name, ":")
	period, err := strconv.ParseInt(of, 10, 64)
	block, err2 := strconv.ParseInt(part, 10, 32)
	if err != nil || err2 != nil || block < 0 || block >= experiment.GroupCount/groupsInBlock {
		return fmt.Errorf("%w: groups %q", errTrial, name)
	}
	if s.periods[period] == nil {
		s.periods[period] = make(experiment.Groups, experiment.GroupCount)
	}
	from := int(block) * groupsInBlock
	return s.ParseGroups(value, s.periods[period], from, from+groupsInBlock)
}

func (s *trialSums) seal(dst *state.Changes) {
	if s.changedTotals && s.ByUser {
		writeTrial(dst, s.Name+foldedField, appendFolded(nil, s.Experiment, s.folded, s.totals), true)
	} else if s.changedTotals {
		writeTrial(dst, s.Name+totalsField, s.AppendTotals(nil, s.totals), true)
	}
	s.changedTotals = false
	for _, n := range slices.Sorted(maps.Keys(s.changedCohorts)) {
		var value []byte
		if by := s.cohorts.Get(n); by != nil {
			value = s.AppendCohort(nil, by)
		}
		writeTrial(dst, s.Name+cohortField+strconv.FormatInt(n, 10), value, false)
	}
	clear(s.changedCohorts)
	s.sealLags(dst)
	if s.ByUser {
		s.sealPeriods(dst)
	}
}

func (s *trialSums) sealPeriods(dst *state.Changes) {
	blocks := slices.SortedFunc(maps.Keys(s.changedBlocks), func(a, b groupBlock) int {
		return cmp.Or(cmp.Compare(a.period, b.period), cmp.Compare(a.block, b.block))
	})
	for _, b := range blocks {
		var value []byte
		if groups := s.periods[b.period]; groups != nil {
			from := int(b.block) * groupsInBlock
			value = s.AppendGroups(nil, groups, from, from+groupsInBlock)
		}
		writeTrial(dst, s.Name+groupsField+strconv.FormatInt(b.period, 10)+":"+strconv.Itoa(int(b.block)), value, false)
	}
	clear(s.changedBlocks)
	for _, p := range slices.Sorted(maps.Keys(s.changedPast)) {
		var value []byte
		if groups := s.past[p]; groups != nil {
			value = s.AppendGroups(nil, groups, 0, experiment.GroupCount)
		}
		writeTrial(dst, s.Name+pastField+strconv.FormatInt(p, 10), value, true)
	}
	clear(s.changedPast)
	if s.changedClosed {
		writeTrial(dst, s.Name+closedField, appendNumbers(stampOf(s.Experiment), s.closed), true)
		s.changedClosed = false
	}
}

// enter counts a unit that begins; n is −1 to withdraw it.
func (s *trialSums) enter(arm int, e *entry, n int64) {
	c := experiment.Unit(n, e.z())
	s.count(arm, e, c)
	if r, block := s.lagsFor(e); r != nil {
		bucket, open := r.Enter(arm, e.began, c)
		s.note(block, bucket, open)
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
		s.note(block, bucket, open)
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
		s.changedBuckets[openLags{b, block}] = true
	}
	s.changedLags[block] = true
}

// readLags reads the run-offs that other partitions have published.
func (s *trialSums) readLags(of *pool, self int32) {
	if s.othersLags == nil {
		s.othersLags = s.NewLagTotals()
	}
	for _, source := range of.sources() {
		for block := range s.runOffs {
			text, key := of.of[source][s.Name+lagsField+s.suffix(block)], lagsOf{source, block}
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

// loadLags loads a block's ended buckets, if its name is empty or the block's number. Else it loads an open bucket, by bucket and block.
func (s *trialSums) loadLags(kind, name, value string) error {
	bucket, of, blocks := strings.Cut(name, ":")
	if kind != bucketField {
		bucket, of, blocks = "0", name, name != ""
	}
	n, err := strconv.ParseInt(bucket, 10, 64)
	block := 0
	if blocks && err == nil {
		block, err = strconv.Atoi(of)
	}
	if err != nil || blocks != s.ByUser || block < 0 || block >= len(s.runOffs) {
		return fmt.Errorf("%w: run-off %.64q", errTrial, name)
	}
	if kind == bucketField {
		return s.ParseBucket(value, s.runOffs[block], n)
	}
	return s.ParseRunOff(value, s.runOffs[block])
}

func (s *trialSums) sealLags(dst *state.Changes) {
	for _, block := range slices.Sorted(maps.Keys(s.changedLags)) {
		writeTrial(dst, s.Name+lagsField+s.suffix(block), s.AppendRunOff(nil, s.runOffs[block]), true)
	}
	clear(s.changedLags)
	changed := slices.SortedFunc(maps.Keys(s.changedBuckets), func(a, b openLags) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.block, b.block))
	})
	for _, b := range changed {
		name := s.Name + bucketField + strconv.FormatInt(b.bucket, 10) + s.suffix(b.block)
		writeTrial(dst, name, s.AppendBucket(nil, s.runOffs[b.block], b.bucket), false)
	}
	clear(s.changedBuckets)
}

// suffix returns the end of the name of a block's field. By impression there is one block, without a name.
func (s *trialSums) suffix(block int) string {
	if !s.ByUser {
		return ""
	}
	return ":" + strconv.Itoa(block)
}
