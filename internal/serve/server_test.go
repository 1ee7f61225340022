package serve

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestRun_ASecondSignalCutsWritesOff: an impression whose client has its answer waits for a broker that hangs.
func TestRun_ASecondSignalCutsWritesOff(t *testing.T) {
	cfg, _, err := config.Load("x", []byte(`{kafka: {brokers: ["127.0.0.1:1"], group: g}, redis: {url: "redis://127.0.0.1:1/0"},
		serve: {listen: "127.0.0.1:0"}, learners: {feed: {payoff_horizon: 1h}}}`), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	topics := [event.Topics]string{"i", "s", "p", "r"}
	b, err := broker.New(broker.Options{Brokers: cfg.Kafka.Brokers, Group: "g", Topics: topics, DLQSuffix: "-d"})
	require.NoError(t, err)
	defer b.Close()
	s, err := New(cfg, b, topics, Options{Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry())})
	require.NoError(t, err)
	s.writer = newWriter(&log{gate: make(chan struct{})}, one)
	a := &asked{id: "1"}
	_, c, _ := s.book.join(a.id, a.value, time.Now())
	s.work.Go(func() { s.give(c, a) })
	s.book.leave(c)
	server, err := Listen(s, stream.ServerConfig{Registry: prometheus.NewRegistry(), Unready: s.Unready})
	require.NoError(t, err)
	drain, first := context.WithCancel(t.Context())
	force, second := context.WithCancel(t.Context())
	first()
	time.AfterFunc(100*time.Millisecond, second)
	start := time.Now()
	require.NoError(t, server.Run(drain, force))
	require.Less(t, time.Since(start), writeAttempt)
	require.Error(t, c.err, "it is not written")
}
