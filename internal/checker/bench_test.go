package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
)

// BenchmarkCheck checks what a real worker has made of 100,000 impressions of 10 candidates, each with a selection and
// nine of ten with a payoff: records/s over all topics, and the bytes of memory that a check allocates per record. The embedded
// broker works in the same process, on the same cores; Redis is a real one.
func BenchmarkCheck(b *testing.B) {
	const impressions = 100_000
	env := testenv.Embedded(b)
	env.Redis = testenv.Redis(b).Addr
	w := newWorld(b, env, 4, "  feed: {payoffs: stochastic, policy: greedy}", "")
	sent := w.fill(b, impressions)
	worker := w.start(b, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(b, w.await(ctx, sent))
	worker.stop(b)
	var records int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		r := w.check(b)
		requireClean(b, r)
		records += r.Records
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(records), "B/record")
}

// fill publishes impressions with selections and payoffs behind them.
func (w *world) fill(t testing.TB, impressions int) map[string]int {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	sent := map[string]int{}
	var batch []kafka.Message
	w.writer.BatchSize = 10_000
	add := func(role, topic, id, value string) {
		batch = append(batch, kafka.Message{Topic: topic, Key: []byte(id), Value: []byte(value)})
		sent[role]++
	}
	topics := w.cfg.Kafka.Topics
	for n := range impressions {
		id := fmt.Sprintf("impression-%08d", n)
		var list []string
		first := rng.IntN(1000)
		for k := range 10 {
			list = append(list, fmt.Sprintf(`{"item":"item-%d","utility":%.4f}`, first+k, rng.Float64()))
		}
		add("impressions", topics.Impressions, id, fmt.Sprintf(`{"impression_id":%q,"candidates":[%s]}`, id, strings.Join(list, ",")))
		add("selections", topics.Selections, id, fmt.Sprintf(`{"impression_id":%q,"item":"item-%d"}`, id, first+rng.IntN(10)))
		if n%10 != 0 {
			add("payoffs", topics.Payoffs, id, fmt.Sprintf(`{"impression_id":%q,"payoff":%.6f}`, id, rng.Float64()))
		}
		if len(batch) > 10_000 || n == impressions-1 {
			require.NoError(t, w.writer.WriteMessages(context.Background(), batch...))
			batch = batch[:0]
		}
	}
	return sent
}
