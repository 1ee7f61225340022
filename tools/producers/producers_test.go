package producers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

// deadline bounds each wait; the whole test takes far less.
const deadline = 2 * time.Minute

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// small are few records, each sent at once; large are as many as a busy producer gathers in a second, and half of that in the
// codecs other than zstd.
const small = 40

// producer writes a list of cells.
type producer struct {
	name  string
	modes []string
	write func(ctx context.Context, w *works, cells []cell) error
}

var all = []producer{
	{"java", []string{"idempotent", "transactional"}, byJava},
	{"librdkafka", []string{"plain", "idempotent", "transactional"}, byLibrdkafka},
	{"franz-go", []string{"idempotent", "transactional"}, byFranzGo},
	{"kafka-go", []string{"plain"}, byKafkaGo},
}

// cell is a run of one producer: records with the keys prefix-0, prefix-1, … into one partition.
type cell struct {
	mode, codec string
	partition   int
	prefix      string
	records     int
	linger      time.Duration
}

// value is a record's: about a kilobyte of JSON, much of which is the same in all of them.
func (c *cell) value(i int, rest string) string {
	return fmt.Sprintf(`{"impression_id":"%s-%d",%s`, c.prefix, i, rest)
}

// works is where they write to.
type works struct {
	brokers, topic string
	rest           string // the suffix of all values
	restFile       string
}

// cells returns a producer's cells in a mode, for a partition of its own, in this order.
func cells(p *producer, mode string, partition, large int) (all []cell) {
	for _, codec := range codecs {
		few := cell{mode: mode, codec: codec, partition: partition, prefix: fmt.Sprintf("%s.%s.%s", p.name, mode, codec), records: small}
		many := few
		many.prefix, many.records, many.linger = few.prefix+".large", large/2, time.Second
		if codec == "zstd" {
			many.records = large
		}
		all = append(all, few, many)
	}
	return all
}

func newWorks(t *testing.T, brokers, topic string) *works {
	t.Helper()
	var rest strings.Builder
	rest.WriteString(`"candidates":[{"item":"film-1","utility":0.25},{"item":"film-2","utility":0.5}],"context":"`)
	rest.WriteString(strings.Repeat("what the platform wanted to say besides, ", 21))
	rest.WriteString(`"}`)
	w := &works{brokers: brokers, topic: topic, rest: rest.String(), restFile: filepath.Join(t.TempDir(), "rest")}
	require.NoError(t, os.WriteFile(w.restFile, []byte(w.rest), 0o600))
	return w
}

// plan returns the cells as text, for the programs in other languages.
func plan(cells []cell) string {
	var b strings.Builder
	for i := range cells {
		c := &cells[i]
		fmt.Fprintln(&b, c.mode, c.codec, c.partition, c.prefix, c.records, c.linger.Milliseconds())
	}
	return b.String()
}

func run(ctx context.Context, cells []cell, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(plan(cells))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, tail(out.String()))
	}
	return nil
}

func tail(s string) string { return s[max(0, len(s)-3000):] }

func byJava(ctx context.Context, w *works, cells []cell) error {
	java, err := realkafka.Java(ctx)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, java, "--list-modules").Output(); err != nil || !bytes.Contains(out, []byte("jdk.compiler")) {
		return fmt.Errorf("%s cannot compile: apt-get install openjdk-17-jdk-headless", java)
	}
	jars, err := realkafka.Fetch(ctx)
	if err != nil {
		return err
	}
	return run(ctx, cells, java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(jars, "*"), filepath.Join("testdata", "Produce.java"), w.brokers, w.topic, w.restFile)
}

func byLibrdkafka(ctx context.Context, w *works, cells []cell) error {
	cache, err := realkafka.CacheDir()
	if err != nil {
		return err
	}
	python := filepath.Join(cache, "python", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		return fmt.Errorf("librdkafka's Python client is not installed: make tools (it needs python3, with pip and venv): %w", err)
	}
	return run(ctx, cells, python, filepath.Join("testdata", "produce.py"), w.brokers, w.topic, w.restFile)
}

func byFranzGo(ctx context.Context, w *works, cells []cell) error {
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for i := range cells {
		c := &cells[i]
		opts := []kgo.Opt{kgo.SeedBrokers(w.brokers), kgo.DefaultProduceTopic(w.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerLinger(c.linger), kgo.ProducerBatchCompression(codec[c.codec])}
		if c.mode == "transactional" {
			opts = append(opts, kgo.TransactionalID(c.prefix))
		}
		if err := produceFranzGo(ctx, w, c, opts); err != nil {
			return fmt.Errorf("%s: %w", c.prefix, err)
		}
	}
	return nil
}

func produceFranzGo(ctx context.Context, w *works, c *cell, opts []kgo.Opt) error {
	k, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer k.Close()
	if c.mode == "transactional" {
		if err := k.BeginTransaction(); err != nil {
			return err
		}
	}
	var first kgo.FirstErrPromise
	for i := range c.records {
		r := &kgo.Record{Partition: int32(c.partition), Key: fmt.Appendf(nil, "%s-%d", c.prefix, i), Value: []byte(c.value(i, w.rest))}
		k.Produce(ctx, r, first.Promise())
	}
	if err := k.Flush(ctx); err != nil {
		return err
	}
	if err := first.Err(); err != nil || c.mode != "transactional" {
		return err
	}
	return k.EndTransaction(ctx, kgo.TryCommit)
}

func byKafkaGo(ctx context.Context, w *works, cells []cell) error {
	codec := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	for i := range cells {
		c := &cells[i]
		writer := &kafka.Writer{Addr: kafka.TCP(w.brokers), Topic: w.topic, Transport: transport, RequiredAcks: kafka.RequireAll,
			Compression: codec[c.codec], BatchSize: 1, BatchTimeout: max(c.linger, time.Millisecond), WriteTimeout: time.Minute,
			Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return c.partition })}
		if c.linger > 0 {
			writer.BatchSize = c.records
			if c.codec != "none" {
				writer.BatchBytes = 16 << 20 // which the broker, that sees them compressed, takes
			}
		}
		messages := make([]kafka.Message, c.records)
		for i := range messages {
			messages[i] = kafka.Message{Key: fmt.Appendf(nil, "%s-%d", c.prefix, i), Value: []byte(c.value(i, w.rest))}
		}
		if err := writer.WriteMessages(ctx, messages...); err != nil {
			return fmt.Errorf("%s: %w", c.prefix, err)
		}
		if err := writer.Close(); err != nil {
			return fmt.Errorf("%s: %w", c.prefix, err)
		}
	}
	return nil
}

// Producers' records are read byte for byte, and each impression is ranked.
func TestWhatProducersWriteIsReadAndRanked(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { // kfake stores any batch; a smaller pass shows that nothing depends on the broker
		if testenv.Short() { // Go's own clients only
			matrix(t, testenv.Embedded(t), 500, all[2:])
			return
		}
		matrix(t, testenv.Embedded(t), 500, all)
	})
	t.Run("real", func(t *testing.T) { matrix(t, testenv.Real(t), 6000, all) })
}

func matrix(t *testing.T, env testenv.Env, large int, by []producer) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var rows [][]cell // by partition
	var writes []func(w *works) error
	for i := range by {
		p, mine := &by[i], []cell(nil)
		for _, mode := range p.modes {
			rows = append(rows, cells(p, mode, len(rows), large))
			mine = append(mine, rows[len(rows)-1]...)
		}
		writes = append(writes, func(w *works) error { return p.write(ctx, w, mine) })
	}
	g := newGroup(t, env, len(rows), false)
	w := newWorks(t, env.Kafka, g.cfg.Kafka.Topics.Impressions)
	began := time.Now()
	writing, _ := errgroup.WithContext(ctx)
	for _, write := range writes {
		writing.Go(func() error { return write(w) })
	}
	require.NoError(t, writing.Wait())
	t.Logf("written in %v", time.Since(began))

	began = time.Now()
	total := 0
	for p, row := range rows {
		total += g.readBack(ctx, t, w, int32(p), row)
	}
	t.Logf("%d records read back in %v", total, time.Since(began))

	began = time.Now()
	ranked := g.rank(ctx, t, rows)
	t.Logf("ranked in %v", time.Since(began))
	require.Equal(t, total, ranked)
}
