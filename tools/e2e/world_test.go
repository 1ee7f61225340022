package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// deadline bounds each wait of these tests; they wait for conditions, and end much earlier. A broker that loses a transaction's marker
// asks for it again after 30 s, and holds up all transactions until then.
const deadline = 2 * time.Minute

// world is one group with its topics on a Kafka and a Redis.
type world struct {
	partitions int
	group      string
	file       string
	cfg        *config.Config // the worker's
	access     *config.Config // how the test itself reaches both: with other rights, over another port
	redis      redis.UniversalClient
	log        testworker.Log // log of workers in this process
	stopRetry  time.Duration
	now        func() event.Millis // the next worker's clock; nil: the real one
	ago        time.Duration       // over which crowds spread their times, up to now; 0: records have none
}

// settings are the differences between tests' configurations.
type settings struct {
	brokers      string
	start        string // default: earliest
	noSelections bool
	kafka        string // further lines of the section
	redis        string // all lines of the section
	learner      string // the policy's line, and others
	payoffs      string // default: stochastic
	http         string // the http section; default: no server
}

// text is the configuration file of a group.
func (s settings) text(group string) string {
	selections := group + "-selections"
	if s.noSelections {
		selections = ""
	}
	return fmt.Sprintf(`
kafka:
  brokers: [%s]
  group: %s
  start: %s
  topics: {impressions: %[2]s-impressions, selections: "%[4]s", payoffs: %[2]s-payoffs, rankings: %[2]s-rankings}
  %[5]s
redis:
  %[6]s
http: {%[9]s}
limits: {max_candidates: 50}
learners:
  feed:
    payoffs: %[8]s
    %[7]s
`, s.brokers, group, cmp.Or(s.start, "earliest"), selections, s.kafka, s.redis, s.learner,
		cmp.Or(s.payoffs, "stochastic"), cmp.Or(s.http, `listen: ""`))
}

// plain are settings for a pair that lets everybody in.
func plain(env testenv.Env, learner string) settings {
	return settings{brokers: env.Kafka, redis: fmt.Sprintf("url: %q", env.RedisURL()), learner: learner}
}

func newWorld(t *testing.T, env testenv.Env, partitions int, learner string) *world {
	t.Helper()
	s := plain(env, learner)
	return makeWorld(t, partitions, s, s, os.LookupEnv)
}

// makeWorld makes a group's topics. The worker's configuration and the test's own access are settings of their own.
func makeWorld(t *testing.T, partitions int, worker, access settings, env config.Env) *world {
	t.Helper()
	w := &world{partitions: partitions, group: testenv.Unique(t, "e2e")}
	w.cfg, w.file = testworker.Load(t, worker.text(w.group), env)
	w.access, _ = testworker.Load(t, access.text(w.group), env)
	testworker.MakeTopics(t, w.access, partitions)
	security, err := w.access.RedisTLSConfig()
	require.NoError(t, err)
	w.redis = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: w.access.Redis.Addresses, TLSConfig: security,
		Username: w.access.Redis.Username, Password: string(w.access.Redis.Password), IsClusterMode: w.access.Redis.Cluster,
		ReadTimeout: deadline})
	t.Cleanup(func() { w.redis.Close() })
	return w
}

// transport is a new way to Kafka for the test's own clients: the shared one's memory of topics is older than ours.
func (w *world) transport(t *testing.T) *kafka.Transport {
	t.Helper()
	security, err := w.access.TLSConfig()
	require.NoError(t, err)
	mechanism, err := broker.NewSASL(string(w.access.Kafka.SASL.Mechanism), w.access.Kafka.SASL.Username,
		w.access.SASLPassword)
	require.NoError(t, err)
	transport := &kafka.Transport{TLS: security, SASL: mechanism}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// running is a worker in this process.
type running struct {
	*testworker.Worker
	metrics *prometheus.Registry
}

func (w *world) start(t *testing.T) *running {
	t.Helper()
	return w.startWith(t, w.cfg)
}

// startWith starts a worker with a configuration of its own.
func (w *world) startWith(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	return w.startLogging(t, cfg, &w.log)
}

// startLogging is startWith for a worker with a log of its own.
func (w *world) startLogging(t *testing.T, cfg *config.Config, log io.Writer) *running {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(testWriter{t}, log), nil))
	registry := prometheus.NewRegistry()
	return &running{testworker.Start(t, cfg, app.Options{Logger: logger, Registry: registry, StopRetry: w.stopRetry, Now: w.now}), registry}
}

// stop drains the worker.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.Stop(t)
}

// readyz returns the worker server's answer.
func (r *running) readyz() (ready bool, text string) {
	handler := stream.NewHandler(stream.ServerConfig{Registry: prometheus.NewRegistry(), Unready: r.App.Worker.Unready})
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return answer.Code == http.StatusOK, answer.Body.String()
}

// awaitReady waits until all partitions are worked on.
func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	r.await(t, "ready", func(ready bool, _ string) bool { return ready })
}

// awaitUnready waits until /readyz says why not.
func (r *running) awaitUnready(t *testing.T, why string) (text string) {
	t.Helper()
	return r.await(t, why, func(ready bool, text string) bool { return !ready && strings.Contains(text, why) })
}

// await waits for an answer of /readyz.
func (r *running) await(t *testing.T, what string, is func(ready bool, text string) bool) string {
	t.Helper()
	for end := time.Now().Add(deadline); ; {
		ready, text := r.readyz()
		if is(ready, text) {
			return text
		}
		select {
		case err := <-r.Ended:
			t.Fatalf("the worker ended while %q was waited for: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("%q was waited for, but /readyz says %q", what, text)
		}
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// within returns a context that bounds one wait.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// play lets simulated users use the pipeline. Their days pass at once, but records carry the real time: nothing expires. It ends where
// nothing has come for so long as deadline.
func (w *world) play(t *testing.T, impressions int, seed uint64, progress func(platform.Progress)) (*players, chan error) {
	t.Helper()
	c := simulate.Defaults(seed)
	c.Late = 0
	population, err := simulate.NewPopulation(c)
	require.NoError(t, err)
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	p := &players{users: platform.Simulated{{Population: population}}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stands := time.AfterFunc(deadline, cancel)
	var last platform.Progress
	goesOn := func(now platform.Progress) {
		if now != last {
			last = now
			stands.Reset(deadline)
		}
		if progress != nil {
			progress(now)
		}
	}
	p.platform = platform.New(platform.Options{Brokers: w.access.Kafka.Brokers, Transport: w.transport(t), Topics: app.TopicNames(w.cfg),
		Log: b, From: make([]int64, w.partitions), Impressions: impressions, Progress: goesOn,
		Stamp: func(event.Millis) event.Millis { return time.Now().UnixMilli() }}, p.users)
	done := make(chan error, 1)
	go func() {
		var err error
		if p.sent, err = p.platform.Run(ctx); !stands.Stop() {
			err = fmt.Errorf("nothing came for %v: %w", deadline, err)
		}
		done <- err
		close(done)
	}()
	return p, done
}

type players struct {
	platform *platform.Platform
	users    platform.Simulated
	sent     platform.Progress
}

// counts adds up the accounts of all partitions as they are stored, by name: "payoffs.applied".
func (w *world) counts(t *testing.T) map[string]int64 {
	t.Helper()
	sum := map[string]int64{}
	for p := range w.partitions {
		meta, err := w.redis.HGetAll(context.Background(), fmt.Sprintf("{%s:%d}:meta", w.group, p)).Result()
		require.NoError(t, err)
		for field, value := range meta {
			if name, ok := strings.CutPrefix(field, "account."); ok {
				n, err := strconv.ParseInt(value, 10, 64)
				require.NoError(t, err)
				sum[name] += n
			}
		}
	}
	return sum
}

// await waits until the stored account says that everything sent has been read.
func (w *world) await(t *testing.T, sent platform.Progress) map[string]int64 {
	t.Helper()
	var got map[string]int64
	require.Eventually(t, func() bool {
		got = w.counts(t)
		return got["impressions.read"] == int64(sent.Impressions) && got["selections.read"] == int64(sent.Selections) &&
			got["payoffs.read"] == int64(sent.Payoffs)
	}, deadline, 50*time.Millisecond, "sent %+v", sent)
	return got
}

// ranked reads the whole log of rankings and checks that it holds one per impression, with rising offsets.
func (w *world) ranked(t *testing.T, impressions int) {
	t.Helper()
	seen := map[string]bool{}
	w.rankedOnce(t, seen)
	require.Len(t, seen, impressions, "every impression is ranked")
}

// rankings gives all rankings that a partition of the log holds now, without its order records.
func (w *world) rankings(t *testing.T, p int) []partition.Record {
	t.Helper()
	return slices.DeleteFunc(w.read(t, w.cfg.Kafka.Topics.Rankings, p), func(r partition.Record) bool { return len(r.Value) == 0 })
}

// read gives all records that a partition of a topic holds now.
func (w *world) read(t *testing.T, topic string, p int) []partition.Record {
	t.Helper()
	// Any topic can be read as if it were the rankings: as it stands, without markers.
	cfg := *w.access
	cfg.Kafka.Topics = config.Topics{Impressions: "-", Payoffs: "-", Rankings: topic}
	b, err := app.NewBroker(&cfg)
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var all []partition.Record
	for next := int64(0); ; {
		f, err := b.Partition(int32(p)).Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: 1 << 20,
			MaxWait: 100 * time.Millisecond})
		require.NoError(t, ctx.Err())
		if err != nil {
			continue // a leader that is just being elected
		}
		all, next = append(all, f.Records...), f.Next
		if next >= f.High {
			return all
		}
	}
}

func (w *world) publish(t *testing.T, messages ...kafka.Message) {
	t.Helper()
	transport := w.transport(t)
	defer transport.CloseIdleConnections() // each asks for all topics every few seconds, and tests publish hundreds of times
	writer := &kafka.Writer{Transport: transport, Addr: kafka.TCP(w.access.Kafka.Brokers...), Balancer: kafka.Murmur2Balancer{}, BatchTimeout: time.Millisecond,
		RequiredAcks: kafka.RequireAll}
	defer writer.Close()
	require.NoError(t, writer.WriteMessages(t.Context(), messages...))
}

// letters reads the first n dead letters of an input topic, as anybody's client would, and makes sure that there are
// no more.
func (w *world) letters(t *testing.T, topic string, n int) []kafka.Message {
	t.Helper()
	topic = w.cfg.Kafka.Topics.DLQ(topic)
	require.Len(t, w.read(t, topic, 0), n)
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: w.access.Kafka.Brokers, Topic: topic, MaxWait: 100 * time.Millisecond})
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var all []kafka.Message
	for len(all) < n {
		m, err := r.ReadMessage(ctx)
		require.NoError(t, err)
		if len(m.Headers) > 0 { // else it is a fence's marker, which this reader does not hide
			all = append(all, m)
		}
	}
	return all
}
