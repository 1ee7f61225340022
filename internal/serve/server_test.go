package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestAwait_NamesTheCause: while Kafka hangs it is not the workers that are late.
func TestAwait_NamesTheCause(t *testing.T) {
	for want, to := range map[cause]*log{late: {}, unwritten: {gate: make(chan struct{})}} {
		s := newTestService(t, "127.0.0.1:1", to)
		a := &asked{id: "1", items: []string{"a"}}
		_, c, _ := s.book.join(a.id, a.value, time.Now())
		s.work.Go(func() { s.give(c, a) })
		if want == late {
			s.work.Wait() // it is written
		}
		timeout := make(chan time.Time, 1)
		timeout <- time.Now()
		answer := s.await(t.Context(), a, c, timeout)
		require.Contains(t, string(answer.body), `"substitute":true`)
		require.Equal(t, 1., testutil.ToFloat64(s.opt.Metrics.substitutes.WithLabelValues(string(want))), want)
		s.writer.close()
		s.work.Wait()
	}
}

// TestRun_LooksBackNoLonger: a search for an old ranking, at a broker that hangs, ends with the service.
func TestRun_LooksBackNoLonger(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hangs.Close()
	s := newTestService(t, hangs.Addr().String(), &log{})
	s.work.Go(func() { s.lookBack(&asked{id: "1"}) })
	running, stop := context.WithCancel(t.Context())
	stop()
	start := time.Now()
	s.Run(running)
	require.Less(t, time.Since(start), requestLimit/2)
}

// TestRun_ASecondSignalCutsWritesOff: an impression whose client has its answer waits for a broker that hangs.
func TestRun_ASecondSignalCutsWritesOff(t *testing.T) {
	s := newTestService(t, "127.0.0.1:1", &log{gate: make(chan struct{})})
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

// TestHandler_ClientsThatHangUp count as such, and not as failures of Kafka.
func TestHandler_ClientsThatHangUp(t *testing.T) {
	s := newTestService(t, "127.0.0.1:1", &log{gate: make(chan struct{})})
	ctx, hangUp := context.WithCancel(t.Context())
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, payoffsPath, strings.NewReader(`{"impression_id":"i","payoff":1}`))
	request.Header.Set("Content-Type", "application/json")
	time.AfterFunc(10*time.Millisecond, hangUp)
	s.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), request)
	require.EqualValues(t, 1, testutil.ToFloat64(s.opt.Metrics.requests.WithLabelValues(payoffsPath, "499")))
	require.Zero(t, testutil.ToFloat64(s.opt.Metrics.requests.WithLabelValues(payoffsPath, "503")))
	s.writer.close()
}

// newTestService writes to a log, and reads nothing.
func newTestService(t *testing.T, address string, to *log) *Service {
	cfg, _, err := config.Load("x", []byte(`{kafka: {brokers: ["`+address+`"], group: g}, redis: {url: "redis://127.0.0.1:1/0"},
		serve: {listen: "127.0.0.1:0"}, learners: {feed: {payoff_horizon: 1h}}}`), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	topics := [event.Topics]string{"i", "s", "p", "r"}
	b, err := broker.New(broker.Options{Brokers: cfg.Kafka.Brokers, Group: "g", Topics: topics, DLQSuffix: "-d"})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	s, err := New(cfg, b, topics, Options{Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry())})
	require.NoError(t, err)
	s.writer = newWriter(to, one)
	return s
}
