package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// BenchmarkCheck checks a real worker's results on impressions of 10 candidates, each with a selection, and nine of ten with a payoff.
// It reports records/s over all topics, processor time per record in this process, bytes allocated, and the most memory held per id
// that is not over. At once: all impressions are pending or have just ended; in turn: they spread over two days, and most are over.
//
// The embedded broker uses the same process and cores; the real one runs beside. Redis is a real one.
func BenchmarkCheck(b *testing.B) {
	embedded := func(b *testing.B) testenv.Env {
		env := testenv.Embedded(b)
		env.Redis = testenv.Redis(b).Addr
		return env
	}
	real := func(b *testing.B) testenv.Env { return testenv.Real(b) }
	for _, c := range []struct {
		name        string
		env         func(*testing.B) testenv.Env
		impressions int
		step        time.Duration
	}{
		{"embedded/at once", embedded, 100_000, 0},
		{"embedded/in turn", embedded, 100_000, time.Second},
		{"real/at once", real, 150_000, 0},
		{"real/in turn", real, 150_000, time.Second},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkCheck(b, c.env(b), c.impressions, c.step) })
	}
}

func benchmarkCheck(b *testing.B, env testenv.Env, impressions int, step time.Duration) {
	w := newWorld(b, env, 4, "  feed: {payoffs: stochastic, policy: greedy, payoff_horizon: 1h, selection_timeout: 10m}", "join: {parking_time: 10m, remember: 10m}")
	sent := w.fill(b, time.Now().Add(-time.Duration(impressions)*step), 0, impressions, step)
	worker := w.start(b, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(b, w.await(ctx, sent))
	if step > 0 {
		w.awaitForgotten(b, impressions-int(2*time.Hour/step))
	}
	worker.stop(b)
	var records, held int64
	live, most := watchHeap(b)
	began := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		r := w.check(b)
		requireClean(b, r)
		records += r.Records
		held = 0
		for _, p := range r.Partitions {
			held += p.Held
		}
	}
	used := processorTime(b) - began
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(records), "cpu-ns/record")
	b.ReportMetric(float64(records)/float64(b.N), "records/op")
	b.ReportMetric(float64(held), "held-ids")
	b.ReportMetric(float64(most()-live)/float64(held), "live-B/held-id")
}

// watchHeap returns the live heap now, and a function for its maximum since.
func watchHeap(b *testing.B) (now int64, most func() int64) {
	read := func() int64 {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	var highest int64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				highest = max(highest, read())
			}
		}
	}()
	runtime.GC()
	return read(), func() int64 {
		close(done)
		<-stopped
		return highest
	}
}

// processorTime returns this process's processor time.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fill publishes impressions of these numbers with selections and payoffs behind them, dated one step after another.
func (w *world) fill(t testing.TB, from time.Time, first, end int, step time.Duration) map[string]int {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(first)))
	sent := map[string]int{}
	var batch []kafka.Message
	w.writer.BatchSize = 10_000
	add := func(role, topic, id, value string) {
		batch = append(batch, kafka.Message{Topic: topic, Key: []byte(id), Value: []byte(value), Time: from})
		sent[role]++
	}
	topics := w.cfg.Kafka.Topics
	for n := first; n < end; n++ {
		id := fmt.Sprintf("impression-%08d", n)
		var list []string
		item := rng.IntN(1000)
		for k := range 10 {
			list = append(list, fmt.Sprintf(`{"item":"item-%d","utility":%.4f}`, item+k, rng.Float64()))
		}
		add("impressions", topics.Impressions, id, fmt.Sprintf(`{"impression_id":%q,"candidates":[%s]}`, id, strings.Join(list, ",")))
		add("selections", topics.Selections, id, fmt.Sprintf(`{"impression_id":%q,"item":"item-%d"}`, id, item+rng.IntN(10)))
		if n%10 != 0 {
			add("payoffs", topics.Payoffs, id, fmt.Sprintf(`{"impression_id":%q,"payoff":%.6f}`, id, rng.Float64()))
		}
		if len(batch) > 10_000 || n == end-1 {
			require.NoError(t, w.writer.WriteMessages(context.Background(), batch...))
			batch = batch[:0]
		}
		from = from.Add(step)
	}
	return sent
}
