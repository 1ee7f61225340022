package broker

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// A fetch over the quota has an error of its own, with the pause, and costs no new metadata. A reader waits the pause out.
func TestFetch_Throttled(t *testing.T) {
	env := testenv.Embedded(t)
	c := ready(t, env)
	p := c.Partition(0)
	_, owner := fence(t, p)
	_, err := p.Produce(soon(t), rankings(owner, 0, "a"))
	require.NoError(t, err)
	known := c.metadataCache.last.Load()
	require.NotNil(t, known)
	throttle := env.Throttled(300 * time.Millisecond)
	throttle.Store(1)
	_, err = fetchOnce(t, p, event.Rankings, 0, 1<<20)
	pause, ok := errors.AsType[task.Throttled](err)
	require.True(t, ok, err)
	require.EqualValues(t, 300*time.Millisecond, pause)
	require.Same(t, known, c.metadataCache.last.Load())

	throttle.Store(2)
	began := time.Now()
	f, err := p.Reader(event.Rankings, 0, 2).Next(soon(t))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, values(*f))
	require.GreaterOrEqual(t, time.Since(began), 600*time.Millisecond)
}

// nothingYet lets a broker answer the next fetch from an offset with no records, as Kafka does while its tiered storage is slow.
func nothingYet(env testenv.Env, offset, end int64) {
	first := true
	env.Fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		r := req.(*kmsg.FetchRequest)
		if asked := r.Topics[0].Partitions[0]; !first || asked.FetchOffset != offset {
			return nil, nil, false
		}
		first = false
		one := kmsg.NewFetchResponseTopicPartition()
		one.Partition, one.HighWatermark, one.LastStableOffset = r.Topics[0].Partitions[0].Partition, end, end
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = r.Topics[0].Topic, []kmsg.FetchResponseTopicPartition{one}
		res := r.ResponseKind().(*kmsg.FetchResponse)
		res.Topics = []kmsg.FetchResponseTopic{topic}
		return res, nil, true
	})
}

// An empty answer is the end of a log only if nothing more can be read.
func TestReader_NothingYet(t *testing.T) {
	env := testenv.Embedded(t)
	p := ready(t, env).Partition(0)
	_, owner := fence(t, p)
	_, err := p.Produce(soon(t), rankings(owner, 0, "a", "b"))
	require.NoError(t, err)
	nothingYet(env, 1, 3)
	var got []string
	for r := p.Reader(event.Rankings, 1, 3); ; {
		f, err := r.Next(soon(t))
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		got = append(got, values(*f)...)
	}
	require.Equal(t, []string{"a", "b"}, got)
}
