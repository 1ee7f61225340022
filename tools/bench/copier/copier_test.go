package copier

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

func TestEveryRecordIsCopiedInOrder(t *testing.T) {
	env := testenv.Embedded(t)
	name := testenv.Unique(t, "x")
	c, err := broker.New(broker.Options{Brokers: []string{env.Kafka}, Group: name, DLQSuffix: ".dlq",
		Topics: [event.Topics]string{event.Impressions: name + "-in", event.Payoffs: name + "-payoffs", event.Rankings: name + "-out"}})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = c.Create(ctx, broker.Spec{Partitions: 3, Replication: 1})
	require.NoError(t, err)
	cfg := Config{Client: c, Partitions: 3, Records: 5000}
	require.NoError(t, Fill(ctx, cfg))
	res, err := Run(ctx, cfg)
	require.NoError(t, err)
	require.EqualValues(t, 5000, res.Records)
	copied := 0
	for p := range 3 {
		for at := range int64(5000) {
			if Place(Key(at), 3) == p {
				copied++
			}
		}
		next, last := int64(0), ""
		for seen := 0; ; {
			f, err := c.Partition(int32(p)).Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: 1 << 20,
				MaxWait: time.Second})
			require.NoError(t, err)
			for _, r := range f.Records {
				require.Equal(t, p, Place(r.Key, 3))
				require.Less(t, last, string(r.Key), "once each, in order")
				last = string(r.Key)
				seen++
			}
			if next = f.Next; f.LastRead {
				copied -= seen
				break
			}
		}
	}
	require.Zero(t, copied)
}
