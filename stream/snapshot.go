package stream

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// partitionSnapshot is a partition's status at the time Taken, for the gauges. It is not changed once published.
type partitionSnapshot struct {
	*task.Status
	Taken time.Time
	Now   event.Millis // Taken by the loop's clock
}

// loaded reports whether account, learners and offsets are known.
func (p *partitionSnapshot) loaded() bool {
	return p.Phase == task.Replaying || p.Phase == task.Running || p.Phase == task.Draining
}

// behind returns the seconds from an event time to this moment.
func (p *partitionSnapshot) behind(at event.Millis) float64 {
	return max(0, float64(p.Now-at)/1000) + max(0, time.Since(p.Taken).Seconds())
}

// snapshots holds the last snapshot of each owned partition, and is the Prometheus
// collector of the gauges. Publishing does not wait for a scrape, which works on a copy.
type snapshots struct {
	mu  sync.Mutex
	all map[int32]*partitionSnapshot
}

var _ prometheus.Collector = (*snapshots)(nil)

func (s *snapshots) publish(p int32, snap *partitionSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[p] = snap
}

// clear drops all partitions and their gauges: they are not ours any more.
func (s *snapshots) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.all)
}

func (s *snapshots) get() map[int32]*partitionSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

// Describe implements prometheus.Collector.
func (s *snapshots) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, workerGauges)
	describe(ch, partitionGauges)
	describe(ch, learnerInPartitionGauges)
	describe(ch, learnerGauges)
	describe(ch, experimentGauges)
}

// Collect implements prometheus.Collector.
func (s *snapshots) Collect(ch chan<- prometheus.Metric) {
	t := totals{stopped: map[task.StopReason]int64{}, learners: map[string]*partition.LearnerStatus{}, tripped: map[[2]string]bool{}}
	all := s.get()
	for _, p := range slices.Sorted(maps.Keys(all)) {
		snap, number := all[p], strconv.Itoa(int(p))
		t.add(snap.Status)
		if snap.loaded() {
			collect(ch, prometheus.GaugeValue, partitionGauges, snap, number)
			for i := range snap.Learners {
				if l := &snap.Learners[i]; !l.Gone {
					collect(ch, prometheus.GaugeValue, learnerInPartitionGauges, l, l.Name, number)
				}
			}
		}
		for i := range snap.Experiments {
			if x := &snap.Experiments[i]; x.Decides {
				collect(ch, prometheus.GaugeValue, experimentGauges, experimentSnapshot{x, snap}, x.Name)
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
	learners                                     map[string]*partition.LearnerStatus
	tripped                                      map[[2]string]bool // by experiment and arm
}

func (t *totals) add(s *task.Status) {
	t.phases[s.Phase]++
	switch {
	case s.Phase == task.Stopped:
		t.stopped[s.Reason]++
	case s.Err != nil:
		t.waiting++
	}
	t.pending += s.Account.Impressions.Pending
	t.parkedBytes += s.Account.ParkedBytes
	t.unsaved += s.Unsaved
	if s.Full {
		t.full++
	}
	t.parked[event.Selections] += s.Account.Selections.Parked
	t.parked[event.Payoffs] += s.Account.Payoffs.Parked
	for i := range s.Experiments {
		for _, a := range s.Experiments[i].Arms {
			of := [2]string{s.Experiments[i].Name, a.Name}
			t.tripped[of] = t.tripped[of] || a.Tripped
		}
	}
	for i := range s.Learners {
		l := &s.Learners[i]
		if l.Gone {
			continue
		}
		sum := t.learners[l.Name]
		if sum == nil {
			sum = &partition.LearnerStatus{}
			t.learners[l.Name] = sum
		}
		sumUp(sum, l)
	}
}

// sumUp adds a learner's status in one partition. Of pooled estimates the newest counts, or that of the partition with the most evidence.
func sumUp(sum, l *partition.LearnerStatus) {
	sum.Queued += l.Queued
	sum.Flights += l.Flights
	sum.Items += l.Items
	sum.Instances += l.Instances
	sum.Drops.Items += l.Drops.Items
	sum.Drops.Statistic += l.Drops.Statistic
	sum.UserModel.Span(&l.UserModel)
	weight, payoffs := sum.Silence.Weight+l.Silence.Weight, sum.Silence.Payoffs+l.Silence.Payoffs
	if !sum.Silence.Known || l.Silence.Known && l.Fed > sum.Fed {
		sum.Silence, sum.Fed = l.Silence, l.Fed
	}
	sum.Silence.Weight, sum.Silence.Payoffs = weight, payoffs
	if l.Level.Tracked && (!sum.Level.Tracked || l.Level.AsOf > sum.Level.AsOf) {
		sum.Level = l.Level
	}
	if l.Contextual.Known && (!sum.Contextual.Known || l.Contextual.Payoffs > sum.Contextual.Payoffs) {
		sum.Contextual = l.Contextual
	}
	if l.Attraction.Learned && (!sum.Attraction.Learned || l.Attraction.Impressions > sum.Attraction.Impressions) {
		sum.Attraction = l.Attraction
	}
	if l.Windows != nil && (sum.Windows == nil || l.Selections > sum.Selections) {
		sum.Windows, sum.Selections = l.Windows, l.Selections
	}
}
