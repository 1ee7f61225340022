package joinedlog

import (
	"context"
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
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
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

// TestOpenTopics_WrongClock: records of a producer whose clock is far ahead do not hold back those behind them, in whichever topics they are, and
// end no rows. A worker counts them as of now. A record that is dated back does not make those before it records ahead.
func TestOpenTopics_WrongClock(t *testing.T) {
	start := time.UnixMilli(1_800_000_000_000)
	names := [event.Topics]string{event.Impressions: "i", event.Selections: "s", event.Payoffs: "p", event.Rankings: "r"}
	log := func(t *testing.T, rows int, odds func(row int) int, by time.Duration, wrong []event.Topic) *Log {
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
		for k := range rows {
			paid(fmt.Sprint("i-", k), int32(k%2), 300*k)
			for _, topic := range wrong {
				for range odds(k) {
					put(topic, 1, "odd", odd[topic], start.Add(300*time.Duration(k)*time.Second+by))
				}
			}
		}
		end := 300*rows + 7000
		paid("last", 0, end)
		paid("last", 1, end)
		c, err := broker.New(broker.Options{Brokers: []string{env.Kafka}, Group: "g", Topics: names, DLQSuffix: ".dlq"})
		require.NoError(t, err)
		defer c.Close()
		q := &Query{Learner: learner(t), HasSelections: true, Parking: time.Hour, To: start.Add(time.Duration(end-1000) * time.Second).UnixMilli()}
		sources, err := OpenTopics(t.Context(), c, q)
		require.NoError(t, err)
		log, err := Read(t.Context(), sources, q)
		require.NoError(t, err)
		require.NoError(t, log.Close())
		return log
	}
	all := []event.Topic{event.Impressions, event.Selections, event.Payoffs}
	for _, wrong := range [][]event.Topic{all[:1], all[1:2], all[2:], all} {
		for _, by := range []time.Duration{time.Hour, 70 * 365 * 24 * time.Hour} {
			t.Run(fmt.Sprintf("%v ahead by %v", wrong, by), func(t *testing.T) {
				odds := func(row int) int { return 2 * (row % 3 / 2) }
				require.EqualValues(t, 10, log(t, 10, odds, by, wrong).Counts.Paid)
			})
		}
	}
	t.Run("dated back", func(t *testing.T) {
		odds := func(row int) int { return map[int]int{20: 1}[row] }
		require.EqualValues(t, 80, log(t, 80, odds, -24*time.Hour, all).Counts.Paid)
	})
}

// TestSpan_Ahead: several records in a row are dated ahead, and those behind them come with later answers.
func TestSpan_Ahead(t *testing.T) {
	const far = 7_200_000
	answers := [][]event.Millis{{1, 2, far, far + 1, far + 2}, {}, {3, 4}, {60_000}}
	p := &span{topic: event.Payoffs, reader: broker.NewReader(0, int64(len(answers)), func(_ context.Context, n int64) (*task.Fetched, int64, error) {
		f := &task.Fetched{}
		for _, at := range answers[n] {
			f.Records = append(f.Records, partition.Record{Timestamp: at})
		}
		return f, n + 1, nil
	})}
	var all []event.Millis
	for {
		e, err := p.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, e.Timestamp-e.Ahead)
	}
	require.Equal(t, []event.Millis{1, 2, clockBound + 3, clockBound + 3, clockBound + 3, 3, 4, 60_000}, all)
}
