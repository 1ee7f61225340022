package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/memcap"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// shelf is a log as a broker keeps it: whole batches.
type shelf struct {
	batches [][]byte
	aborted []abortedTxn
	markers []int64 // of the aborted
	end     int64
}

// add appends a batch.
func (s *shelf) add(t require.TestingT, info BatchInfo, c Compression, attributes byte, messages ...task.OutMessage) {
	b := compressed(t, c, encode(t, s.end, info, messages...))
	b[atAttributes+1] |= attributes
	s.append(reseal(b), len(messages))
}

func (s *shelf) append(b []byte, offsets int) {
	s.batches = append(s.batches, b)
	s.end += int64(offsets)
}

// answer returns a broker's answer from an offset on: all batches from the one that holds it, of any size.
func (s *shelf) answer(offset int64) *kmsg.FetchResponseTopicPartition {
	a := &kmsg.FetchResponseTopicPartition{HighWatermark: s.end, LastStableOffset: s.end}
	for i, marker := range s.markers {
		if marker >= offset {
			a.AbortedTransactions = append(a.AbortedTransactions, s.aborted[i])
		}
	}
	for _, data := range s.batches {
		if b, _, err := ReadBatch(data); err != nil || b.LastOffset() >= offset {
			a.RecordBatches = append(a.RecordBatches, data...)
		}
	}
	return a
}

// fetch decodes one answer.
func (s *shelf) fetch(t require.TestingT, topic event.Topic, offset int64, maxBytes int, maxValue int64) (task.Fetched, error) {
	d := fetchDecoder{asked: &task.Fetch{Topic: topic, Offset: offset, MaxBytes: maxBytes}, maxValue: maxValue}
	out := task.Fetched{Next: offset}
	err := d.decode(ctxOf(t), s.answer(offset), &out)
	return out, err
}

// drawShelf is a log of any batches: compressed or not, plain or of transactions that end either way, compacted.
func drawShelf(t *rapid.T) *shelf {
	s := &shelf{}
	for range rapid.IntRange(1, 6).Draw(t, "batches") {
		info, messages, c := drawInfo(t), drawMessages(t), rapid.SampledFrom(codecs).Draw(t, "compression")
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			s.aborted = append(s.aborted, abortedTxn{ProducerID: info.Producer.ID, FirstOffset: s.end})
			s.add(t, info, c, attrTransactional, messages...)
			s.markers = append(s.markers, s.end)
			s.append(controlBatch(t, s.end, info.Producer, true), 1)
		case 1:
			s.add(t, info, c, attrTransactional, messages...)
			s.append(controlBatch(t, s.end, info.Producer, false), 1)
		case 2:
			gap := rapid.IntRange(1, 9).Draw(t, "compacted")
			s.append(compacted(t, s.end, len(messages)+gap-1, messages...), len(messages)+gap)
		default:
			s.add(t, info, c, 0, messages...)
		}
	}
	return s
}

// However an answer's budget cuts a log into pieces, batches in the middle too, the pieces are the whole.
func TestPiecesMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShelf(t)
		topic := rapid.SampledFrom([]event.Topic{event.Impressions, event.Rankings}).Draw(t, "topic")
		maxValue := rapid.SampledFrom([]int64{20, 1 << 20}).Draw(t, "longest value")
		whole, err := s.fetch(t, topic, 0, 1<<30, maxValue)
		require.NoError(t, err)
		require.Equal(t, s.end, whole.Next)
		require.True(t, whole.LastRead)

		var all task.Fetched
		for all.Next < s.end {
			bytes := rapid.IntRange(1, 3000).Draw(t, "bytes")
			piece, err := s.fetch(t, topic, all.Next, bytes, maxValue)
			require.NoError(t, err)
			require.Greater(t, piece.Next, all.Next)
			require.Equal(t, piece.Next == s.end, piece.LastRead)
			held := 0
			for _, r := range piece.Records {
				require.GreaterOrEqual(t, r.Offset, all.Next)
				require.Less(t, r.Offset, piece.Next)
				require.Less(t, held, bytes*decodeFactor, "another record although the answer was full")
				held += int(recordCost) + len(r.Key) + len(r.Value)
			}
			all.Records = append(all.Records, piece.Records...)
			all.Origins = append(all.Origins, piece.Origins...)
			all.Markers = append(all.Markers, piece.Markers...)
			all.Next = piece.Next
		}
		require.Equal(t, whole.Records, append([]partition.Record{}, all.Records...))
		require.Equal(t, whole.Markers, all.Markers)
		require.Equal(t, whole.Origins, all.Origins)
		if topic == event.Rankings {
			require.Len(t, whole.Origins, len(whole.Records))
		}
	})
}

// The worst legal batches are given in pieces, each of which takes a bounded amount of memory, whatever passes.
func TestWorstBatchesAreBounded(t *testing.T) {
	line := []byte(`{"impression_id":"i-1","candidates":[{"item":"film-1","utility":0.5}]}            `)
	worst := map[string]func(c Compression) []byte{
		"70 records of almost 1 MiB": func(c Compression) []byte {
			messages := make([]task.OutMessage, 70)
			for i := range messages {
				messages[i].Value = bytes.Repeat(line, 1<<20/len(line)-1)
			}
			return compressed(t, c, encode(t, 0, BatchInfo{}, messages...))
		},
		"300,000 empty records": func(c Compression) []byte {
			return compressed(t, c, encode(t, 0, BatchInfo{}, make([]task.OutMessage, 300_000)...))
		},
		"one record of 30 MiB": func(c Compression) []byte {
			return compressed(t, c, encode(t, 0, BatchInfo{}, message("a"), task.OutMessage{Value: make([]byte, 30<<20)}, message("b")))
		},
	}
	const asked = 1 << 20 // a task's limit
	for name, batch := range worst {
		for _, c := range codecs {
			t.Run(fmt.Sprintf("%s, %v", name, c), func(t *testing.T) {
				s := &shelf{}
				data := batch(c)
				header, _, err := ReadBatch(data)
				require.NoError(t, err)
				s.append(data, int(header.Count))
				records, pieces, most := 0, 0, uint64(0)
				for next := int64(0); next < s.end; pieces++ {
					d := fetchDecoder{asked: &task.Fetch{MaxBytes: asked, Offset: next}, maxValue: 1 << 20}
					a := &kmsg.FetchResponseTopicPartition{HighWatermark: s.end, LastStableOffset: s.end, RecordBatches: data}
					out := task.Fetched{Next: next}
					most = max(most, memcap.Allocated(func() { err = d.decode(t.Context(), a, &out) }))
					require.NoError(t, err)
					require.Greater(t, out.Next, next)
					next = out.Next
					records += len(out.Records)
				}
				require.EqualValues(t, header.Count, records)
				// Snappy's only block, of a batch as ours are not, would come on top.
				require.Less(t, most, uint64(3*asked*decodeFactor))
				t.Logf("%d bytes on the wire, %d pieces, at most %.1f MiB allocated for one", len(data), pieces, float64(most)/(1<<20))
			})
		}
	}
}

// A value of 200 MiB in a batch of a few kilobytes is cut. The record has its beginning, its size, and the hash of
// the whole. The records behind it are not lost.
func TestLongValueIsCut(t *testing.T) {
	const size, maxValue = 200 << 20, 1 << 20
	head := binary.AppendVarint([]byte{0, 0, 2}, 3) // attributes, timestamp, offset 1, a key of three bytes
	head = binary.AppendVarint(append(head, "key"...), size)
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	write := func(b []byte) {
		_, err := w.Write(b)
		require.NoError(t, err)
	}
	write(appendRecords(nil, []task.OutMessage{message("before")}))
	write(binary.AppendVarint(nil, int64(len(head)+size+1)))
	write(head)
	hash := xxhash.New()
	_, _ = hash.WriteString("key\x00")
	zeros := make([]byte, 1<<20)
	for range size / len(zeros) {
		write(zeros)
		_, _ = hash.Write(zeros)
	}
	write([]byte{0}) // headers
	behind := appendRecords(nil, []task.OutMessage{{}, {}, message("behind")})
	write(behind[2*minRecordSize:])
	require.NoError(t, w.Close())

	b := compressed(t, Zstd, encode(t, 0, BatchInfo{}, message("before"), message(""), message("behind")))
	s := &shelf{}
	s.append(reseal(append(b[:BatchHeaderSize], packed.Bytes()...)), 3)
	var out task.Fetched
	took := memcap.Allocated(func() { out, err = s.fetch(t, event.Impressions, 0, 1<<20, maxValue) })
	require.NoError(t, err)
	require.Equal(t, []string{"before", string(zeros) + "\x00", "behind"}, values(out))
	require.Equal(t, &partition.Cut{Size: 3 + size, Hash: hash.Sum64()}, out.Records[1].Cut)
	require.Nil(t, out.Records[2].Cut)
	require.Less(t, took, uint64(24<<20))
	t.Logf("%d bytes on the wire, %.1f MiB allocated", packed.Len(), float64(took)/(1<<20))
}

// The hash of a cut record is that of its whole value, in every compression and at every length.
func TestCutIsOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := task.OutMessage{Key: nullableBytes(t, "key"), Value: nullableBytes(t, "value")}
		maxValue := rapid.Int64Range(0, 300).Draw(t, "most")
		s := &shelf{}
		s.add(t, BatchInfo{}, rapid.SampledFrom(codecs).Draw(t, "codec"), 0, m)
		out, err := s.fetch(t, event.Payoffs, 0, 1, maxValue)
		require.NoError(t, err)
		r := out.Records[0]
		if int64(max(len(m.Key), len(m.Value))) <= maxValue+1 {
			require.Equal(t, partition.Record{Topic: event.Payoffs, Key: m.Key, Value: m.Value}, r)
			return
		}
		require.Equal(t, m.Key[:min(len(m.Key), int(maxValue)+1)], r.Key)
		require.Equal(t, m.Value[:min(len(m.Value), int(maxValue)+1)], r.Value)
		require.Equal(t, &partition.Cut{Size: len(m.Key) + len(m.Value), Hash: xxhash.Sum64(slices.Concat(m.Key, []byte{0}, m.Value))}, r.Cut)
		rank, err := s.fetch(t, event.Rankings, 0, 1, maxValue)
		require.NoError(t, err)
		require.Equal(t, m.Value, rank.Records[0].Value, "rankings are read whole")
	})
}

// In a batch with a right checksum and a faulty record, the records before the fault are returned, then an error with
// its offset.
func TestFaultInTheMiddleIsNamed(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			records := appendRecords(nil, []task.OutMessage{message("a"), message("b"), message("c")})
			records[len(records)/3*2] = 1 // the third one's length
			b := encode(t, 40, BatchInfo{}, message("a"), message("b"), message("c"))
			s := &shelf{end: 40}
			s.append(compressed(t, c, append(b[:BatchHeaderSize], records...)), 3)
			out, err := s.fetch(t, event.Impressions, 40, 1<<20, 1<<20)
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b"}, values(out))
			require.EqualValues(t, 42, out.Next)
			require.False(t, out.LastRead)
			_, err = s.fetch(t, event.Impressions, 42, 1<<20, 1<<20)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "at offset 42 or behind it, in the batch at offset 40")
		})
	}
}

// A shutdown ends the unpacking of a batch; a deadline that has passed does not, for the next try would come no further.
func TestUnpackingEndsWithTheWorker(t *testing.T) {
	s := &shelf{}
	s.add(t, BatchInfo{}, Zstd, 0, message("a"))
	d := fetchDecoder{asked: &task.Fetch{MaxBytes: 1000}, maxValue: 1000}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.decode(ctx, s.answer(0), &task.Fetched{}), context.Canceled)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-late.Done()
	var out task.Fetched
	require.NoError(t, d.decode(late, s.answer(0), &out))
	require.Len(t, out.Records, 1)
}
