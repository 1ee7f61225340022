package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestPlacing_IsSaid: payoffs go to other partitions than their impressions. Workers are ready, and say so once.
func TestPlacing_IsSaid(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 2, "policy: greedy")
		impressions := w.impressions("i", 60)
		w.publish(t, impressions...)
		var payoffs []kafka.Message
		for i := range impressions {
			payoffs = append(payoffs, w.payoff(fmt.Sprintf("i-%d", i), "a", 1))
		}
		w.misplace(t, payoffs...)
		r := w.start(t)
		const said = "producers place keys by different partitioners"
		require.Eventually(t, func() bool { return strings.Contains(w.log.String(), said) }, deadline, 20*time.Millisecond)
		r.awaitReady(t)
		r.stop(t)
		require.Equal(t, 1, strings.Count(w.log.String(), said))
		require.Contains(t, w.log.String(), "partitioner=murmur2_random")
	})
}

// TestStart_IsSaid: the log names where a new group begins, the records that it skips, and another group that has ranked them.
func TestStart_IsSaid(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, "policy: greedy")
		w.publish(t, w.impressions("i", 10)...)
		r := w.start(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 10 }, deadline, 20*time.Millisecond)
		r.stop(t)
		require.NotContains(t, w.log.String(), "another group has ranked")
		begin := func(start config.Start, says string) {
			t.Helper()
			cfg := *w.cfg
			cfg.Kafka.Group, cfg.Kafka.Start = testenv.Unique(t, "other"), start
			r := w.startWith(t, &cfg)
			require.Eventually(t, func() bool { return strings.Contains(w.log.String(), says) }, deadline, 20*time.Millisecond)
			r.stop(t)
		}
		begin(config.Latest, "skipped."+w.cfg.Kafka.Topics.Impressions+"=10")
		require.NotContains(t, w.log.String(), "another group has ranked")
		begin(config.Earliest, "another group has ranked")
	})
}
