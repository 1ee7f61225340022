package stream

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Letter is a dead letter of a moment ago.
type Letter struct {
	At        time.Time // when it was seen, by this machine's clock
	Topic     string    // what it is for, as in metrics
	Partition int32
	Offset    int64
	Reason    string
	Detail    string // for people
}

// lettersKept is how many of the last dead letters are kept to be shown.
const lettersKept = 20

// keepLetters keeps the last of them.
func (m *Metrics) keepLetters(p int32, all []task.Refusal) {
	if len(all) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, d := range all[max(0, len(all)-lettersKept):] {
		m.letters = append(m.letters, Letter{now, topicLabels[d.Topic], p, d.Offset, d.Reason, d.Detail})
	}
	m.letters = slices.Delete(m.letters, 0, max(0, len(m.letters)-lettersKept))
}

// Letters are the last dead letters of this process, at most 20, the oldest first.
func (m *Metrics) Letters() []Letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.letters)
}

// Totals is what this process did from its start on.
type Totals struct {
	Read     [event.Inputs]float64 // records stepped, by topic
	Rankings float64               // acknowledged by Kafka
	// Latencies are how many rankings were acknowledged within each of LatencyBounds, and not within the one before, since their
	// impression's Kafka timestamp; behind them those beyond the last bound.
	Latencies []int64
}

// LatencyBounds are the upper bounds of Totals.Latencies, in seconds.
func LatencyBounds() []float64 { return slices.Clone(latencyBuckets) }

// Totals reads the counters.
func (m *Metrics) Totals() Totals {
	var t Totals
	for topic := range t.Read {
		t.Read[topic] = valueOfMetric(m.read[topic]).GetCounter().GetValue()
	}
	t.Rankings = valueOfMetric(m.rankings).GetCounter().GetValue()
	h := valueOfMetric(m.rankingLatency).GetHistogram()
	below := uint64(0)
	for _, b := range h.GetBucket() {
		t.Latencies = append(t.Latencies, int64(b.GetCumulativeCount()-below))
		below = b.GetCumulativeCount()
	}
	t.Latencies = append(t.Latencies, int64(h.GetSampleCount()-below))
	return t
}

func valueOfMetric(m prometheus.Metric) *dto.Metric {
	var v dto.Metric
	_ = m.Write(&v) // fails only where a label is no UTF-8, and these have none
	return &v
}
