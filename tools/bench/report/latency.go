package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

// Latency is the wait of impressions for their rankings. It lasts from the time at which the impression was due to be sent, even if its
// producer was late, to a consumer's receipt of the ranking.
type Latency struct {
	P50, P99 time.Duration
	// Upper bounds of the buckets of the worker's own histogram, from an impression's Kafka timestamp to the acknowledgement of its
	// ranking.
	WorkerP50, WorkerP99 time.Duration
	CPU                  time.Duration // of the worker, per impression
}

const (
	// burst is the interval of each partition's producer, the default of producers of Kafka 4 (linger.ms).
	burst = 5 * time.Millisecond
	// warmUp is not measured.
	warmUp = 5 * time.Second
	// settleTime bounds the wait after the last impression.
	settleTime = 20 * time.Second
)

// latency runs an open loop: impressions are sent on schedule, whatever the latency of earlier ones.
func (b *bench) latency(ctx context.Context) (*Latency, error) {
	run := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	c, err := b.create(ctx, b.topics(run, run), run)
	if err != nil {
		return nil, err
	}
	defer b.drop(ctx, c, event.Rankings)
	w, listen, err := b.worker(ctx, c, stochastic)
	if err != nil {
		return nil, err
	}
	l, err := b.openLoop(ctx, c, w, listen)
	return l, errors.Join(err, w.stop())
}

func (b *bench) openLoop(ctx context.Context, c *broker.Client, w *child, listen string) (*Latency, error) {
	if err := awaitReady(ctx, listen); err != nil {
		return nil, fmt.Errorf("waiting for the worker: %w", err)
	}
	b.say("%d impressions per second for %v", b.Rate, warmUp+b.Latency)
	origin := time.Now()
	l := loop{c: c, origin: origin, from: origin.Add(warmUp), until: origin.Add(warmUp + b.Latency)}
	ctx, cancel := context.WithDeadline(ctx, l.until.Add(settleTime))
	defer cancel()
	var before, after scrape
	var cpu time.Duration
	g, gctx := errgroup.WithContext(ctx)
	for p := range b.Partitions {
		g.Go(func() error { return l.produce(gctx, p, b.Partitions, b.Rate) })
	}
	g.Go(func() (err error) {
		if err = sleepUntil(gctx, l.from); err != nil {
			return err
		}
		cpu = cpuTime(w.cmd.Process.Pid)
		before, err = scrapeLatency(gctx, listen)
		return err
	})
	g.Go(func() (err error) {
		if err = sleepUntil(gctx, l.until); err != nil {
			return err
		}
		cpu = cpuTime(w.cmd.Process.Pid) - cpu
		after, err = scrapeLatency(gctx, listen)
		return err
	})
	readers, rctx := errgroup.WithContext(ctx)
	samples := make([][]time.Duration, b.Partitions)
	for p := range b.Partitions {
		readers.Go(func() (err error) { samples[p], err = l.consume(rctx, p); return err })
	}
	if err := g.Wait(); err != nil {
		cancel()
		return nil, errors.Join(err, readers.Wait())
	}
	l.sentAll.Store(true)
	if err := readers.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(samples...)
	slices.Sort(all)
	if len(all) == 0 {
		return nil, errors.New("no ranking came")
	}
	res := &Latency{P50: all[len(all)/2], P99: all[len(all)*99/100], CPU: cpu / time.Duration(len(all))}
	res.WorkerP50, res.WorkerP99 = after.minus(before).quantile(0.5), after.minus(before).quantile(0.99)
	b.say("latency: p50 %v, p90 %v, p99 %v, p99.9 %v, worst %v; the worker's p50 ≤ %v, p99 ≤ %v", res.P50, all[len(all)*9/10],
		res.P99, all[len(all)*999/1000], all[len(all)-1], res.WorkerP50, res.WorkerP99)
	return res, nil
}

type loop struct {
	c                   *broker.Client
	origin, from, until time.Time
	sent                sync.Map // by partition: int64, how many
	sentAll             atomic.Bool
}

// produce sends one partition's share on schedule. The impression's id carries the time at which it was due.
func (l *loop) produce(ctx context.Context, p, partitions, rate int) error {
	perSecond := float64(rate) / float64(partitions)
	offset := time.Duration(p) * burst / time.Duration(partitions) // partitions do not send all at once
	var sent int64
	var messages []task.OutMessage
	var buf []byte
	for due := l.origin.Add(offset); due.Before(l.until); due = due.Add(burst) {
		if err := sleepUntil(ctx, due); err != nil {
			return err
		}
		messages = messages[:0]
		for want := int64(due.Sub(l.origin).Seconds() * perSecond); sent+int64(len(messages)) < want; {
			at := sent + int64(len(messages))
			m := copier.NamedImpression(name(due, at, p, partitions), at*int64(partitions)+int64(p))
			messages = append(messages, m)
		}
		if len(messages) == 0 {
			continue
		}
		var err error
		buf, err = broker.AppendBatch(buf[:0], &broker.BatchInfo{Producer: task.Producer{ID: -1, Epoch: -1}, Sequence: -1,
			Timestamp: due.UnixMilli()}, messages)
		if err != nil {
			return err
		}
		err = copier.Send(ctx, l.c, event.Impressions, p, buf)
		if err != nil {
			return fmt.Errorf("sending impressions: %w", err)
		}
		sent += int64(len(messages))
	}
	l.sent.Store(p, sent)
	return nil
}

// name returns an id of partition p with the time at which it was due.
func name(due time.Time, at int64, p, partitions int) []byte {
	for nonce := 0; ; nonce++ {
		id := fmt.Appendf(nil, "%d-%d-%d", due.UnixNano(), at, nonce)
		if state.PartitionOf(id, partitions) == int32(p) {
			return id
		}
	}
}

// consume reads one partition's rankings to the end, without those due before the measurement.
func (l *loop) consume(ctx context.Context, p int) ([]time.Duration, error) {
	var samples []time.Duration
	var next, got int64
	for {
		if l.sentAll.Load() {
			if sent, _ := l.sent.Load(p); got == sent.(int64) {
				return samples, nil
			}
		}
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		f, err := l.c.Partition(int32(p)).Fetch(call, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: 1 << 20,
			MaxWait: 200 * time.Millisecond})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("reading rankings: %w", errors.Join(ctx.Err(), err))
		}
		now := time.Now()
		next = f.Next
		for i := range f.Records {
			if f.Records[i].Value == nil { // an order record
				continue
			}
			nanos, _, _ := bytes.Cut(f.Records[i].Key, []byte{'-'})
			due, err := strconv.ParseInt(string(nanos), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("a ranking of an unknown impression %q", f.Records[i].Key)
			}
			got++
			if at := time.Unix(0, due); !at.Before(l.from) {
				samples = append(samples, now.Sub(at))
			}
		}
	}
}

func sleepUntil(ctx context.Context, at time.Time) error {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func get(ctx context.Context, url string) ([]byte, error) { return getBy(ctx, http.DefaultClient, url) }

func getBy(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, body)
	}
	return body, err
}

func awaitReady(ctx context.Context, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := get(ctx, "http://"+listen+"/readyz")
		if err == nil {
			return nil
		}
		if sleepErr := sleepUntil(ctx, time.Now().Add(50*time.Millisecond)); sleepErr != nil {
			return err
		}
	}
}

// scrape is a histogram: the number of samples up to each bound.
type scrape map[float64]float64

func scrapeMetrics(ctx context.Context, listen string) (map[string]*dto.MetricFamily, error) {
	body, err := get(ctx, "http://"+listen+"/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("reading the worker's metrics: %w", err)
	}
	return families, nil
}

func scrapeLatency(ctx context.Context, listen string) (scrape, error) {
	families, err := scrapeMetrics(ctx, listen)
	if err != nil {
		return nil, err
	}
	s := scrape{}
	for _, m := range families["ranker_impression_to_ranking_seconds"].GetMetric() {
		for _, bucket := range m.GetHistogram().GetBucket() {
			s[bucket.GetUpperBound()] = float64(bucket.GetCumulativeCount())
		}
		s[math.Inf(1)] = float64(m.GetHistogram().GetSampleCount())
	}
	return s, nil
}

func (s scrape) minus(before scrape) scrape {
	diff := scrape{}
	for bound, n := range s {
		diff[bound] = n - before[bound]
	}
	return diff
}

// quantile returns the least bound with the share q of the samples.
func (s scrape) quantile(q float64) time.Duration {
	least := math.Inf(1)
	for bound, n := range s {
		if n >= q*s[math.Inf(1)] {
			least = min(least, bound)
		}
	}
	if math.IsInf(least, 1) {
		return math.MaxInt64
	}
	return time.Duration(least * float64(time.Second))
}

// profile keeps five seconds of the worker's CPU profile, its allocations and heap, and its metrics.
func (b *bench) profile(ctx context.Context, listen string) {
	if err := awaitReady(ctx, listen); err != nil {
		return
	}
	keep := func(name, path string) {
		body, err := get(ctx, "http://"+listen+path)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.Profile, name), body, 0o600)
		}
		if err != nil {
			b.say("profile: %v", err)
		}
	}
	go keep("allocs.pprof", "/debug/pprof/allocs?seconds=5")
	keep("cpu.pprof", "/debug/pprof/profile?seconds=5")
	keep("heap.pprof", "/debug/pprof/heap")
	keep("metrics.txt", "/metrics")
}
