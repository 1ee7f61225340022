package producers

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// clients are the programs of docs/clients, as commands that lack brokers and prefix.
func clients(ctx context.Context, t *testing.T) map[string][]string {
	t.Helper()
	pages, err := filepath.Abs(filepath.Join("..", "..", "docs", "clients"))
	require.NoError(t, err)
	cache, err := realkafka.CacheDir()
	require.NoError(t, err)
	java, err := realkafka.Java(ctx)
	require.NoError(t, err)
	jars, err := realkafka.Fetch(ctx)
	require.NoError(t, err)
	return map[string][]string{
		"rank.py":   {filepath.Join(cache, "python", "bin", "python"), filepath.Join(pages, "rank.py")},
		"Rank.java": {java, "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"), filepath.Join(pages, "Rank.java")},
		"rank.sh":   {"sh", filepath.Join(pages, "rank.sh")},
		"rank.mjs":  {"node", besideModules(t, filepath.Join(pages, "rank.mjs"), filepath.Join(cache, "node"))},
	}
}

// besideModules copies a program to where Node finds the modules that scripts/tools has installed.
func besideModules(t *testing.T, program, installed string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	to := filepath.Join(dir, filepath.Base(program))
	require.NoError(t, os.WriteFile(to, text, 0o600))
	require.NoError(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")))
	return to
}

// The programs that the docs give to authors of clients send an impression, read its ranking, and send a selection and a payoff that meet
// it. The group has several partitions, so all of them place keys alike.
func TestClientsOfTheDocs(t *testing.T) {
	if testenv.Short() {
		t.Skip("needs other languages' clients and a real Kafka: make test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	env := testenv.Real(t)
	const partitions = 8
	g := newGroup(t, env, partitions, true)
	registry := prometheus.NewRegistry()
	worker := testworker.Start(t, g.cfg, app.Options{Registry: registry,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})

	has := func(name, label, value string, want float64) {
		t.Helper()
		require.Eventually(t, func() bool { return total(t, registry, name, label, value) == want }, deadline, 20*time.Millisecond, name)
	}
	has("ranker_partitions", "phase", "running", partitions)

	all := clients(ctx, t)
	prefix := g.cfg.Kafka.Group + "-"
	t.Run("programs", func(t *testing.T) {
		for name, command := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var out, faults bytes.Buffer
				run := exec.CommandContext(ctx, command[0], append(command[1:], env.Kafka, prefix)...)
				run.Stdout, run.Stderr, run.WaitDelay = &out, &faults, 5*time.Second
				require.NoError(t, run.Run(), "%s\n%s", out.String(), faults.String())
				require.Regexp(t, `(?m)^to be shown: \W*b\W+a\W*$`, out.String()) // by utility, the learner's policy
			})
		}
	})
	has("ranker_selections_total", "outcome", "joined", float64(len(all)))
	has("ranker_payoffs_total", "outcome", "applied", float64(len(all)))
	worker.Stop(t)
	for topic := range event.Topic(event.Topics) {
		require.Equal(t, len(all), placed(ctx, t, g, topic, partitions), g.broker.Topic(topic))
	}
}

// placed counts the records of a topic, each of which is where murmur2 places its key.
func placed(ctx context.Context, t *testing.T, g *group, topic event.Topic, partitions int) (records int) {
	t.Helper()
	var numbers []int
	for p := range partitions {
		numbers = append(numbers, p)
	}
	for p := range partitions {
		got, err := g.broker.Partition(int32(p)).Fetch(ctx, task.Fetch{Topic: topic, MaxBytes: 1 << 20, MaxWait: time.Second})
		require.NoError(t, err)
		require.True(t, got.LastRead, g.broker.Topic(topic))
		for _, r := range got.Records {
			require.Equal(t, p, kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: r.Key}, numbers...), "%s of %s", r.Key, g.broker.Topic(topic))
		}
		records += len(got.Records)
	}
	return records
}

// total is the sum of a metric over all labels but one.
func total(t *testing.T, from prometheus.Gatherer, name, label, value string) (sum float64) {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}
