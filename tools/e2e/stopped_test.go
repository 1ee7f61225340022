package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// set changes a setting of a topic.
func (w *world) set(t *testing.T, topic, key, value string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.access.Kafka.Brokers...))
	require.NoError(t, err)
	defer client.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	one.Name, one.Value = key, &value
	of.Configs = append(of.Configs, one)
	req.Resources = append(req.Resources, of)
	res, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, res.Resources[0].ErrorCode, res.Resources[0].ErrorMessage)
}

// TestStopped_GoesOnWhenMended: partitions that stopped for a topic's setting report
// it, and go on by themselves when it is mended, without a rebalance or a restart.
func TestStopped_GoesOnWhenMended(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 2, "policy: greedy")
		w.stopRetry = 500 * time.Millisecond
		rankings := w.cfg.Kafka.Topics.Rankings
		w.set(t, rankings, "message.timestamp.type", "CreateTime")
		b, err := app.NewBroker(w.access)
		require.NoError(t, err)
		defer b.Close()
		require.Eventually(t, func() bool { // a broker takes a moment to hear of it
			problems, err := b.Check(t.Context())
			return err == nil && len(problems) > 0
		}, deadline, 20*time.Millisecond)
		w.publish(t, w.impressions("i", 10)...)
		r := w.start(t)
		r.awaitUnready(t, "; it tries again in")
		require.Eventually(t, func() bool { return r.App.Worker.Statuses()[0].Stops > 2 }, deadline, 10*time.Millisecond)
		require.Contains(t, w.log.String(), "partition stopped")
		w.set(t, rankings, "message.timestamp.type", "LogAppendTime")
		r.awaitReady(t)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 10 }, deadline, 20*time.Millisecond)
		r.stop(t)
		w.ranked(t, 10)
	})
}
