package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/tools/collector"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// postTraced posts with a traceparent.
func (r *running) postTraced(t *testing.T, path, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", traceparent)
	req.Header.Set("Tracestate", "v=1")
	return r.send(t, req)
}

// first reads the first record of a topic with one partition.
func (p *place) first(t *testing.T, topic string) map[string]string {
	t.Helper()
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: p.cfg.Kafka.Brokers, Topic: topic})
	defer func() { require.NoError(t, reader.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for {
		m, err := reader.ReadMessage(ctx)
		require.NoError(t, err)
		if m.Value[0] != '{' { // a fence's marker, which this reader does not hide
			continue
		}
		headers := map[string]string{}
		for _, h := range m.Headers {
			headers[h.Key] = string(h.Value)
		}
		return headers
	}
}

// TestTracesGoThrough: from a request to its impression, the worker's batch and the ranking. Without tracing a request's trace goes
// into its records all the same.
func TestTracesGoThrough(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		c := collector.Start(t)
		p := newPlace(t, env, 1, patient, fmt.Sprintf("traces: {endpoint: %q, ratio: 0}\n", c.URL))
		stop := p.work(t)
		r := p.open(t)
		require.Equal(t, http.StatusOK, r.postTraced(t, "/v1/rank", fmt.Sprintf(impression, "i")).Status)
		r.stop()
		stop()

		requests := c.Spans(func(s collector.Span) bool { return s.Service == "service" })
		require.Len(t, requests, 1)
		require.Equal(t, traceID, requests[0].Trace)
		require.Equal(t, "b7ad6b7169203331", requests[0].Parent)
		require.Equal(t, "/v1/rank", requests[0].Attributes["http.route"])
		sent := "00-" + traceID + "-" + requests[0].ID + "-01"
		require.Equal(t, map[string]string{"traceparent": sent, "tracestate": "v=1"}, p.first(t, p.cfg.Kafka.Topics.Impressions))
		batches := c.Spans(func(s collector.Span) bool { return strings.HasPrefix(s.Name, "process ") })
		require.Len(t, batches, 1, "sampled for its record's sake")
		require.Equal(t, []string{traceID}, batches[0].Links)
		ranking := p.first(t, p.cfg.Kafka.Topics.Rankings)
		require.Equal(t, sent, ranking["traceparent"])
		require.NotEmpty(t, ranking["steps"])
	})
}

func TestTracesOff(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, "timeout: 1ms", "")
	r := p.open(t)
	require.Equal(t, http.StatusOK, r.postTraced(t, "/v1/rank", fmt.Sprintf(impression, "i")).Status)
	require.Equal(t, http.StatusAccepted, r.postTraced(t, "/v1/payoffs", `{"impression_id":"i","payoff":1}`).Status)
	want := map[string]string{"traceparent": traceparent, "tracestate": "v=1"}
	require.Equal(t, want, p.first(t, p.cfg.Kafka.Topics.Impressions))
	require.Equal(t, want, p.first(t, p.cfg.Kafka.Topics.Payoffs))
}
