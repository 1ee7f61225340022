package partition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// lagSums are an experiment's payoffs by age, by impression only. Each partition publishes its ended buckets; the deciding one adds them up.
type lagSums struct {
	runOff     *experiment.RunOff
	theirs     map[int32]theirLags  // by source, in the deciding partition
	othersLags experiment.LagTotals // their sum
	// Changes since the last seal.
	changedLags    bool
	changedBuckets map[int64]bool
}

// theirLags are another partition's totals, with the text that they were read from.
type theirLags struct {
	text   string
	totals experiment.LagTotals
}

func newLagSums(x *experiment.Experiment, horizon event.Millis) lagSums {
	return lagSums{runOff: experiment.NewRunOff(len(x.Arms), horizon, x.InParts), theirs: make(map[int32]theirLags),
		othersLags: experiment.NewLagTotals(len(x.Arms)), changedBuckets: make(map[int64]bool)}
}

// note marks a bucket as changed, or the ended ones.
func (s *lagSums) note(bucket int64, open bool) {
	if open {
		s.changedBuckets[bucket] = true
	} else {
		s.changedLags = true
	}
}

// enter counts a unit that begins; n is −1 to withdraw it.
func (s *trialSums) enter(arm int, e *entry, n int64) {
	c := experiment.Unit(n, e.z())
	s.count(arm, e, c)
	if s.inLags(e) {
		s.note(s.runOff.Enter(arm, e.began, c))
	}
}

func (s *trialSums) inLags(e *entry) bool {
	return !s.ByUser && s.counts(e) && s.runOff.Counts(e.began)
}

// pay counts an increase of an entry's payoff at a time.
func (s *trialSums) pay(arm int, e *entry, at event.Millis, p experiment.Paid) {
	if p != (experiment.Paid{}) && s.inLags(e) {
		s.note(s.runOff.Pay(arm, e.began, at, p))
	}
}

// leaveOut withdraws a unit. One that was paid in part, whose learner is gone, leaves payoffs behind: the run-off then begins again.
func (s *trialSums) leaveOut(arm int, e *entry) {
	s.enter(arm, e, -1)
	if e.count == 0 || !s.inLags(e) {
		return
	}
	for _, b := range s.runOff.Restart() {
		s.changedBuckets[b] = true
	}
	s.changedLags = true
}

// endBuckets ends the buckets that the walk has passed.
func (s *lagSums) endBuckets(walked event.Millis) {
	ended, any := s.runOff.EndUpTo(walked)
	for _, b := range ended {
		s.changedBuckets[b] = true
	}
	s.changedLags = s.changedLags || any
}

// readLags reads the run-offs that other partitions have published.
func (s *trialSums) readLags(of *pool, self int32) {
	if s.ByUser {
		return
	}
	for _, source := range of.sources() {
		text := of.of[source][s.Name+lagsField]
		if source == self || s.theirs[source].text == text {
			continue
		}
		totals, r := experiment.NewLagTotals(len(s.Arms)), experiment.NewRunOff(len(s.Arms), s.horizon, s.InParts)
		if s.ParseRunOff(text, r) == nil {
			totals.Add(r)
		}
		s.theirs[source] = theirLags{text, totals}
	}
	s.othersLags = experiment.NewLagTotals(len(s.Arms))
	for _, one := range s.theirs {
		s.othersLags.Merge(one.totals)
	}
}

// allLags returns the totals of all partitions in the deciding one, else this one's.
func (s *trialSums) allLags() experiment.LagTotals {
	t := experiment.NewLagTotals(len(s.Arms))
	t.Add(s.runOff)
	t.Merge(s.othersLags)
	return t
}

// history returns the delays of payoffs that the control has learned. It returns nil, and why, if they do not cover a horizon.
func (x *trial) history() (h *experiment.History, no string) {
	s := x.knowing().delay.Status().Silence
	return historyOf(x.Experiment, x.sums.horizon, &s)
}

// RecordedHistory is the history that a worker has of an experiment's control, from its records as of a time.
func RecordedHistory(x *experiment.Experiment, horizon event.Millis, l *delay.PayoffDelays, at event.Millis) (h *experiment.History, no string) {
	s := l.Status(deciding, at)
	return historyOf(x, horizon, &s)
}

func historyOf(x *experiment.Experiment, horizon event.Millis, s *delay.SilenceStatus) (h *experiment.History, no string) {
	switch {
	case s.Law != delay.SilenceAges:
		no = "has no history of delays: its `silence` is not `ages`"
	case !s.Known || s.Covers < horizon:
		no = "has a history of delays of less than its payoff horizon"
	case s.Returns:
		no = "has payoffs that were taken back, so that nothing more is no bound"
	default:
		return experiment.HistoryOf(horizon, s.Delays.By), ""
	}
	return nil, fmt.Sprintf("learner %s %s", x.Control, no)
}

// loadLags loads the ended buckets or, by its number, an open one.
func (s *trialSums) loadLags(number, value string) error {
	if number == "" {
		return s.ParseRunOff(value, s.runOff)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", errTrial, err)
	}
	return s.ParseBucket(value, s.runOff, n)
}

func (s *trialSums) sealLags(dst *state.Changes) {
	if s.changedLags {
		writeTrial(dst, s.Name+lagsField, s.AppendRunOff(nil, s.runOff), true)
		s.changedLags = false
	}
	for _, n := range slices.Sorted(maps.Keys(s.changedBuckets)) {
		writeTrial(dst, s.Name+bucketField+strconv.FormatInt(n, 10), s.AppendBucket(nil, s.runOff, n), false)
	}
	clear(s.changedBuckets)
}
