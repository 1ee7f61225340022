package copier

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
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
	require.NoError(t, Run(ctx, cfg))
	copied := 0
	for p := range 3 {
		for at := range int64(5000) {
			if state.PartitionOf(Key(at), 3) == int32(p) {
				copied++
			}
		}
		next, last := int64(0), ""
		for seen := 0; ; {
			f, err := c.Partition(int32(p)).Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: 1 << 20,
				MaxWait: time.Second})
			require.NoError(t, err)
			for _, r := range f.Records {
				require.EqualValues(t, p, state.PartitionOf(r.Key, 3))
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

// Each impression has 20 different candidates, and is followed, in its partition and by time, by a selection of one of them and a payoff.
func TestFill_Paid(t *testing.T) {
	env := testenv.Embedded(t)
	name := testenv.Unique(t, "x")
	topics := [event.Topics]string{name + "-impressions", name + "-selections", name + "-payoffs", name + "-rankings"}
	c, err := broker.New(broker.Options{Brokers: []string{env.Kafka}, Group: name, DLQSuffix: ".dlq", Topics: topics})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = c.Create(ctx, broker.Spec{Partitions: 3, Replication: 1})
	require.NoError(t, err)
	const records, items = 2000, 40
	require.NoError(t, Fill(ctx, Config{Client: c, Partitions: 3, Records: records, Items: items, Paid: true}))
	type shown struct {
		time  int64
		items map[string]bool
	}
	impressions, selected, counts := map[string]shown{}, map[string]int64{}, map[string]int{}
	read := func(topic event.Topic, each func(key string, value []byte, time int64)) {
		for p := range 3 {
			for next := int64(0); ; {
				f, err := c.Partition(int32(p)).Fetch(ctx, task.Fetch{Topic: topic, Offset: next, MaxBytes: 1 << 20, MaxWait: time.Second})
				require.NoError(t, err)
				for _, r := range f.Records {
					require.EqualValues(t, p, state.PartitionOf(r.Key, 3))
					each(string(r.Key), r.Value, int64(r.Timestamp))
				}
				if next = f.Next; f.LastRead {
					break
				}
			}
		}
	}
	read(event.Impressions, func(key string, value []byte, time int64) {
		var v struct{ Candidates []struct{ Item string } }
		require.NoError(t, json.Unmarshal(value, &v))
		i := shown{time, map[string]bool{}}
		for _, c := range v.Candidates {
			i.items[c.Item] = true
			counts[c.Item]++
		}
		require.Len(t, i.items, candidates, key)
		impressions[key] = i
	})
	require.Len(t, impressions, records)
	require.Len(t, counts, items)
	for item, n := range counts {
		require.Equal(t, records*candidates/items, n, item)
	}
	read(event.Selections, func(key string, value []byte, time int64) {
		var v struct{ Item string }
		require.NoError(t, json.Unmarshal(value, &v))
		require.True(t, impressions[key].items[v.Item], key)
		require.Greater(t, time, impressions[key].time)
		selected[key] = time
	})
	require.Len(t, selected, records)
	paid := map[string]bool{}
	read(event.Payoffs, func(key string, value []byte, time int64) {
		var v struct{ Payoff float64 }
		require.NoError(t, json.Unmarshal(value, &v))
		require.True(t, v.Payoff >= 0 && v.Payoff < 1)
		require.Greater(t, time, selected[key])
		paid[key] = true
	})
	require.Len(t, paid, records)
}
