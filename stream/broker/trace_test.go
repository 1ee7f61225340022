package broker

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// decodeInput reads a batch of impressions as a fetch does.
func decodeInput(t testing.TB, batch []byte, traces bool) (out task.Fetched) {
	d := fetchDecoder{asked: &task.Fetch{Topic: event.Impressions, MaxBytes: 1 << 20}, maxValue: 1 << 20, traces: traces}
	require.NoError(t, d.decode(context.Background(), &kmsg.FetchResponseTopicPartition{RecordBatches: batch, HighWatermark: 100, LastStableOffset: -1}, &out))
	return out
}

func traceBatch(t testing.TB, messages ...task.OutMessage) []byte {
	b, err := AppendBatch(nil, &BatchInfo{Producer: task.Producer{ID: -1, Epoch: -1}, Sequence: -1}, messages)
	require.NoError(t, err)
	return b
}

// TestTraces: headers that name traces are read where that is asked for, and whatever else stands in headers changes nothing.
func TestTraces(t *testing.T) {
	const w3c = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	with := func(headers ...task.Header) task.OutMessage {
		return task.OutMessage{Key: []byte("k"), Value: []byte("v"), Headers: headers}
	}
	batch := traceBatch(t, with(), with(task.Header{Key: "a", Value: nil}, task.Header{Key: "traceparent", Value: []byte("old")},
		task.Header{Key: "tracestate", Value: []byte("x=y")}, task.Header{Key: "traceparent", Value: []byte(w3c)}),
		with(task.Header{Key: "tracestate", Value: []byte("x=y")}), with(task.Header{Key: "traceparent", Value: make([]byte, 1000)}),
		with(task.Header{Key: "long", Value: make([]byte, 1<<20)}, task.Header{Key: "traceparent", Value: []byte(w3c)}))
	off := decodeInput(t, batch, false)
	require.Empty(t, off.Traces)
	on := decodeInput(t, batch, true)
	require.Equal(t, []task.Trace{{Record: 1, Parent: []byte(w3c), State: []byte("x=y")}}, on.Traces)
	on.Traces = nil
	require.Equal(t, off, on)
}

// TestTracesOffCostNothing: nothing is allocated for traces that nobody asked for.
func TestTracesOffCostNothing(t *testing.T) {
	of := func(headers ...task.Header) float64 {
		var messages []task.OutMessage
		for i := range 100 {
			messages = append(messages, task.OutMessage{Key: fmt.Appendf(nil, "i%d", i), Value: []byte("v"), Headers: headers})
		}
		batch := traceBatch(t, messages...)
		return testing.AllocsPerRun(20, func() { decodeInput(t, batch, false) })
	}
	require.Equal(t, of(), of(task.Header{Key: "traceparent", Value: make([]byte, 55)}))
}

// FuzzTraceIn: headers are somebody else's bytes.
func FuzzTraceIn(f *testing.F) {
	f.Add([]byte{2, 22, 't', 'r', 'a', 'c', 'e', 'p', 'a', 'r', 'e', 'n', 't', 2, 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got := traceIn(b)
		require.LessOrEqual(t, len(got.Parent)+len(got.State), len(b))
	})
}
