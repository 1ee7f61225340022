package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// lagSums are an experiment's payoffs by age; by user those of each block of groups. Each partition publishes its ended buckets; the deciding
// one adds them up.
type lagSums struct {
	runOffs    experiment.RunOffs
	theirs     map[lagsOf]string    // texts in othersLags, in the deciding partition
	othersLags experiment.LagTotals // of all other partitions; nil before one is read
	// Changes since the last seal.
	changedLags    map[int]bool // by block
	changedBuckets map[openLags]bool
}

// lagsOf names the ended buckets of a block of groups in another partition.
type lagsOf struct {
	source int32
	block  int
}

// openLags names an open bucket of a block.
type openLags struct {
	bucket int64
	block  int
}

func newLagSums(x *experiment.Experiment, horizon event.Millis) lagSums {
	return lagSums{runOffs: x.NewRunOffs(horizon), theirs: make(map[lagsOf]string),
		changedLags: make(map[int]bool), changedBuckets: make(map[openLags]bool)}
}

// note marks a block's bucket as changed, or its ended ones.
func (s *lagSums) note(block int, bucket int64, open bool) {
	if open {
		s.changedBuckets[openLags{bucket, block}] = true
	} else {
		s.changedLags[block] = true
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

// endBuckets ends the buckets that the walk has passed.
func (s *lagSums) endBuckets(walked event.Millis) {
	for block, r := range s.runOffs {
		ended, any := r.EndUpTo(walked)
		for _, b := range ended {
			s.changedBuckets[openLags{b, block}] = true
		}
		if any {
			s.changedLags[block] = true
		}
	}
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
	r := experiment.NewRunOff(len(s.Arms), s.horizon, s.InParts)
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
		return experiment.HistoryOf(x.LagHorizon(horizon), s.Delays.By), ""
	}
	return nil, fmt.Sprintf("learner %s %s", x.Control, no)
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
