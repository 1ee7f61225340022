package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/tools/collector"
)

// TestTraces: a collector receives a span per batch of a worker, with links
// to its records' traces, and spans of the requests to Kafka and Redis.
func TestTraces(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := collector.Start(t)
		w := newWorld(t, env, 1, "policy: greedy")
		topics := w.cfg.Kafka.Topics
		const n = 20
		trace := func(kind, i int) string { return fmt.Sprintf("%016x%016x", kind+1, i+1) }
		record := func(topic string, kind, i int, value string) kafka.Message {
			id := fmt.Sprintf("i-%d", i)
			return kafka.Message{Topic: topic, Key: []byte(id), Value: fmt.Appendf(nil, value, id),
				Headers: []kafka.Header{{Key: "traceparent", Value: []byte("00-" + trace(kind, i) + "-00000000000000aa-01")}}}
		}
		var impressions, selections, payoffs []kafka.Message
		for i := range n {
			impressions = append(impressions, record(topics.Impressions, 0, i,
				`{"impression_id":%q,"candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`))
			selections = append(selections, record(topics.Selections, 1, i, `{"impression_id":%q,"item":"a"}`))
			payoffs = append(payoffs, record(topics.Payoffs, 2, i, `{"impression_id":%q,"item":"a","payoff":1}`))
		}
		impressions[n-1].Headers = nil
		cfg := *w.cfg
		cfg.Traces.Endpoint = c.URL
		r := w.startWith(t, &cfg)
		r.awaitReady(t)
		w.publish(t, impressions...)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == n }, deadline, 20*time.Millisecond)
		w.publish(t, selections...)
		w.publish(t, payoffs...)
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.applied"] == n }, deadline, 20*time.Millisecond)
		r.stop(t)

		all := c.Spans(func(s collector.Span) bool { return s.Service == "ranker-worker" })
		batches, linked, below := map[string]collector.Span{}, map[string]bool{}, map[string]int{}
		for _, s := range all {
			if strings.HasPrefix(s.Name, "process ") {
				require.Equal(t, proto.Span_SPAN_KIND_CONSUMER, s.Kind)
				require.Equal(t, "kafka", s.Attributes["messaging.system"])
				require.Equal(t, w.group, s.Attributes["messaging.consumer.group.name"])
				require.Equal(t, "0", s.Attributes["messaging.destination.partition.id"])
				batches[s.ID] = s
				for _, l := range s.Links {
					linked[l] = true
				}
			}
		}
		for _, s := range all {
			if b, ok := batches[s.Parent]; ok {
				require.Equal(t, b.Trace, s.Trace)
				below[s.Name]++
			}
		}
		for i := range n {
			require.Equal(t, i < n-1, linked[trace(0, i)], "impression %d", i)
			require.True(t, linked[trace(1, i)] && linked[trace(2, i)], i)
		}
		require.Positive(t, below["send "+topics.Rankings], below)
		require.Positive(t, below["look up"], below)
		require.Positive(t, below["checkpoint"], below)
		w.ranked(t, n)
	})
}

// TestTracesAway: with a collector that is away impressions are ranked as ever, and the log says so in one line.
func TestTracesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testenv.Embedded(t), 1, "policy: greedy")
	cfg := *w.cfg
	cfg.Traces.Endpoint = "http://127.0.0.1:1"
	r := w.startWith(t, &cfg)
	r.awaitReady(t)
	const n = 50
	for i := range n {
		w.publish(t, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: fmt.Appendf(nil, "i-%d", i),
			Value: fmt.Appendf(nil, `{"impression_id":"i-%d","candidates":[{"item":"a","utility":1}]}`, i)})
	}
	require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == n }, deadline, 20*time.Millisecond)
	r.stop(t)
	w.ranked(t, n)
	require.Equal(t, 1, strings.Count(w.log.String(), "traces are not delivered"), w.log.String())
}
