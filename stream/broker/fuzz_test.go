package broker

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/memcap"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// FuzzReadBatch gives its input a right checksum, so that the fuzzer gets behind it. There must be no panic, no
// record beyond the header's count, and no memory beyond the limit.
func FuzzReadBatch(f *testing.F) {
	for _, c := range codecs {
		f.Add(compressed(f, c, encode(f, 3, BatchInfo{Timestamp: 9}, message("a"), task.OutMessage{Key: []byte("k"),
			Headers: []task.Header{{Key: "h"}}})))
	}
	f.Add(controlBatch(f, 5, task.Producer{ID: 1, Epoch: 2}, true))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > BatchHeaderSize {
			data[atMagic] = magic2
			reseal(data)
		}
		b, _, err := ReadBatch(data)
		if err != nil {
			return
		}
		if b.Control() {
			_, _, _ = b.marker(t.Context())
			return
		}
		fuzzRecords(t, &b, event.Impressions)
		fuzzRecords(t, &b, event.Rankings)
	})
}

// fuzzRecords reads the records of a batch of whatever bytes.
func fuzzRecords(t *testing.T, b *Batch, topic event.Topic) {
	const most = 1 << 10
	r := recordReader{topic: topic, from: b.BaseOffset + 1, most: most}
	last, held := b.BaseOffset, 0
	took := memcap.Allocated(func() {
		defer r.end()
		if err := r.read(t.Context(), b); err != nil {
			return
		}
		for range 10_000 { // or a batch of a few bytes keeps a worker of the fuzzer for long
			if r.unread == 0 {
				break
			}
			rec, steps, ok, err := r.next()
			if err != nil {
				return
			}
			if !ok {
				continue
			}
			if rec.Offset <= last || rec.Offset > b.LastOffset() || topic != event.Rankings && max(len(rec.Key), len(rec.Value)) > most+1 {
				t.Errorf("after offset %d: %d, key of %d bytes, value of %d, in a batch from %d to %d", last, rec.Offset, len(rec.Key),
					len(rec.Value), b.BaseOffset, b.LastOffset())
			}
			last = rec.Offset
			held += len(rec.Key) + len(rec.Value) + len(steps) + 200
		}
	})
	// Some for tables, blocks and windows of a decoder's own, which are as large as its input bears out.
	require.LessOrEqual(t, took, uint64(24<<20+2*held+min(2*maxWindow, 32<<10*len(b.records))))
}

// FuzzZstd: whatever a frame's header claims, we read the same bytes as the library does at once. A smaller window
// changes nothing.
func FuzzZstd(f *testing.F) {
	f.Add(streamed(f, text(300_000, 1), 100_000, zstd.WithWindowSize(1<<20)))
	f.Add(streamed(f, []byte("abc"), 1, zstd.WithWindowSize(maxWindow)))
	f.Add(compress(f, Zstd, text(1000, 2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 { // or a few bytes become gigabytes
			return
		}
		got, err := unpacked(Zstd, data)
		if err != nil {
			return
		}
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		require.NoError(t, err)
		defer d.Close()
		want, err := d.DecodeAll(data, nil)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	})
}

// controlBatch is a transaction's end as a broker writes it.
func controlBatch(t require.TestingT, base int64, p task.Producer, abort bool) []byte {
	key := []byte{0, 0, 0, 1}
	if abort {
		key[3] = 0
	}
	b := encode(t, base, BatchInfo{Producer: p, Sequence: -1}, task.OutMessage{Key: key, Value: make([]byte, 6)})
	b[atAttributes+1] |= attrControl | attrTransactional
	return reseal(b)
}

// fetchAnswer is an answer of version 11 about one partition.
func fetchAnswer(topic string, high, stable int64, aborted []abortedTxn, records []byte) []byte {
	one := kmsg.NewFetchResponseTopicPartition()
	one.HighWatermark, one.LastStableOffset, one.LogStartOffset, one.AbortedTransactions, one.RecordBatches = high, stable, 0, aborted, records
	res := kmsg.NewPtrFetchResponse()
	res.Version = 11
	res.Topics = []kmsg.FetchResponseTopic{{Topic: topic, Partitions: []kmsg.FetchResponseTopicPartition{one}}}
	return res.AppendTo(nil)
}

// fetchedFrom reads an answer about one partition.
func fetchedFrom(version int16, body []byte) (*kmsg.FetchResponseTopicPartition, error) {
	res := kmsg.NewPtrFetchResponse()
	res.Version = version
	if err := res.ReadFrom(body); err != nil {
		return nil, err
	}
	return fetched(res, "t", 0)
}

// FuzzAnswers: whatever a broker answers, no panic, and no answer that goes backwards.
func FuzzAnswers(f *testing.F) {
	batch := encode(f, 3, BatchInfo{}, message("a"), message("b"))
	aborted := []abortedTxn{{ProducerID: 1, FirstOffset: 2}}
	f.Add(fetchAnswer("t", 9, 9, aborted, append(batch, controlBatch(f, 5, task.Producer{ID: 1}, true)...)), int64(3))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, body []byte, offset int64) {
		for version := int16(5); version <= 11; version++ {
			a, err := fetchedFrom(version, body)
			if err != nil {
				continue
			}
			out := task.Fetched{Next: offset}
			d := fetchDecoder{asked: &task.Fetch{Topic: event.Payoffs, Offset: offset, MaxBytes: 100}, maxValue: 1 << 10}
			_ = d.decode(t.Context(), a, &out)
			require.GreaterOrEqual(t, out.Next, offset)
			last := offset - 1
			for _, r := range out.Records {
				require.GreaterOrEqual(t, r.Offset, offset)
				require.Less(t, r.Offset, out.Next)
				last = r.Offset
			}
			require.Less(t, last, max(out.Next, offset))
		}
		for version := int16(3); version <= 8; version++ {
			if res := (&kmsg.MetadataResponse{Version: version}); res.ReadFrom(body) == nil {
				_, _ = newMetadata(res)
			}
			if res := (&kmsg.ProduceResponse{Version: version}); res.ReadFrom(body) == nil {
				_, _ = produced(res, "t", 0)
			}
			if res := (&kmsg.DescribeQuorumResponse{Version: 1}); res.ReadFrom(body) == nil {
				_, _ = controllerTime(res)
			}
		}
	})
}

// compacted removes all but the given records of a batch, as a broker's log cleaner does: the header stays.
func compacted(t require.TestingT, base int64, lastDelta int, keep ...task.OutMessage) []byte {
	b := encode(t, base, BatchInfo{Timestamp: 1}, append(keep, message("gone"))...)
	// Cut the last record off again.
	size, n := recordSize(len(keep), &task.OutMessage{Value: []byte("gone")}), 1
	b = b[:len(b)-size-n]
	binary.BigEndian.PutUint32(b[atCount:], uint32(len(keep)))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(lastDelta))
	return reseal(b)
}

func decodeAnswer(t *testing.T, asked task.Fetch, body []byte) (task.Fetched, error) {
	t.Helper()
	a, err := fetchedFrom(11, body)
	require.NoError(t, err)
	out := task.Fetched{Next: asked.Offset}
	d := fetchDecoder{asked: &asked, maxValue: 1 << 20}
	err = d.decode(t.Context(), a, &out)
	return out, err
}

// A tail whose records were compacted away, and a trailing marker, do not stall a reader.
func TestCompactedTailDoesNotStall(t *testing.T) {
	records := compacted(t, 10, 9, message("a"))
	out, err := decodeAnswer(t, task.Fetch{Offset: 10, MaxBytes: 1000}, fetchAnswer("t", 20, 20, nil, records))
	require.NoError(t, err)
	require.Len(t, out.Records, 1)
	require.EqualValues(t, 20, out.Next)
	require.True(t, out.LastRead)

	records = append(compacted(t, 20, 4), controlBatch(t, 25, task.Producer{ID: 7, Epoch: 1}, false)...)
	out, err = decodeAnswer(t, task.Fetch{Offset: 20, MaxBytes: 1000}, fetchAnswer("t", 26, 26, nil, records))
	require.NoError(t, err)
	require.Empty(t, out.Records)
	require.EqualValues(t, 26, out.Next)
	require.Equal(t, []task.Marker{{Offset: 25, Producer: task.Producer{ID: 7, Epoch: 1}}}, out.Markers)
}

// An open transaction hides the records behind it: the end is not reached.
func TestOpenTransactionIsNotTheEnd(t *testing.T) {
	out, err := decodeAnswer(t, task.Fetch{Offset: 5, MaxBytes: 1}, fetchAnswer("t", 9, 5, nil, nil))
	require.NoError(t, err)
	require.False(t, out.LastRead)
	require.EqualValues(t, 5, out.Next)
	out, err = decodeAnswer(t, task.Fetch{Offset: 9, MaxBytes: 1}, fetchAnswer("t", 9, 5, nil, nil))
	require.NoError(t, err)
	require.False(t, out.LastRead)
	out, err = decodeAnswer(t, task.Fetch{Topic: event.Rankings, Offset: 9, MaxBytes: 1}, fetchAnswer("t", 9, -1, nil, nil))
	require.NoError(t, err)
	require.True(t, out.LastRead)
}

// A damaged batch ends the answer before it, and fails the next one, which begins with it. A batch cut off at the
// answer's end is no fault.
func TestDamageShowsWhereItStands(t *testing.T) {
	good := encode(t, 0, BatchInfo{}, message("a"))
	bad := encode(t, 1, BatchInfo{}, message("b"))
	bad[len(bad)-1] ^= 1
	both := append(append([]byte{}, good...), bad...)
	out, err := decodeAnswer(t, task.Fetch{MaxBytes: 1000}, fetchAnswer("t", 2, 2, nil, both))
	require.NoError(t, err)
	require.Len(t, out.Records, 1)
	require.EqualValues(t, 1, out.Next)
	require.False(t, out.LastRead)
	_, err = decodeAnswer(t, task.Fetch{Offset: 1, MaxBytes: 1000}, fetchAnswer("t", 2, 2, nil, bad))
	require.ErrorIs(t, err, ErrCorrupt)

	out, err = decodeAnswer(t, task.Fetch{MaxBytes: 1000}, fetchAnswer("t", 2, 2, nil, both[:len(both)-3]))
	require.NoError(t, err)
	require.EqualValues(t, 1, out.Next)
	_, err = decodeAnswer(t, task.Fetch{MaxBytes: 1000}, fetchAnswer("t", 2, 2, nil, good[:20]))
	require.ErrorIs(t, err, wire.ErrAnswer)
}

// An answer that unfolds to far more than was asked for ends early: its memory is bounded.
func TestAnswerIsBounded(t *testing.T) {
	var records []byte
	for i := range 10 {
		batch := encode(t, int64(i), BatchInfo{}, task.OutMessage{Value: make([]byte, 100_000)})
		records = append(records, compressed(t, Zstd, batch)...)
	}
	out, err := decodeAnswer(t, task.Fetch{MaxBytes: 30_000}, fetchAnswer("t", 10, 10, nil, records))
	require.NoError(t, err)
	require.Len(t, out.Records, 3)
	require.EqualValues(t, 3, out.Next)
	require.False(t, out.LastRead)
}
