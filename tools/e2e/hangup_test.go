package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestHangupInMidStream: two worker processes share six partitions; a learner is added to their configuration, and each has a SIGHUP in
// mid-stream. Both go on in the same process. Each impression has one ranking, those of the new learner too, and each record counts
// once.
func TestHangupInMidStream(t *testing.T) {
	t.Parallel()
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka and a real redis-server", testenv.ShortEnv)
	}
	const impressions = 8000
	w := newWorld(t, testenv.Real(t), 6, "policy: elimination\n    default: true")
	binary := build(t)
	workers := []*process{w.spawn(t, binary, "one"), w.spawn(t, binary, "two")}
	begun := make(chan struct{})
	players, done := w.play(t, impressions, 5, func(p platform.Progress) {
		if begun != nil && p.Rankings >= impressions/4 {
			close(begun)
			begun = nil
		}
	})
	w.reach(t, begun, done)
	text, err := os.ReadFile(w.file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.file, append(text, "  late: {payoffs: stochastic, policy: greedy}\n"...), 0o600))
	for _, p := range workers {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
		require.Eventually(t, func() bool {
			_, after, found := strings.Cut(p.log.String(), "draining, to go on with the new configuration")
			return found && strings.Contains(after, "generation begins")
		}, deadline, 10*time.Millisecond)
	}
	require.NoError(t, <-done)
	got := w.await(t, players.sent)
	checkAccount(t, got, players.sent)
	w.publish(t, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte("x"),
		Value: []byte(`{"impression_id":"x","learner":"late","candidates":[{"item":"a","utility":1}]}`)})
	require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == impressions+1 }, deadline, 50*time.Millisecond)
	for _, p := range workers {
		p.stop(t)
		require.NotContains(t, p.log.String(), "level=ERROR")
	}
	w.ranked(t, impressions+1)
	for _, topic := range []string{w.cfg.Kafka.Topics.Impressions, w.cfg.Kafka.Topics.Selections, w.cfg.Kafka.Topics.Payoffs} {
		for p := range w.partitions {
			require.Empty(t, w.read(t, w.cfg.Kafka.Topics.DLQ(topic), p))
		}
	}
}
