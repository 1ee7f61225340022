package stream

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// LearnerTotal counts a learner's records in this process since its start.
type LearnerTotal struct {
	Account              partition.Account // without pending and parked
	Value                partition.Value
	PayoffMin, PayoffMax float64 // ends of the payoff range, in raw units
}

// learnerTotals are the totals of all learners, and their Prometheus collector.
// Each configured learner and outcome has a counter, so input cannot add any.
type learnerTotals struct {
	mu  sync.Mutex
	all map[string]*LearnerTotal
}

var _ prometheus.Collector = (*learnerTotals)(nil)

func newLearnerTotals() *learnerTotals { return &learnerTotals{all: map[string]*LearnerTotal{}} }

// rise adds the increase of a learner's values.
func (t *learnerTotals) rise(l *partition.LearnerStatus, before, now *partition.Value) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := t.all[l.Name]
	if total == nil {
		total = &LearnerTotal{}
		t.all[l.Name] = total
	}
	total.PayoffMin, total.PayoffMax = l.PayoffMin, l.PayoffMax
	total.Value = total.Value.Plus(*now, 1).Plus(*before, -1)
}

// observe adds the increase of the learners' accounts. Unconfigured learners are left out.
func (t *learnerTotals) observe(o *task.Observations) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range o.Learners {
		if total := t.all[o.Learners[i].Name]; total != nil {
			total.Account = total.Account.Plus(o.Learners[i].Account)
		}
	}
}

func (t *learnerTotals) get() map[string]LearnerTotal {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]LearnerTotal, len(t.all))
	for name, total := range t.all {
		all[name] = *total
	}
	return all
}

// Learners returns the totals of the learners by name, since this process started.
func (m *Metrics) Learners() map[string]LearnerTotal { return m.totals.get() }

// Describe implements prometheus.Collector.
func (t *learnerTotals) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range learnerOutcomes {
		ch <- d
	}
	describe(ch, learnerSums)
	describe(ch, learnerRange)
}

// Collect implements prometheus.Collector.
func (t *learnerTotals) Collect(ch chan<- prometheus.Metric) {
	all := t.get()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		total := all[name]
		for _, o := range outcomes {
			if o.record != event.Impressions || o.label != "rejected" { // such an impression has no learner
				ch <- prometheus.MustNewConstMetric(learnerOutcomes[o.record], prometheus.CounterValue, float64(max(0, o.of(&total.Account))), name, o.label)
			}
		}
		collect(ch, prometheus.CounterValue, learnerSums, &total.Value, name)
		collect(ch, prometheus.GaugeValue, learnerRange, &total, name)
	}
}
