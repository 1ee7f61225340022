package stream

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// PartitionSnapshot is a partition's status at one moment, for the gauges. It is not changed once published.
type PartitionSnapshot struct {
	Phase         task.Phase
	StopReason    task.StopReason     // if Phase is task.Stopped
	Loaded        bool                // the fields below are known
	Lag           [event.Inputs]int64 // records not yet read, by topic
	WatermarkLag  float64             // seconds from the watermark to Taken; -1: no watermark yet
	ClockOffset   float64             // seconds by which this machine's clock is ahead of Kafka's; NaN: not known
	WalkLag       float64             // seconds from the end of the expiry walk to the watermark; -1: no watermark yet
	Taken         time.Time
	Pending       int64               // impressions that wait for a selection or payoff
	Parked        [event.Inputs]int64 // parked selections and payoffs, by topic
	ParkedBytes   int64
	Unsaved       int64 // bytes of unsaved changes
	Backpressured bool  // steps wait for the store
	Waiting       bool  // a call fails and is retried
	Learners      []LearnerSnapshot
	Experiments   []ExperimentSnapshot
}

type LearnerSnapshot struct {
	Name    string
	OnHold  bool  // QPM-D waits for a payoff of one item
	Queued  int64 // payoffs in QPM-D's queues
	Flights int64 // selections whose payoff is awaited
	Items   int
	Fed     int64 // payoffs that decisions use, those of other partitions included if pooled

	Silence    delay.SilenceStatus
	Level      delay.LevelStatus
	Personal   delay.ContextualStatus
	Attraction delay.AttractionStatus
	Drops      partition.UnattributedStatus
	Conduct    partition.UserModel

	Undecided  int64     // pairs of items; -1: the learner is given utilities
	Instances  int64     // BOLD's
	Windows    []float64 // as in delay.Status; nil: none
	Selections int64     // that the windows were learned from
}

func snapshotOf(s *task.Status, now event.Millis) *PartitionSnapshot {
	snap := &PartitionSnapshot{
		Phase: s.Phase, StopReason: s.Reason, Lag: s.Lag, WatermarkLag: -1, WalkLag: -1, Taken: time.Now(), Pending: s.Account.Impressions.Pending,
		ParkedBytes: s.Account.ParkedBytes, Unsaved: s.Unsaved, Backpressured: s.Full,
		Waiting: s.Err != nil && s.Phase != task.Stopped,
		Loaded:  s.Phase == task.Replaying || s.Phase == task.Running || s.Phase == task.Draining,
	}
	if snap.ClockOffset = math.NaN(); s.ClockKnown {
		snap.ClockOffset = s.ClockOffset.Seconds()
	}
	snap.Experiments = experimentSnapshots(s.Experiments, now)
	snap.Parked[event.Selections] = s.Account.Selections.Parked
	snap.Parked[event.Payoffs] = s.Account.Payoffs.Parked
	if s.Watermark > 0 {
		snap.WatermarkLag = max(0, float64(now-s.Watermark)/1000)
		snap.WalkLag = float64(s.WalkLag) / 1000
	}
	for i := range s.Learners {
		if l := &s.Learners[i]; !l.Gone {
			snap.Learners = append(snap.Learners, LearnerSnapshot{
				Name: l.Name, OnHold: l.OnHold, Queued: l.Queued, Flights: l.Flights, Items: l.Items, Fed: l.Fed,
				Silence: l.Silence, Level: l.Level, Personal: l.Personal, Attraction: l.Attraction, Drops: l.Drops, Conduct: l.Conduct,
				Undecided: undecidedPairs(l), Instances: l.Instances, Windows: l.Windows, Selections: l.Selections,
			})
		}
	}
	return snap
}

// undecidedPairs returns the number of undecided pairs, -1 unless the learner finds the order of utilities itself.
func undecidedPairs(l *partition.LearnerStatus) int64 {
	if !l.FindsUtilities {
		return -1
	}
	return l.UndecidedPairs
}

// Snapshots holds the last snapshot of each owned partition, and is the Prometheus
// collector of the gauges. Publishing swaps a pointer and does not wait for a scrape.
type Snapshots struct {
	mu  sync.RWMutex
	all map[int32]*atomic.Pointer[PartitionSnapshot]
}

var _ prometheus.Collector = (*Snapshots)(nil)

func NewSnapshots() *Snapshots {
	return &Snapshots{all: map[int32]*atomic.Pointer[PartitionSnapshot]{}}
}

func (s *Snapshots) Publish(p int32, snap *PartitionSnapshot) {
	s.mu.RLock()
	at := s.all[p]
	s.mu.RUnlock()
	if at == nil {
		s.mu.Lock()
		if at = s.all[p]; at == nil {
			at = new(atomic.Pointer[PartitionSnapshot])
			s.all[p] = at
		}
		s.mu.Unlock()
	}
	at.Store(snap)
}

// Clear drops all partitions and their gauges: they are not ours any more.
func (s *Snapshots) Clear() {
	s.mu.Lock()
	clear(s.all)
	s.mu.Unlock()
}

func (s *Snapshots) Get() map[int32]*PartitionSnapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[int32]*PartitionSnapshot, len(s.all))
	for p, at := range s.all {
		if snap := at.Load(); snap != nil {
			all[p] = snap
		}
	}
	return all
}

func gaugeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	descLag       = gaugeDesc("lag", "Input records not yet read.", "topic", "partition")
	descWatermark = gaugeDesc("watermark_lag_seconds",
		"How far event time, as read from all input topics, is behind the clock.", "partition")
	descClock = gaugeDesc("clock_offset_seconds", "By how much this machine's clock is ahead of that of Kafka's brokers.", "partition")
	descWalk  = gaugeDesc("expiry_lag_seconds",
		"How far the expiry walk is behind event time.", "partition")
	descPending     = gaugeDesc("pending_impressions", "Impressions that wait for a selection or payoff.")
	descParked      = gaugeDesc("parked_records", "Selections and payoffs that wait for their impression.", "topic")
	descParkedBytes = gaugeDesc("parked_bytes", "Bytes of parked records.")
	descUnsaved     = gaugeDesc("unsaved_bytes", "Bytes of changes not yet checkpointed.")
	descFull        = gaugeDesc("backpressured_partitions", "Partitions that do not read until the store has caught up.")
	descWaiting     = gaugeDesc("waiting_partitions", "Owned partitions that something fails for and is tried again.")
	descPhase       = gaugeDesc("partitions", "Owned partitions by phase.", "phase")
	descStopped     = gaugeDesc("stopped_partitions", "Owned partitions that stopped because a check failed.", "reason")
	descOnHold      = gaugeDesc("on_hold", "1 while QPM-D waits for a payoff of one item.", "learner", "partition")
	descQueued      = gaugeDesc("queued_payoffs", "Payoffs that wait in QPM-D's queues.", "learner")
	descFlights     = gaugeDesc("awaited_payoffs", "Selections whose payoff is awaited.", "learner")
	descItems       = gaugeDesc("items", "Items that a learner has met, summed over partitions.", "learner")

	descFed = gaugeDesc("fed_payoffs", "Payoffs that a learner's decisions use, those of other partitions included if pooled.",
		"learner", "partition")
	descSilencePayoffs = gaugeDesc("silence_payoffs", "Payoffs with which the weight of selections in flight counts: assumed and partial ones"+inRanges+".", "learner")
	descSilence        = gaugeDesc("silence_weight", "Weight of selections in flight, in selections that were never paid.", "learner")
	descShare          = gaugeDesc("paid_share", "Estimated share of selections that are paid.", "learner")
	descDelay          = gaugeDesc("payoff_delay_seconds", "Delay within which a share of the payoffs has come.", "learner", "quantile")
	descDrops          = gaugeDesc("silence_informative",
		"With on_expiry: drop, by how much the share of selections that are paid differs between items, in standard deviations.", "learner")
	descSelectionShare = gaugeDesc("selection_share",
		"With direct: share of impressions that end with a selection, over all partitions, from ended impressions with known rankings.", "learner")
	descLevel = gaugeDesc("level",
		"With robust: common level of payoffs above the items' own means, in payoff ranges.", "learner")
	descLevelHalfLife = gaugeDesc("level_half_life_seconds",
		"Half-life of the payoffs that estimate the level; +Inf while it has not changed lately.", "learner")
	descContextSD = gaugeDesc("context_sd",
		"By how much payoffs differ by chance, features, categories, items and cells, in standard deviations, in payoff ranges.", "learner", "level")
	descFeatureSD = gaugeDesc("context_feature_sd",
		"Standard deviation of a feature over the payoffs fed, in halves of its range: 0.58 where the range is used evenly.", "learner", "feature")
	descGroups = gaugeDesc("context_groups",
		"Groups that the day (hour), the week (weekday) and items' ages (age) are divided into at present; 1 where one is not.", "learner", "of")
	descSince = gaugeDesc("context_since_timestamp_seconds",
		"Event time from which on payoffs count, by when their selections began, in seconds since 1970; absent while all count.", "learner")
	descRangeUsed = gaugeDesc("payoff_range_used",
		"Which part of the configured payoff range payoffs have spanned, once there were 1,000.", "learner")
	descInstances  = gaugeDesc("instances", "BOLD's instances, summed over partitions.", "learner")
	descUndecided  = gaugeDesc("undecided_pairs", "Pairs of items whose order of utilities a partition has not found yet.", "learner", "partition")
	descWindows    = gaugeDesc("window_probability", "Probability of an attention window that decisions are made for.", "learner", "window")
	descSelections = gaugeDesc("window_selections", "Selections that the windows may have been learned from.", "learner")

	snapshotDescs = []*prometheus.Desc{descLag, descWatermark, descClock, descWalk, descPending, descParked, descParkedBytes, descUnsaved,
		descFull, descWaiting, descPhase, descStopped, descOnHold, descQueued, descFlights, descItems, descFed, descInstances,
		descUndecided, descWindows, descSelections, descSilence, descSilencePayoffs, descShare, descDelay, descDrops, descRangeUsed, descContextSD, descFeatureSD,
		descGroups, descSince,
		descSelectionShare, descLevel, descLevelHalfLife, descLift, descLiftUnits, descLiftLag, descTripped}
)

var windowLabels = func() (labels [delay.ShownWindows + 1]string) {
	for k := range labels {
		labels[k] = strconv.Itoa(k + 1)
	}
	labels[delay.ShownWindows] = "more"
	return labels
}()

// Describe implements prometheus.Collector.
func (s *Snapshots) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range snapshotDescs {
		ch <- d
	}
}

type totals struct {
	pending, parkedBytes, unsaved, full, waiting int64
	parked                                       [event.Inputs]int64
	phases                                       [task.Stopped + 1]int64
	stopped                                      map[task.StopReason]int64
	learners                                     map[string]*LearnerSnapshot
}

// Collect implements prometheus.Collector.
func (s *Snapshots) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	t := totals{stopped: map[task.StopReason]int64{}, learners: map[string]*LearnerSnapshot{}}
	all := s.Get()
	for _, p := range slices.Sorted(maps.Keys(all)) {
		t.add(all[p])
		if all[p].Loaded {
			all[p].collect(gauge, strconv.Itoa(int(p)))
		}
	}
	collectExperiments(gauge, all)
	gauge(descPending, float64(t.pending))
	for _, topic := range []event.Topic{event.Selections, event.Payoffs} {
		gauge(descParked, float64(t.parked[topic]), topicLabels[topic])
	}
	gauge(descParkedBytes, float64(t.parkedBytes))
	gauge(descUnsaved, float64(t.unsaved))
	gauge(descFull, float64(t.full))
	gauge(descWaiting, float64(t.waiting))
	for phase, n := range t.phases {
		gauge(descPhase, float64(n), task.Phase(phase).String())
	}
	for reason, n := range t.stopped {
		gauge(descStopped, float64(n), string(reason))
	}
	for name, l := range t.learners {
		gauge(descQueued, float64(l.Queued), name)
		gauge(descFlights, float64(l.Flights), name)
		gauge(descItems, float64(l.Items), name)
		collectSilence(gauge, name, l)
		if l.Level.Tracked {
			gauge(descLevel, l.Level.Level, name)
			gauge(descLevelHalfLife, l.Level.HalfLife/1000, name)
		}
		if l.Attraction.Learned && l.Attraction.Impressions > 0 {
			gauge(descSelectionShare, l.Attraction.Share, name)
		}
		collectPersonal(gauge, name, &l.Personal)
		if l.Instances > 0 {
			gauge(descInstances, float64(l.Instances), name)
		}
		if l.Windows != nil {
			gauge(descSelections, float64(l.Selections), name)
		}
		for k, q := range l.Windows {
			gauge(descWindows, q, name, windowLabels[k])
		}
	}
}

// collectSilence sets the gauges of selections in flight, if the learner weighs them.
func collectSilence(gauge func(d *prometheus.Desc, v float64, labels ...string), name string, l *LearnerSnapshot) {
	if l.Silence.Law != delay.SilenceWaits {
		gauge(descSilence, l.Silence.Weight, name)
		gauge(descSilencePayoffs, l.Silence.Payoffs, name)
	}
	if l.Silence.Known {
		gauge(descShare, l.Silence.Share, name)
		gauge(descDelay, float64(l.Silence.Median)/1000, name, "0.5")
		gauge(descDelay, float64(l.Silence.P90)/1000, name, "0.9")
	}
	if l.Drops.Items > 0 {
		gauge(descDrops, l.Drops.Informative(), name)
	}
	if share, ok := l.Conduct.RangeUsed(); ok {
		gauge(descRangeUsed, share, name)
	}
}

// collectPersonal sets the gauges of a contextual learner.
func collectPersonal(gauge func(d *prometheus.Desc, v float64, labels ...string), name string, s *delay.ContextualStatus) {
	if !s.Known {
		return
	}
	for cause, sd := range s.Deviations {
		if sd >= 0 {
			gauge(descContextSD, sd, name, delay.Cause(cause).String())
		}
	}
	for _, f := range s.Spreads {
		gauge(descFeatureSD, f.SD, name, f.Name)
	}
	for _, g := range s.Groups {
		gauge(descGroups, float64(g.N), name, g.Of)
	}
	if s.Since != 0 {
		gauge(descSince, float64(s.Since)/1000, name)
	}
}

// collect sets the gauges with the partition as a label.
func (p *PartitionSnapshot) collect(gauge func(d *prometheus.Desc, v float64, labels ...string), number string) {
	for topic, lag := range p.Lag {
		gauge(descLag, float64(lag), topicLabels[topic], number)
	}
	if p.WatermarkLag >= 0 { // a hung loop falls behind, and must be visible
		gauge(descWatermark, p.WatermarkLag+max(0, time.Since(p.Taken).Seconds()), number)
		gauge(descWalk, p.WalkLag, number)
	}
	if !math.IsNaN(p.ClockOffset) {
		gauge(descClock, p.ClockOffset, number)
	}
	for i := range p.Learners {
		held := 0.0
		if p.Learners[i].OnHold {
			held = 1
		}
		gauge(descOnHold, held, p.Learners[i].Name, number)
		gauge(descFed, float64(p.Learners[i].Fed), p.Learners[i].Name, number)
		if u := p.Learners[i].Undecided; u >= 0 {
			gauge(descUndecided, float64(u), p.Learners[i].Name, number)
		}
	}
}

func (t *totals) add(p *PartitionSnapshot) {
	t.phases[p.Phase]++
	if p.Phase == task.Stopped {
		t.stopped[p.StopReason]++
	}
	t.pending += p.Pending
	t.parkedBytes += p.ParkedBytes
	t.unsaved += p.Unsaved
	if p.Backpressured {
		t.full++
	}
	if p.Waiting {
		t.waiting++
	}
	for topic, n := range p.Parked {
		t.parked[topic] += n
	}
	for i := range p.Learners {
		l := &p.Learners[i]
		sum := t.learners[l.Name]
		if sum == nil {
			sum = &LearnerSnapshot{}
			t.learners[l.Name] = sum
		}
		sum.Queued += l.Queued
		sum.Flights += l.Flights
		sum.Items += l.Items
		sum.Instances += l.Instances
		sum.addSilence(l)
		// Levels are pooled: the newest estimate counts.
		if l.Level.Tracked && (!sum.Level.Tracked || l.Level.AsOf > sum.Level.AsOf) {
			sum.Level = l.Level
		}
		// So are contextual models.
		if l.Personal.Known && (!sum.Personal.Known || l.Personal.Payoffs > sum.Personal.Payoffs) {
			sum.Personal = l.Personal
		}
		// So are shares of selections.
		if l.Attraction.Learned && (!sum.Attraction.Learned || l.Attraction.Impressions > sum.Attraction.Impressions) {
			sum.Attraction = l.Attraction
		}
		sum.Conduct.Span(&l.Conduct)
		// So are windows: the partition with the most selections is up to date.
		if l.Windows != nil && (sum.Windows == nil || l.Selections > sum.Selections) {
			sum.Windows, sum.Selections = l.Windows, l.Selections
		}
	}
}

// addSilence adds a partition's selections in flight. Paid shares and delays are pooled: the partition with the most payoffs is up to date.
func (sum *LearnerSnapshot) addSilence(l *LearnerSnapshot) {
	weight, payoffs := sum.Silence.Weight+l.Silence.Weight, sum.Silence.Payoffs+l.Silence.Payoffs
	if !sum.Silence.Known || l.Silence.Known && l.Fed > sum.Fed {
		sum.Silence, sum.Fed = l.Silence, l.Fed
	}
	sum.Silence.Weight, sum.Silence.Payoffs = weight, payoffs
	sum.Drops.Items += l.Drops.Items
	sum.Drops.Statistic += l.Drops.Statistic
}
