package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/internal/tracing"
	"github.com/ranker-worker/ranker-worker/stream"
)

// deadline bounds each wait; waits are usually much shorter.
const deadline = time.Minute

// place is a group with its topics, a worker and services.
type place struct {
	cfg       *config.Config
	log       testworker.Log // of services
	tokenRate int            // of their options
}

// newPlace makes the topics of a group. Serve are lines of that section; more are further lines of the file.
func newPlace(t testing.TB, env testenv.Env, partitions int, serve, more string) *place {
	t.Helper()
	group := testenv.Unique(t, "service")
	cfg, _ := testworker.Load(t, fmt.Sprintf(`
kafka:
  brokers: [%s]
  group: %s
  start: earliest
  topics: {impressions: %[2]s-impressions, selections: %[2]s-selections, payoffs: %[2]s-payoffs, rankings: %[2]s-rankings}
redis: {url: %q}
http: {listen: ""}
serve: {listen: "127.0.0.1:0", %s}
limits: {max_candidates: 50}
learners: {feed: {payoffs: stochastic, policy: greedy}}
%s`, env.Kafka, group, env.RedisURL(), serve, more), os.LookupEnv, config.KafkaFiles, config.RedisFiles, config.ServeFiles)
	testworker.MakeTopics(t, cfg, partitions)
	return &place{cfg: cfg}
}

// work starts a worker and returns a function that drains it.
func (p *place) work(t testing.TB) (stop func()) {
	t.Helper()
	return p.workMetered(t, prometheus.NewRegistry())
}

// workMetered is work that counts in a registry.
func (p *place) workMetered(t testing.TB, registry *prometheus.Registry) (stop func()) {
	t.Helper()
	w, stop := begin(t, p.cfg, registry)
	require.Eventually(t, func() bool { return len(w.Unready()) == 0 }, deadline, 10*time.Millisecond)
	return stop
}

// begin starts a worker, and does not wait until it is ready.
func begin(t testing.TB, cfg *config.Config, registry *prometheus.Registry) (w *stream.Worker, stop func()) {
	t.Helper()
	one := testworker.Start(t, cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Registry: registry})
	stop = func() { one.Stop(t) }
	t.Cleanup(stop)
	return one.Worker, stop
}

// running is a service that serves.
type running struct {
	url     string
	token   string
	service *serve.Service
	stop    func()
	client  *http.Client
}

// open starts a service, and waits until it is ready.
func (p *place) open(t *testing.T) *running {
	t.Helper()
	r := p.openUnready(t)
	require.Eventually(t, func() bool { return len(r.service.Unready()) == 0 }, deadline, 5*time.Millisecond)
	return r
}

func (p *place) openUnready(t testing.TB) *running {
	t.Helper()
	b, err := app.NewBroker(p.cfg)
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	logger := slog.New(slog.NewTextHandler(&p.log, nil))
	traces, err := tracing.New(p.cfg, "service", "test", logger)
	require.NoError(t, err)
	d, err := serve.New(p.cfg, b, app.TopicNames(p.cfg), serve.Options{Logger: logger, Metrics: serve.NewMetrics(registry), Tracers: traces.Tracers(), TokenRate: p.tokenRate})
	require.NoError(t, err)
	s, err := serve.Listen(d, stream.ServerConfig{Registry: registry, Unready: d.Unready, Version: "test"})
	require.NoError(t, err)
	drain, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(drain, context.Background()) }()
	r := &running{url: "http://" + s.Addr(), service: d, client: &http.Client{Transport: conforming{t, &http.Transport{MaxIdleConnsPerHost: 100}}}}
	r.stop = sync.OnceFunc(func() {
		r.client.CloseIdleConnections()
		cancel()
		require.NoError(t, <-ended)
		traces.Close()
		b.Close()
	})
	t.Cleanup(r.stop)
	return r
}

// reply is an answer.
type reply struct {
	Status int
	Kind   string
	Body   []byte
	Header http.Header
}

// ranked is the answer to an impression.
type ranked struct {
	Substitute bool
	ID         string `json:"impression_id"`
	Learner    string
	Items      []string
	Decision   *struct{ Offset int64 }
}

// problem is the body of an error.
type problem struct {
	Type, Title, Detail string
	Status              int
	Errors              []struct{ Reason, Detail, Pointer string }
}

func (r *running) do(t *testing.T, method, path, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	return r.send(t, req)
}

func (r *running) send(t *testing.T, req *http.Request) reply {
	t.Helper()
	res, err := r.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return reply{res.StatusCode, res.Header.Get("Content-Type"), answer, res.Header}
}

func (r *running) post(t *testing.T, path, body string) reply {
	t.Helper()
	return r.do(t, http.MethodPost, path, body)
}

// rank posts an impression that must be answered.
func (r *running) rank(t *testing.T, body string) ranked {
	t.Helper()
	a := r.post(t, "/v1/rank", body)
	require.Equal(t, http.StatusOK, a.Status, string(a.Body))
	return a.ranked(t)
}

func (a reply) ranked(t *testing.T) (out ranked) {
	t.Helper()
	require.Equal(t, "application/json", a.Kind)
	require.NoError(t, json.Unmarshal(a.Body, &out), string(a.Body))
	return out
}

func (a reply) problem(t *testing.T) (out problem) {
	t.Helper()
	require.Equal(t, "application/problem+json", a.Kind, string(a.Body))
	require.NoError(t, json.Unmarshal(a.Body, &out), string(a.Body))
	require.Equal(t, a.Status, out.Status)
	return out
}
