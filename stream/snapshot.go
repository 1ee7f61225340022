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
	Next, First   [event.Inputs]int64 // offsets of the next record to read and of the oldest that is left, by topic
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
	Contextual delay.ContextualStatus
	Attraction delay.AttractionStatus
	Drops      partition.UnattributedStatus
	UserModel  partition.UserModel

	Undecided  int64     // pairs of items; -1: the learner is given utilities
	Instances  int64     // BOLD's
	Windows    []float64 // as in delay.Status; nil: none
	Selections int64     // that the windows were learned from
}

func snapshotOf(s *task.Status, now event.Millis) *PartitionSnapshot {
	snap := &PartitionSnapshot{
		Phase: s.Phase, StopReason: s.Reason, Lag: s.Lag, Next: s.Next, First: s.First, WatermarkLag: -1, WalkLag: -1, Taken: time.Now(), Pending: s.Account.Impressions.Pending,
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
				Silence: l.Silence, Level: l.Level, Contextual: l.Contextual, Attraction: l.Attraction, Drops: l.Drops, UserModel: l.UserModel,
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

// Describe implements prometheus.Collector.
func (s *Snapshots) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, workerGauges)
	describe(ch, partitionGauges)
	describe(ch, learnerInPartitionGauges)
	describe(ch, learnerGauges)
	describe(ch, experimentGauges)
}

// Collect implements prometheus.Collector.
func (s *Snapshots) Collect(ch chan<- prometheus.Metric) {
	t := totals{stopped: map[task.StopReason]int64{}, learners: map[string]*LearnerSnapshot{}, tripped: map[[2]string]bool{}}
	all := s.Get()
	for _, p := range slices.Sorted(maps.Keys(all)) {
		snap, number := all[p], strconv.Itoa(int(p))
		t.add(snap)
		if snap.Loaded {
			collect(ch, prometheus.GaugeValue, partitionGauges, snap, number)
			for i := range snap.Learners {
				collect(ch, prometheus.GaugeValue, learnerInPartitionGauges, &snap.Learners[i], snap.Learners[i].Name, number)
			}
		}
		for i := range snap.Experiments {
			if x := &snap.Experiments[i]; x.Decides {
				collect(ch, prometheus.GaugeValue, experimentGauges, x, x.Name)
			}
		}
	}
	collect(ch, prometheus.GaugeValue, workerGauges, &t)
	for name, l := range t.learners {
		collect(ch, prometheus.GaugeValue, learnerGauges, l, name)
	}
}

// totals are sums over the partitions of a worker.
type totals struct {
	pending, parkedBytes, unsaved, full, waiting int64
	parked                                       [event.Inputs]int64
	phases                                       [task.Stopped + 1]int64
	stopped                                      map[task.StopReason]int64
	learners                                     map[string]*LearnerSnapshot
	tripped                                      map[[2]string]bool // by experiment and arm
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
	for i := range p.Experiments {
		for _, a := range p.Experiments[i].Arms {
			of := [2]string{p.Experiments[i].Name, a.Name}
			t.tripped[of] = t.tripped[of] || a.Tripped
		}
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
		if l.Contextual.Known && (!sum.Contextual.Known || l.Contextual.Payoffs > sum.Contextual.Payoffs) {
			sum.Contextual = l.Contextual
		}
		// So are shares of selections.
		if l.Attraction.Learned && (!sum.Attraction.Learned || l.Attraction.Impressions > sum.Attraction.Impressions) {
			sum.Attraction = l.Attraction
		}
		sum.UserModel.Span(&l.UserModel)
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
