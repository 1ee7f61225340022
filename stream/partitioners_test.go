package stream

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// producers send records of n keys to partitions by a partitioner for each topic, and return the log.
type producers struct {
	p    *partitioning
	out  bytes.Buffer
	sent int
}

func newProducers() *producers {
	s := &producers{}
	s.p = newPartitioning(slog.New(slog.NewTextHandler(&s.out, nil)), [event.Topics]string{"impressions", "selections", "payoffs", "rankings"})
	return s
}

var sixNumbers = []int{0, 1, 2, 3, 4, 5}

func (s *producers) send(topic event.Topic, n int, by ...kafka.Balancer) {
	for i := range n {
		s.sent++
		key := fmt.Appendf(nil, "impression-%d", s.sent)
		number := by[i%len(by)].Balance(kafka.Message{Key: key}, sixNumbers...)
		s.p.note(topic, int32(number), len(sixNumbers), []partition.Record{{Key: key}})
	}
}

// says returns whether partitioners differ, and the log.
func (s *producers) says(t *testing.T, at time.Duration) (differ bool, line string) {
	t.Helper()
	s.out.Reset()
	differ = s.p.judge(at)
	require.LessOrEqual(t, strings.Count(s.out.String(), "\n"), 1)
	return differ, s.out.String()
}

var (
	javas       = kafka.Murmur2Balancer{}
	librdkafkas = kafka.CRC32Balancer{}
)

// If payoffs come from librdkafka and the rest from Java, one line says so with the setting to change, and one line says when it ends.
func TestPlacing_DifferentPartitioners(t *testing.T) {
	s := newProducers()
	s.send(event.Impressions, 20, javas)
	s.send(event.Payoffs, enoughPlaced-1, librdkafkas)
	differ, line := s.says(t, 0)
	require.False(t, differ)
	require.Empty(t, line, "too few for a verdict")
	s.send(event.Payoffs, 1, librdkafkas)
	differ, line = s.says(t, 0)
	require.True(t, differ)
	for _, want := range []string{"level=WARN", "by.impressions=murmur2", "by.payoffs=crc32", "partitioner=murmur2_random", "Murmur2Balancer"} {
		require.Contains(t, line, want)
	}
	require.NotContains(t, line, "selections", "none came yet")
	for at := time.Minute; at < time.Hour; at += time.Minute {
		s.send(event.Payoffs, 50, librdkafkas)
		differ, line = s.says(t, at)
		require.True(t, differ)
		require.Empty(t, line)
	}
	s.send(event.Payoffs, 50, javas)
	differ, line = s.says(t, time.Hour)
	require.True(t, differ, "for a while yet")
	require.Empty(t, line)
	differ, line = s.says(t, time.Hour+wellAfter)
	require.False(t, differ)
	require.Contains(t, line, "level=INFO")
	require.Contains(t, line, "one partitioner again")
}

// Two producers of one topic that differ are noticed, too.
func TestPlacing_SeveralInOneTopic(t *testing.T) {
	s := newProducers()
	s.send(event.Impressions, 100, javas)
	s.send(event.Payoffs, 100, javas, librdkafkas)
	differ, line := s.says(t, 0)
	require.True(t, differ)
	require.Contains(t, line, `by.payoffs="another, or several"`)
}

// All by another one is no fault: that is said once.
func TestPlacing_AllAgree(t *testing.T) {
	for name, all := range map[string]kafka.Balancer{"murmur2": javas, "crc32": librdkafkas, "fnv1a": &kafka.Hash{}} {
		s := newProducers()
		for round := range 3 {
			for topic := range event.Topic(event.Inputs) {
				s.send(topic, 30, all)
			}
			differ, line := s.says(t, 0)
			require.False(t, differ, name)
			if name == "murmur2" || round > 0 {
				require.Empty(t, line, name)
			} else {
				require.Contains(t, line, "level=INFO")
				require.Contains(t, line, "partitioner="+name)
			}
		}
	}
}

// One partition takes everything, and records without a key are dead letters.
func TestPlacing_NothingToReport(t *testing.T) {
	s := newProducers()
	for range 100 {
		s.p.note(event.Impressions, 0, 1, []partition.Record{{Key: []byte("x")}})
		s.p.note(event.Payoffs, 3, 6, []partition.Record{{}})
	}
	differ, line := s.says(t, 0)
	require.False(t, differ)
	require.Empty(t, line)
}

func BenchmarkPlacing(b *testing.B) {
	p := newPartitioning(slog.New(slog.DiscardHandler), [event.Topics]string{})
	records := make([]partition.Record, 1000)
	for i := range records {
		records[i].Key = fmt.Appendf(nil, "0190b8f2-7c1e-7d7a-9c1e-3f4b5a6c7%03d", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.note(event.Impressions, 3, 6, records)
	}
}
