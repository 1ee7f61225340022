package broker

import (
	"sync/atomic"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// notHosted lets a broker refuse the next requests for offsets of a topic, like a leader of a topic just created. It returns the number of
// refusals left.
func notHosted(env testenv.Env, topic string, refusals int32) *atomic.Int32 {
	left := new(atomic.Int32)
	left.Store(refusals)
	env.Fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		r := req.(*kmsg.ListOffsetsRequest)
		res := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		refused := false
		for _, t := range r.Topics {
			answer := kmsg.NewListOffsetsResponseTopic()
			answer.Topic = t.Topic
			for _, p := range t.Partitions {
				one := kmsg.NewListOffsetsResponseTopicPartition()
				one.Partition = p.Partition
				if t.Topic == topic {
					refused, one.ErrorCode = true, kerr.NotLeaderForPartition.Code
				}
				answer.Partitions = append(answer.Partitions, one)
			}
			res.Topics = append(res.Topics, answer)
		}
		if !refused || left.Load() == 0 {
			return nil, nil, false
		}
		left.Add(-1)
		return res, nil, true
	})
	return left
}

// No transaction begins on a dead-letter partition before its leader hosts it.
func TestTransactionWaitsForHosts(t *testing.T) {
	env := testenv.Embedded(t)
	c := ready(t, env)
	p := c.Partition(1)
	first, err := p.InitProducer(soon(t), task.InitProducer{Producer: task.Producer{ID: -1, Epoch: -1}})
	require.NoError(t, err)
	var added atomic.Int32
	env.Fake.ControlKey(int16(kmsg.AddPartitionsToTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		added.Add(1)
		return nil, nil, false
	})
	left := notHosted(env, c.dlq[event.Payoffs], 2)
	for range 2 {
		err := p.AddPartition(soon(t), task.AddPartition{Producer: first})
		require.ErrorIs(t, err, kafka.NotLeaderForPartition)
		require.ErrorContains(t, err, c.dlq[event.Payoffs]+"[1]")
	}
	require.Zero(t, left.Load())
	require.Zero(t, added.Load())
	require.NoError(t, p.AddPartition(soon(t), task.AddPartition{Producer: first}))
	require.EqualValues(t, 1, added.Load())
}

// Create returns when the leaders host all new topics.
func TestCreateWaitsForHosts(t *testing.T) {
	env := testenv.Embedded(t)
	c := client(t, options(t, env.Kafka))
	left := notHosted(env, c.dlq[event.Selections], 3)
	created, err := c.Create(soon(t), Spec{Partitions: 3, Replication: 1})
	require.NoError(t, err)
	require.Len(t, created, 7)
	require.Zero(t, left.Load())
}

// New topics' partitions are fenced at the same time. None waits 30 s for the answer to a marker.
func TestFirstFencesOfNewTopics(t *testing.T) {
	env := testenv.Real(t)
	const partitions = 12
	c := client(t, options(t, env.Kafka))
	_, err := c.Create(soon(t), Spec{Partitions: partitions, Replication: 1})
	require.NoError(t, err)
	t.Run("fences", func(t *testing.T) {
		for number := range int32(partitions) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				fence(t, c.Partition(number))
			})
		}
	})
}
