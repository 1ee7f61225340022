package joinedlog

import (
	"errors"
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
