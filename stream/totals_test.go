package stream

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestTotalsAreWhatTheCountersSay, and latencies fall between the bounds that they are between.
func TestTotalsAreWhatTheCountersSay(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	m.Observe(0, &task.Status{}, &task.Observations{Stepped: [event.Inputs]int64{5, 3, 2}, Produces: []task.Sample{{Size: 4, Took: time.Millisecond}},
		Latencies: []int64{1, 4, 4, 1_000_000}}, 0)
	got, bounds := m.Totals(), LatencyBounds()
	require.Equal(t, [event.Inputs]float64{5, 3, 2}, got.Read)
	require.EqualValues(t, 4, got.Rankings)
	require.Len(t, got.Latencies, len(bounds)+1)
	want := make([]int64, len(bounds)+1)
	for k, bound := range bounds {
		switch bound {
		case 0.001:
			want[k] = 1
		case 0.005:
			want[k] = 2
		}
	}
	want[len(bounds)] = 1
	require.Equal(t, want, got.Latencies)
}

// TestTheLastDeadLettersAreKept, however many come at once.
func TestTheLastDeadLettersAreKept(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	for k := range 3 {
		o := &task.Observations{}
		for i := range 15 + 100*k {
			o.DeadLetters = append(o.DeadLetters, task.Refusal{Topic: event.Payoffs, Offset: int64(1000*k + i), Reason: "not_finite", Detail: fmt.Sprint(i)})
		}
		m.Observe(7, &task.Status{}, o, 0)
	}
	all := m.Letters()
	require.Len(t, all, lettersKept)
	last := all[lettersKept-1]
	require.Equal(t, "payoffs", last.Topic)
	require.EqualValues(t, 7, last.Partition)
	require.EqualValues(t, 2214, last.Offset)
	require.Equal(t, "214", last.Detail)
}

// TestLooksAreAskedForInTurn: each partition comes to its turn, and few at a time.
func TestLooksAreAskedForInTurn(t *testing.T) {
	w := &Worker{loops: map[int32]*loop{2: {}, 5: {}, 9: {}}}
	asked := func() (all []int32) {
		for _, p := range []int32{2, 5, 9} {
			if w.loops[p].lookAgain.Swap(false) {
				all = append(all, p)
			}
		}
		return all
	}
	next := w.LookAgain(0, 2)
	require.Equal(t, []int32{2, 5}, asked())
	next = w.LookAgain(next, 2)
	require.Equal(t, []int32{2, 9}, asked())
	w.LookAgain(next, 10)
	require.Equal(t, []int32{2, 5, 9}, asked())
	require.Equal(t, "starting", w.Seen()[2].Waits)
	w.loops = nil
	require.Zero(t, w.LookAgain(3, 4))
}
