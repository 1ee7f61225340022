package task

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// rank makes rankings as steps do.
func (o *rankingsOut) rank(ids ...string) {
	for _, id := range ids {
		out := o.open()
		out.Rankings = append(out.Rankings, partition.Message{Key: []byte(id), Value: []byte("{}"), Steps: []byte{1}})
		o.note(7)
	}
}

func TestRankings_OneBatchFliesWhileTheNextIsFilled(t *testing.T) {
	var o rankingsOut
	require.Nil(t, o.next())
	require.True(t, o.idle())
	o.rank("a", "b")
	require.False(t, o.idle())
	b := o.next()
	require.Len(t, b.messages, 2)
	require.Equal(t, OutMessage{Key: []byte("a"), Value: []byte("{}"), Headers: []Header{{StepsHeader, []byte{1}}}}, b.messages[0])
	require.Equal(t, []event.Millis{7, 7}, b.times)
	o.rank("c")
	require.Nil(t, o.next(), "one is in flight")

	o.delivered(100, b.messages)
	o.done()
	require.Equal(t, int64(2), o.acked)
	require.Equal(t, int64(3), o.made)
	require.Equal(t, int32(2), o.sequence)
	require.Equal(t, int64(102), o.position)
	require.Equal(t, witnessOf(101, 0, []byte("b"), []byte("{}")), o.witness)

	c := o.next()
	require.Len(t, c.messages, 1)
	o.delivered(-1, c.messages)
	o.done()
	require.Equal(t, int64(102), o.position, "nobody knows where it stands")
	require.Equal(t, int64(3), o.acked)
	require.True(t, o.idle())
	o.rank("d")
	require.Same(t, c, o.next(), "memory is used again")
}

// TestRankings_WithoutATime: a ranking of an impression without Kafka's timestamp has no latency.
func TestRankings_WithoutATime(t *testing.T) {
	var o rankingsOut
	out := o.open()
	out.Rankings = append(out.Rankings, partition.Message{Key: []byte("a"), Value: []byte("{}")})
	o.note(-1)
	require.Empty(t, o.next().times)
	require.Equal(t, int64(1), o.made)
}

func TestRankings_ABatchOfDeadLettersAloneDoesNotFly(t *testing.T) {
	var o rankingsOut
	out := o.open()
	out.DeadLetters = append(out.DeadLetters, partition.DeadLetter{Value: make([]byte, maxBatchBytes)})
	o.weigh(out, 0)
	require.False(t, o.room(maxBatchBytes))
	require.True(t, o.idle())
	require.Nil(t, o.next())
	require.True(t, o.room(maxBatchBytes))
}

func TestRankings_RequestsFitTheTopic(t *testing.T) {
	var o rankingsOut
	o.rank("a", "b", "c", "d")
	b := o.next()
	require.Equal(t, 4, o.fit(b.messages, 1<<20))
	require.Equal(t, 1, o.fit(b.messages, 0), "at least one")
	o.maxRecords = 3
	require.Equal(t, 3, o.fit(b.messages, 1<<20))
}

func TestBatchRoom_IsAlmostTheLimit(t *testing.T) {
	for limit := 1 << 10; limit < 1<<30; limit *= 2 {
		room := batchRoom(limit)
		require.LessOrEqual(t, BatchHeaderSize+room+CompressionOverhead(room), limit)
		require.Greater(t, room, limit*8/10-100)
	}
}

func TestSequence_WrapsToZero(t *testing.T) {
	require.Equal(t, int32(0), advance(math.MaxInt32, 1))
	require.Equal(t, int32(math.MaxInt32), advance(math.MaxInt32-1, 1))
}

func TestDeadLetters_AreCutOffAndSaySo(t *testing.T) {
	c := Config{Partition: 3, MaxRecordBytes: 100, TopicNames: [event.Topics]string{event.Payoffs: "payoffs"}}
	l := partition.DeadLetter{Topic: event.Payoffs, Offset: 9, Reason: "malformed", Detail: "no brace", Key: []byte("k"), Size: 5, Value: []byte("1234")}
	headers := func(m OutMessage) (all []string) {
		for _, h := range m.Headers {
			all = append(all, strings.TrimPrefix(h.Key, "__streams.errors.")+"="+string(h.Value))
		}
		return all
	}
	m := c.deadLetter(&l, 1<<20)
	require.Equal(t, []string{"exception=malformed", "message=no brace", "topic=payoffs", "partition=3", "offset=9"}, headers(m))
	require.Equal(t, "k 1234", string(m.Key)+" "+string(m.Value))

	l.Value, l.Size = make([]byte, 500), 501
	m = c.deadLetter(&l, 1<<20)
	require.Len(t, m.Value, 100)
	require.Contains(t, headers(m), "ranker.truncated.from=501")
	require.Empty(t, c.deadLetter(&l, 0).Value, "a topic that takes nothing")

	const topic = 1<<20 + 12 // Kafka's default
	c.MaxRecordBytes = 1 << 20
	l.Value, l.Size = make([]byte, topic-topic/64-2048), topic-topic/64-2047
	m = c.deadLetter(&l, topic)
	require.Equal(t, l.Value, m.Value, "it fits")
	require.NotContains(t, headers(m), "ranker.truncated")
	require.Len(t, m.Headers, 5)
	l.Key, l.Value, l.Size = make([]byte, topic), make([]byte, topic), 2*topic
	m = c.deadLetter(&l, topic)
	require.Greater(t, len(m.Key), topic*2/5)
	require.Greater(t, len(m.Value), topic*2/5)
	require.LessOrEqual(t, size(&m), batchRoom(topic))
}

func TestDeadLetters_ShrinkUntilTheBrokerTakesThem(t *testing.T) {
	var d deadLettersOut
	for range 4 {
		d.add(OutMessage{Value: make([]byte, 8), Headers: []Header{{"a", nil}}})
	}
	require.Len(t, d.next(1<<20), 4)
	for _, n := range []int{2, 1} {
		require.True(t, d.refused())
		require.Len(t, d.next(1<<20), n)
	}
	for _, n := range []int{4, 2, 1, 0} {
		require.True(t, d.refused())
		require.Len(t, d.next(1 << 20)[0].Value, n)
	}
	require.False(t, d.refused(), "it is as short as it can be")
	require.Equal(t, "ranker.truncated.from", d.messages[0].Headers[1].Key)

	d.delivered()
	require.Equal(t, int64(1), d.acked)
	require.Equal(t, int32(1), d.sequence)
	require.Len(t, d.messages, 3)
	for !d.idle() {
		d.next(1 << 20)
		d.delivered()
	}
	require.Zero(t, d.bytes)
	require.Equal(t, d.made, d.acked)
}

func TestLanes_WhatIsEmittedIsAckedByAll(t *testing.T) {
	var l outbox
	none := l.made()
	l.letters[event.Payoffs].add(OutMessage{})
	l.rankings.rank("a")
	both := l.made()
	require.True(t, l.acked(none))
	require.False(t, l.acked(both))
	require.True(t, l.noneInFlight(), "nothing was sent yet")
	require.False(t, l.idle())

	l.letters[event.Payoffs].next(1 << 20)
	b := l.rankings.next()
	require.False(t, l.noneInFlight())
	l.letters[event.Payoffs].delivered()
	require.False(t, l.acked(both))
	l.rankings.delivered(0, b.messages)
	l.rankings.done()
	require.True(t, l.acked(both))
	require.True(t, l.noneInFlight())
	require.True(t, l.idle())

	l.fenced()
	require.Zero(t, l.rankings.sequence)
	require.Zero(t, l.letters[event.Payoffs].sequence)
	require.True(t, l.acked(both), "what is in the log stays there")
}
