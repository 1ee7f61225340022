package broker

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// impressions of 20 candidates in 950 bytes, as the measurements in the design have them.
func impressions(n int) []task.OutMessage {
	messages := make([]task.OutMessage, n)
	for i := range messages {
		var v bytes.Buffer
		fmt.Fprintf(&v, `{"impression_id":"i-%08d","learner":"feed","time":"2026-11-21T10:00:00.%03dZ","candidates":[`, i, i%1000)
		for j := range 20 {
			if j > 0 {
				v.WriteByte(',')
			}
			fmt.Fprintf(&v, `{"item":"item-%05d","utility":0.%05d}`, (i*7919+j*104729)%20000, (i*31+j*17389)%100000)
		}
		v.WriteString(`]}`)
		for v.Len() < 950 {
			v.WriteByte(' ')
		}
		messages[i] = task.OutMessage{Key: fmt.Appendf(nil, "i-%08d", i), Value: v.Bytes()}
	}
	return messages
}

func BenchmarkAppendBatch(b *testing.B) {
	messages := impressions(1000)
	b.ReportAllocs()
	var buf []byte
	var err error
	info := BatchInfo{Producer: task.Producer{ID: 1}, Timestamp: 1}
	for b.Loop() {
		buf, err = AppendBatch(buf[:0], &info, messages)
	}
	require.NoError(b, err)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
	b.ReportMetric(float64(len(buf))/1000, "bytes/record")
}

func BenchmarkReadBatch(b *testing.B) {
	messages := impressions(1000)
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			b.ReportAllocs()
			data := compressed(b, c, encode(b, 0, BatchInfo{Timestamp: 1}, messages...))
			a := kmsg.FetchResponseTopicPartition{HighWatermark: 1000, LastStableOffset: 1000, RecordBatches: data}
			for b.Loop() {
				d := fetchDecoder{asked: &task.Fetch{Topic: event.Impressions, MaxBytes: 1 << 20}, maxValue: defaultMaxValue}
				var out task.Fetched
				require.NoError(b, d.decode(b.Context(), &a, &out))
				require.Len(b, out.Records, 1000)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}
