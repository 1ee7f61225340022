package task

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// records are of consecutive offsets, with ten bytes of key and value.
func records(from, n int64) (all []partition.Record) {
	for i := range n {
		all = append(all, partition.Record{Offset: from + i, Timestamp: 100 * (from + i), Key: []byte("12345"), Value: []byte("67890")})
	}
	return all
}

func TestQueue_TakesWhatFollows(t *testing.T) {
	q := queue{next: 10}
	q.pos.Offset = 10
	require.False(t, q.take(&Fetched{Records: records(8, 5), Next: 13, High: 20}, 0, time.Second))
	require.Equal(t, 3, q.len(), "what is below the offset asked for was read before")
	require.Equal(t, 3*(10+int(unsafe.Sizeof(queued{}))), q.bytes)
	require.Equal(t, int64(10), q.lag())

	for offset := range int64(3) {
		require.Equal(t, 10+offset, q.first().Offset)
		q.pop()
	}
	require.Zero(t, q.bytes)
	require.Equal(t, int64(13), q.pos.Offset)
	require.Equal(t, witnessOf(12, 1200, []byte("12345"), []byte("67890")), q.position().Witness)

	require.True(t, q.take(&Fetched{Next: 15, High: 20}, 0, 0), "beyond what no reader sees")
	require.Equal(t, int64(15), q.pos.Offset)
	require.False(t, q.take(&Fetched{Next: 15, High: 20}, 0, 0))
	require.Equal(t, int64(12), q.position().Witness.Offset, "the last record there was")
}

func TestQueue_PositionStaysBeforeWhatWaits(t *testing.T) {
	q := queue{}
	q.take(&Fetched{Records: records(0, 1), Next: 5, High: 5}, 0, 0)
	require.Zero(t, q.pos.Offset)
	q.pop()
	require.Equal(t, int64(5), q.pos.Offset, "trailing markers are behind it")
}

func TestQueue_AtItsEnd(t *testing.T) {
	q := queue{}
	require.False(t, q.atEndNow(0))
	q.take(&Fetched{Records: records(0, 1), Next: 1, High: 1, LastRead: true}, 10*time.Second, 11*time.Second)
	require.False(t, q.atEndNow(11*time.Second), "a record waits")
	q.pop()
	require.True(t, q.atEndNow(11*time.Second))
	require.False(t, q.atEndNow(11*time.Second+atEndFor), "that was long ago")
	require.True(t, q.exhausted(10*time.Second))
	require.False(t, q.exhausted(10*time.Second+1), "what came later may follow what was read")
	require.True(t, (&queue{disabled: true}).exhausted(time.Hour))
}

func TestQueue_WaitingIsReportedAfterAWhile(t *testing.T) {
	qs := queues{}
	q := &qs[1]
	q.take(&Fetched{Records: records(0, 2), Next: 2, High: 2}, 0, 0)
	w := &partition.Wait{For: "room"}
	q.hold(w, time.Second)
	require.True(t, qs.held())
	qs.release()
	require.False(t, qs.held())
	q.hold(w, 2*time.Second)
	require.False(t, q.waitsLong(time.Second+longWait-1))
	require.True(t, q.waitsLong(time.Second+longWait), "since it was first tried")
	q.pop()
	require.False(t, q.waitsLong(time.Hour))
}

func TestQueue_LookedUpRecordsAreFound(t *testing.T) {
	q := queue{}
	q.take(&Fetched{Records: records(0, 6), Next: 6}, 0, 0)
	q.pop()
	require.Equal(t, -1, q.find(0))
	require.Equal(t, -1, q.find(6))
	k := q.find(3)
	require.Equal(t, int64(3), q.items[k].Offset)
	q.items[k].batch, q.items[k].found = 7, partition.Found{Page: 1, Value: []byte("value")}
	q.dropFound(6)
	require.Equal(t, []byte("value"), q.items[k].found.Value)
	q.dropFound(7)
	require.Zero(t, q.items[k].batch)
	require.Zero(t, q.items[k].found)
}

func TestQueues_OldestThatIsReady(t *testing.T) {
	qs := queues{}
	for i, at := range []event.Millis{300, 200, 100} {
		qs[i] = queue{topic: event.Topic(i)}
		qs[i].take(&Fetched{Records: []partition.Record{{Timestamp: at}}, Next: 1}, 0, 0)
	}
	refuses := func(topics ...event.Topic) func(*queue) (bool, error) {
		return func(q *queue) (bool, error) {
			for _, topic := range topics {
				if q.topic == topic {
					return false, nil
				}
			}
			return true, nil
		}
	}
	choose := func(now event.Millis, ready func(*queue) (bool, error)) *queue {
		q, err := qs.oldest(now, ready)
		require.NoError(t, err)
		return q
	}
	require.Equal(t, event.Payoffs, choose(1000, refuses()).topic)
	require.Equal(t, event.Selections, choose(1000, refuses(event.Payoffs)).topic)
	require.Nil(t, choose(1000, refuses(event.Impressions, event.Selections, event.Payoffs)))
	require.Equal(t, event.Impressions, choose(50, refuses()).topic, "all are of the future: they count as of now")

	broken := errors.New("broken")
	_, err := qs.oldest(1000, func(*queue) (bool, error) { return false, broken })
	require.ErrorIs(t, err, broken)
}

// TestQueues_OldestWithoutATime: a record without Kafka's timestamp is not older than all others.
func TestQueues_OldestWithoutATime(t *testing.T) {
	qs := queues{}
	for i, at := range []event.Millis{300, -1, 2000} {
		qs[i] = queue{topic: event.Topic(i)}
		qs[i].take(&Fetched{Records: []partition.Record{{Timestamp: at}}, Next: 1}, 0, 0)
	}
	q, err := qs.oldest(1000, func(*queue) (bool, error) { return true, nil })
	require.NoError(t, err)
	require.Equal(t, event.Impressions, q.topic)
	qs[0].pop()
	q, err = qs.oldest(1000, func(*queue) (bool, error) { return true, nil })
	require.NoError(t, err)
	require.Equal(t, event.Selections, q.topic)
}

func TestQueues_ShortOfAnOffset(t *testing.T) {
	qs := queues{}
	for i := range qs {
		qs[i] = queue{topic: event.Topic(i)}
		qs[i].take(&Fetched{Records: records(int64(10*i), 3), Next: int64(10*i) + 3}, 0, 0)
	}
	at := func(a, b, c int64) *[event.Inputs]int64 { return &[event.Inputs]int64{a, b, c} }
	require.Nil(t, qs.behind(at(0, 10, 20)))
	require.Equal(t, &qs[1], qs.behind(at(0, 11, 21)), "its record is the older one")
	require.Nil(t, qs.behind(at(0, 7, 0)), "its first record is behind that: there is nothing in between")
	qs[2].disabled = true
	require.Nil(t, qs.behind(at(0, 10, 99)))
	qs[0].pop()
	qs[0].pop()
	qs[0].pop()
	require.Equal(t, &qs[0], qs.behind(at(4, 11, 0)), "its next record has not been read")
}
