package stream

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Letter is a recent dead letter.
type Letter struct {
	At        time.Time // when it was seen, by this machine's clock
	Topic     string    // as in metrics
	Partition int32
	Offset    int64
	Reason    string
	Detail    string // for people
}

const lettersKept = 20

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

// Letters returns the last dead letters of this process, at most 20, oldest first.
func (m *Metrics) Letters() []Letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.letters)
}

// Totals counts this process's work since its start.
type Totals struct {
	Read     [event.Inputs]float64 // records stepped, by topic
	Rankings float64               // acknowledged by Kafka
	// Latencies counts rankings by the time since their impression's Kafka
	// timestamp: one bucket per bound of LatencyBounds, and one beyond the last.
	Latencies []int64
}

// LatencyBounds returns the upper bounds of Totals.Latencies, in seconds.
func LatencyBounds() []float64 { return slices.Clone(latencyBuckets) }

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
	_ = m.Write(&v) // fails only for a label that is no UTF-8; these have none
	return &v
}
