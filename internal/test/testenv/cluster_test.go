package testenv_test

import (
	"context"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

// TestClusterGoesOnWithoutABroker: with one broker of three killed, a topic that needs two copies is still written
// and read. The broker comes back, and takes up internal topics too.
func TestClusterGoesOnWithoutABroker(t *testing.T) {
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka", testenv.ShortEnv)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := kafka.StartCluster(ctx, kafka.Options{Settings: map[string]string{
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500", "min.insync.replicas": "2"}}, 3)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Len(t, c.Addrs(), 3)
	client := &kafkago.Client{Addr: kafkago.TCP(c.Addrs()[1]), Transport: &kafkago.Transport{MetadataTTL: time.Second}}
	create := &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: "log", NumPartitions: 3, ReplicationFactor: 3}}}
	_, err = client.CreateTopics(ctx, create)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // makes __transaction_state
		res, err := client.InitProducerID(ctx, &kafkago.InitProducerIDRequest{TransactionalID: "someone", TransactionTimeoutMs: 10_000})
		return err == nil && res.Error == nil
	}, time.Minute, 100*time.Millisecond)

	first := c.Brokers[0]
	require.True(t, first.Running())
	require.NoError(t, first.Kill())
	require.False(t, first.Running())
	for p := range 3 {
		require.Eventually(t, func() bool {
			res, err := client.Produce(ctx, &kafkago.ProduceRequest{Topic: "log", Partition: p, RequiredAcks: kafkago.RequireAll,
				Records: kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes([]byte("x"))})})
			return err == nil && res.Error == nil
		}, time.Minute, 100*time.Millisecond)
	}
	require.NoError(t, first.Start(ctx))
	require.NoError(t, kafka.Serves(ctx, client, map[string]int{"log": 3}))
}
