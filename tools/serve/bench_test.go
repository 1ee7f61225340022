package serve

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// BenchmarkRank asks for rankings in an open loop, RATE a second (2,000), whatever becomes of those before, and says when they were
// answered, counted from when they were due. Beside it stands the worker's own time, from the Kafka timestamp of an impression to the
// acknowledgement of its ranking, by its histogram. The two p99 must be at most 5 ms apart. docs/contribute/benchmarks.md says how it is
// run.
func BenchmarkRank(b *testing.B) {
	if testenv.Short() {
		b.Skipf("%s=1", testenv.ShortEnv)
	}
	rate, err := strconv.Atoi(cmp.Or(os.Getenv("RATE"), "2000"))
	require.NoError(b, err)
	p := newPlace(b, testenv.Real(b), 6, "timeout: 10s", "")
	registry := prometheus.NewRegistry()
	p.workMetered(b, registry)
	r := p.openUnready(b)
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	require.Eventually(b, func() bool { return len(r.service.Unready()) == 0 }, deadline, 5*time.Millisecond)
	var candidates []string
	for i := range 20 {
		candidates = append(candidates, fmt.Sprintf(`{"item":"item-%d","utility":0.%d}`, i, i+1))
	}
	list := strings.Join(candidates, ",")
	ask := func(id string) bool {
		res, err := r.client.Post(r.url+"/v1/rank", "application/json", strings.NewReader(fmt.Sprintf(`{"impression_id":%q,"candidates":[%s]}`, id, list)))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		return err == nil && bytes.HasPrefix(answer, []byte(`{"substitute":false`))
	}
	loop := func(prefix string, n int) []time.Duration {
		took := make([]time.Duration, n)
		var wg sync.WaitGroup
		start := time.Now()
		for i := range n {
			due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
			wg.Add(1)
			time.AfterFunc(time.Until(due), func() {
				defer wg.Done()
				if ask(prefix + strconv.Itoa(i)) {
					took[i] = time.Since(due)
				}
			})
		}
		wg.Wait()
		return took
	}
	loop("warm-", 3*rate)
	before := latencies(b, registry)
	b.ResetTimer()
	took := loop("i-", max(b.N, 10*rate))
	b.StopTimer()
	slices.Sort(took)
	failed, _ := slices.BinarySearch(took, 1)
	b.ReportMetric(float64(failed), "failed")
	took = took[failed:]
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	after := latencies(b, registry)
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(1000*quantile(before, after, 0.5), "worker-p50-ms")
	worker := 1000 * quantile(before, after, 0.99)
	b.ReportMetric(worker, "worker-p99-ms")
	b.ReportMetric(at(0.99)-worker, "p99-above-worker-ms")
	b.ReportMetric(0, "ns/op")
}

// latencies are the worker's, from an impression's Kafka timestamp to the acknowledgement of its ranking.
func latencies(b *testing.B, registry *prometheus.Registry) *dto.Histogram {
	b.Helper()
	families, err := registry.Gather()
	require.NoError(b, err)
	for _, f := range families {
		if f.GetName() == "ranker_impression_to_ranking_seconds" {
			return f.GetMetric()[0].GetHistogram()
		}
	}
	b.Fatal("the worker has no histogram of its latencies")
	return nil
}

// quantile is that of the observations in between, as Prometheus would estimate it: evenly spread within its bucket.
func quantile(before, after *dto.Histogram, q float64) float64 {
	want := q * float64(after.GetSampleCount()-before.GetSampleCount())
	low, under := 0.0, 0.0
	for i, bucket := range after.GetBucket() {
		upTo := float64(bucket.GetCumulativeCount() - before.GetBucket()[i].GetCumulativeCount())
		if upTo >= want {
			return low + (bucket.GetUpperBound()-low)*(want-under)/(upTo-under)
		}
		low, under = bucket.GetUpperBound(), upTo
	}
	return low
}
