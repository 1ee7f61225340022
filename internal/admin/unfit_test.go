package admin

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// unfitStore is configured so that it may delete data.
type unfitStore struct{ state.AdminStore }

func (s unfitStore) Probe(ctx context.Context, p int32) (state.Fence, error) {
	f, err := s.AdminStore.Probe(ctx, p)
	if err == nil {
		err = fmt.Errorf("%w: it evicts", state.ErrUnfit)
	}
	return f, err
}

// TestRebuild_SaysThatTheStoreIsUnfit: a group that has never run is refused. A command does not wait, as a worker does, for somebody to set the store right.
func TestRebuild_SaysThatTheStoreIsUnfit(t *testing.T) {
	env := testenv.Embedded(t)
	cfg, _, err := config.Load("w.yaml", fmt.Appendf(nil, "kafka: {brokers: [%q]}\nredis: {url: %q}\n"+
		"learners: {feed: {payoffs: stochastic}}\n", env.Kafka, env.RedisURL()), nil)
	require.NoError(t, err)
	tool, err := New(cfg, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, tool.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = tool.broker.Create(ctx, broker.Spec{Partitions: 1, Replication: 1})
	require.NoError(t, err)
	_, err = tool.Rebuild(ctx, RebuildQuery{})
	require.ErrorContains(t, err, `group "ranker" has never run: nothing to rebuild`)
	_, err = tool.store.Probe(ctx, 0)
	require.ErrorIs(t, err, state.ErrNoState)
	client := kafka.Client{Addr: kafka.TCP(env.Kafka)}
	_, err = client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: cfg.Kafka.Group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{cfg.Kafka.Topics.Impressions: {{Partition: 0, Offset: 0}}}})
	require.NoError(t, err)
	tool.store = unfitStore{tool.store}
	_, err = tool.Rebuild(ctx, RebuildQuery{})
	require.ErrorIs(t, err, state.ErrUnfit)
	require.NoError(t, ctx.Err())
}
