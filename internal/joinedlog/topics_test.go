package joinedlog

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestOpenTopics_LateRankings: a ranking may be appended hours after its impression, when a backlog is read. It belongs to the impression's
// time, unlike impressions with Kafka's own.
func TestOpenTopics_LateRankings(t *testing.T) {
	env := testenv.Embedded(t, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1))
	client, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer client.Close()
	names := [event.Topics]string{event.Impressions: "i", event.Selections: "s", event.Payoffs: "p", event.Rankings: "r"}
	to := time.UnixMilli(1_800_000_000_000)
	for topic, name := range names {
		require.NoError(t, client.ProduceSync(t.Context(),
			&kgo.Record{Topic: name, Key: []byte("1"), Value: []byte("{}"), Timestamp: to.Add(-time.Minute)},
			&kgo.Record{Topic: name, Key: []byte("2"), Value: []byte("{}"), Timestamp: to.Add(2 * time.Hour)}).FirstErr(), "%v", event.Topic(topic))
	}
	c, err := broker.New(broker.Options{Brokers: []string{env.Kafka}, Group: "g", Topics: names, DLQSuffix: ".dlq"})
	require.NoError(t, err)
	defer c.Close()
	all, err := OpenTopics(t.Context(), c, &Query{To: to.UnixMilli(), HasSelections: true})
	require.NoError(t, err)
	read := map[event.Topic]int{}
	for _, s := range all {
		for {
			_, err := s.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			read[s.Topic()]++
		}
	}
	require.Equal(t, map[event.Topic]int{event.Impressions: 1, event.Rankings: 2, event.Selections: 2, event.Payoffs: 2}, read)
}

// TestOpenTopics_WrongClock: records of a producer whose clock is far ahead do not hold back those behind them, in whichever topic they are. A
// worker counts them as of now.
func TestOpenTopics_WrongClock(t *testing.T) {
	start := time.UnixMilli(1_800_000_000_000)
	names := [event.Topics]string{event.Impressions: "i", event.Selections: "s", event.Payoffs: "p", event.Rankings: "r"}
	log := func(t *testing.T, wrong event.Topic, by time.Duration) *Log {
		env := testenv.Embedded(t, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(2))
		client, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer client.Close()
		put := func(topic event.Topic, partition int32, id, value string, at time.Time) {
			require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: names[topic], Partition: partition, Key: []byte(id),
				Value: []byte(value), Timestamp: at}).FirstErr())
		}
		paid := func(id string, partition int32, second int) {
			var l logs
			l.decided(id, second)
			l.selected(id, "c", second, "")
			l.paid(id, 0.5, second, "")
			for topic, all := range l {
				put(event.Topic(topic), partition, id, all[0], start.Add(time.Duration(second)*time.Second))
			}
		}
		odd := map[event.Topic]string{event.Impressions: `{"impression_id":"odd","candidates":[{"item":"a","utility":1}]}`,
			event.Selections: `{"impression_id":"odd","item":"a"}`, event.Payoffs: `{"impression_id":"odd","payoff":1}`}
		for k := range 10 {
			paid(fmt.Sprint("i-", k), int32(k%2), 300*k)
			for range 2 * (k % 3 / 2) {
				put(wrong, 1, "odd", odd[wrong], start.Add(300*time.Duration(k)*time.Second+by))
			}
		}
		paid("last", 0, 10_000)
		paid("last", 1, 10_000)
		c, err := broker.New(broker.Options{Brokers: []string{env.Kafka}, Group: "g", Topics: names, DLQSuffix: ".dlq"})
		require.NoError(t, err)
		defer c.Close()
		q := &Query{Learner: learner(t), HasSelections: true, Parking: time.Hour, To: start.Add(9000 * time.Second).UnixMilli()}
		sources, err := OpenTopics(t.Context(), c, q)
		require.NoError(t, err)
		log, err := Read(t.Context(), sources, q)
		require.NoError(t, err)
		require.NoError(t, log.Close())
		return log
	}
	for wrong := range event.Topic(event.Inputs) {
		for _, by := range []time.Duration{time.Hour, 70 * 365 * 24 * time.Hour} {
			t.Run(fmt.Sprintf("%s ahead by %v", topicNames[wrong], by), func(t *testing.T) {
				require.EqualValues(t, 10, log(t, wrong, by).Counts.Paid)
			})
		}
	}
}
