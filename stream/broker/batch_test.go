package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// readRecords reads a whole batch.
func readRecords(b *Batch, topic event.Topic, from int64) (records []partition.Record, steps [][]byte, err error) {
	r := recordReader{topic: topic, from: from, most: defaultMaxValue}
	defer r.end()
	if err := r.read(context.Background(), b); err != nil {
		return nil, nil, err
	}
	for r.unread > 0 {
		rec, s, ok, err := r.next()
		if err != nil {
			return records, steps, err
		}
		if ok {
			records, steps = append(records, rec), append(steps, s)
		}
	}
	return records, steps, nil
}

// stepsOf is the last header of that name.
func stepsOf(m *task.OutMessage) (value []byte) {
	for _, h := range m.Headers {
		if h.Key == task.StepsHeader {
			value = h.Value
		}
	}
	return value
}

func nullableBytes(t *rapid.T, label string) []byte {
	if rapid.Bool().Draw(t, label+" null") {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, label)
}

func drawMessages(t *rapid.T) []task.OutMessage {
	messages := make([]task.OutMessage, rapid.IntRange(1, 200).Draw(t, "messages"))
	for i := range messages {
		m := &messages[i]
		m.Key, m.Value = nullableBytes(t, "key"), nullableBytes(t, "value")
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			name := rapid.OneOf(rapid.String(), rapid.Just(task.StepsHeader)).Draw(t, "name")
			m.Headers = append(m.Headers, task.Header{Key: name, Value: nullableBytes(t, "header")})
		}
	}
	return messages
}

func drawInfo(t *rapid.T) BatchInfo {
	return BatchInfo{
		Producer:  task.Producer{ID: rapid.Int64Range(-1, math.MaxInt64).Draw(t, "id"), Epoch: rapid.Int16Min(-1).Draw(t, "epoch")},
		Sequence:  rapid.Int32Min(-1).Draw(t, "sequence"),
		Timestamp: rapid.Int64Range(0, 1<<48).Draw(t, "timestamp"),
	}
}

// Batches are read back as written, in every compression and behind any other bytes. Equal input gives equal bytes.
func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		info, messages := drawInfo(t), drawMessages(t)
		prefix := []byte("before")
		data, err := AppendBatch(prefix, &info, messages)
		require.NoError(t, err)
		again, err := AppendBatch(nil, &info, messages)
		require.NoError(t, err)
		require.Equal(t, again, data[len(prefix):])

		data = compressed(t, rapid.SampledFrom(codecs).Draw(t, "compression"), again)
		b, rest, err := ReadBatch(append(data, "behind"...))
		require.NoError(t, err)
		require.Equal(t, "behind", string(rest))
		require.Equal(t, info.Producer, b.Producer)
		require.Equal(t, info.Timestamp, b.BaseTimestamp)
		require.Equal(t, info.Timestamp, b.MaxTimestamp)
		require.EqualValues(t, len(messages), b.Count)
		require.False(t, b.Control() || b.Transactional())

		records, _, err := readRecords(&b, event.Payoffs, 0)
		require.NoError(t, err)
		for i := range messages {
			m := &messages[i]
			require.Equal(t, partition.Record{Topic: event.Payoffs, Offset: int64(i), Timestamp: info.Timestamp, Key: m.Key,
				Value: m.Value}, records[i])
		}
		require.Len(t, records, len(messages))
		_, steps, err := readRecords(&b, event.Rankings, 0)
		require.NoError(t, err)
		for i := range messages {
			require.Equal(t, stepsOf(&messages[i]), steps[i])
		}
	})
}

// A batch takes no more than its messages' bytes and the overheads that are promised to callers.
func TestBatchSizeBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		info, messages := drawInfo(t), drawMessages(t)
		bound := BatchHeaderSize
		for _, m := range messages {
			bound += task.RecordOverhead + len(m.Key) + len(m.Value)
			for _, h := range m.Headers {
				bound += task.HeaderOverhead + len(h.Key) + len(h.Value)
			}
		}
		data, err := AppendBatch(nil, &info, messages)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), bound)
	})
}

// Two independent decoders, kmsg's and kafka-go's, read our batches.
func TestBatchReadByOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		info, messages := drawInfo(t), drawMessages(t)
		data, err := AppendBatch(nil, &info, messages)
		require.NoError(t, err)
		readByKmsg(t, data, &info, messages)
		readByKafkaGo(t, data, &info, messages)
	})
}

func readByKmsg(t *rapid.T, data []byte, info *BatchInfo, messages []task.OutMessage) {
	var b kmsg.RecordBatch
	require.NoError(t, b.ReadFrom(data))
	require.EqualValues(t, 2, b.Magic)
	require.EqualValues(t, len(data)-12, b.Length)
	require.EqualValues(t, crc32.Checksum(data[21:], crc32.MakeTable(crc32.Castagnoli)), uint32(b.CRC))
	require.Zero(t, b.Attributes)
	require.EqualValues(t, len(messages)-1, b.LastOffsetDelta)
	require.Equal(t, info.Timestamp, b.FirstTimestamp)
	require.Equal(t, info.Producer, task.Producer{ID: b.ProducerID, Epoch: b.ProducerEpoch})
	require.Equal(t, info.Sequence, b.FirstSequence)
	require.EqualValues(t, len(messages), b.NumRecords)
	raw := b.Records
	for i, m := range messages {
		size, n := binary.Varint(raw)
		var r kmsg.Record
		require.NoError(t, r.ReadFrom(raw[:n+int(size)]))
		raw = raw[n+int(size):]
		require.EqualValues(t, i, r.OffsetDelta)
		require.Equal(t, m.Key, r.Key)
		require.Equal(t, m.Value, r.Value)
		require.Len(t, r.Headers, len(m.Headers))
		for j, h := range m.Headers {
			require.Equal(t, h, task.Header{Key: r.Headers[j].Key, Value: r.Headers[j].Value})
		}
	}
	require.Empty(t, raw)
}

func readByKafkaGo(t *rapid.T, data []byte, info *BatchInfo, messages []task.OutMessage) {
	var set protocol.RecordSet
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	_, err := set.ReadFrom(bytes.NewReader(framed))
	require.NoError(t, err)
	for i, m := range messages {
		r, err := set.Records.ReadRecord()
		require.NoError(t, err)
		require.EqualValues(t, i, r.Offset)
		require.Equal(t, info.Timestamp, r.Time.UnixMilli())
		require.Equal(t, m.Key, readBytes(t, r.Key))
		require.Equal(t, m.Value, readBytes(t, r.Value))
		require.Len(t, r.Headers, len(m.Headers))
	}
	_, err = set.Records.ReadRecord()
	require.ErrorIs(t, err, io.EOF)
}

func readBytes(t *rapid.T, b protocol.Bytes) []byte {
	if b == nil {
		return nil
	}
	data, err := protocol.ReadAll(b)
	require.NoError(t, err)
	return append([]byte{}, data...)
}

// kafkaGoSet is a record set as kafka-go writes it.
func kafkaGoSet(t require.TestingT, attributes protocol.Attributes, records ...protocol.Record) []byte {
	set := protocol.RecordSet{Version: 2, Attributes: attributes, Records: protocol.NewRecordReader(records...)}
	var buf bytes.Buffer
	_, err := set.WriteTo(&buf)
	require.NoError(t, err)
	return buf.Bytes()[4:]
}

// We read kafka-go's batches, with timestamps that differ within a batch.
func TestBatchReadFromKafkaGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := drawMessages(t)
		codec := rapid.SampledFrom(codecs).Draw(t, "compression")
		records := make([]protocol.Record, len(messages))
		want := make([]partition.Record, len(messages))
		for i, m := range messages {
			at := rapid.Int64Range(1, 1<<42).Draw(t, "time")
			records[i] = protocol.Record{Offset: int64(i), Time: time.UnixMilli(at), Key: protocol.NewBytes(m.Key), Value: protocol.NewBytes(m.Value)}
			want[i] = partition.Record{Offset: int64(i), Timestamp: at, Key: m.Key, Value: m.Value}
		}
		data := kafkaGoSet(t, protocol.Attributes(codec), records...)
		b, rest, err := ReadBatch(data)
		require.NoError(t, err)
		require.Empty(t, rest)
		got, _, err := readRecords(&b, event.Impressions, 0)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// reseal makes a batch's length and checksum right again after a change.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-atLeaderEpoch))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return b
}

func encode(t require.TestingT, base int64, info BatchInfo, messages ...task.OutMessage) []byte {
	b, err := AppendBatch(nil, &info, messages)
	require.NoError(t, err)
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(base))
	return b
}

func message(value string) task.OutMessage { return task.OutMessage{Value: []byte(value)} }

// Every flipped bit behind the leader epoch is noticed, as is every missing byte.
func TestDamagedBatchIsRefused(t *testing.T) {
	good := encode(t, 7, BatchInfo{Timestamp: 5}, message("a"), message("b"))
	for i := atMagic; i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		_, _, err := ReadBatch(bad)
		require.Error(t, err, "byte %d", i)
	}
	for n := range good {
		_, _, err := ReadBatch(good[:n])
		require.ErrorIs(t, err, errPartial, "%d bytes", n)
	}
}

func TestOldFormatIsUnsupported(t *testing.T) {
	b := encode(t, 0, BatchInfo{}, message("a"))
	b[atMagic] = 1
	_, _, err := ReadBatch(b)
	require.ErrorIs(t, err, task.ErrUnsupported)
}

func TestLogAppendTimeWins(t *testing.T) {
	b := encode(t, 0, BatchInfo{Timestamp: 5}, message("a"))
	b[atAttributes+1] |= attrLogAppendTime
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], 99)
	batch, _, err := ReadBatch(reseal(b))
	require.NoError(t, err)
	records, _, err := readRecords(&batch, 0, 0)
	require.NoError(t, err)
	require.EqualValues(t, 99, records[0].Timestamp)
}

// A batch that claims more records than its bytes can hold is refused before memory is set aside for them.
func TestClaimedCountIsBounded(t *testing.T) {
	b := encode(t, 0, BatchInfo{}, message("a"))
	binary.BigEndian.PutUint32(b[atCount:], math.MaxInt32)
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], math.MaxInt32-1)
	require.Less(t, estimateRecords(reseal(b)), int64(10))
	batch, _, err := ReadBatch(b)
	require.NoError(t, err)
	_, _, err = readRecords(&batch, 0, 0)
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestEmptyBatchIsRefused(t *testing.T) {
	_, err := AppendBatch(nil, &BatchInfo{}, nil)
	require.ErrorIs(t, err, errBatch)
}
