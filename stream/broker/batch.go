package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Positions of header fields in a record batch, magic 2 (KIP-98).
const (
	atBaseOffset      = 0
	atLength          = 8 // of the bytes behind it
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17 // CRC-32C of the bytes behind it
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	BatchHeaderSize = task.BatchHeaderSize

	magic2 = 2

	attrCompression   = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type BatchInfo struct {
	Producer  task.Producer // -1, -1: not idempotent
	Sequence  int32         // of the first record; -1: not idempotent
	Timestamp event.Millis  // of all records
}

var errBatch = errors.New("cannot encode the batch")

// AppendBatch appends messages to dst as one uncompressed record batch. Equal input gives equal bytes. It fails without messages, or if the
// batch exceeds a 31-bit length.
func AppendBatch(dst []byte, info *BatchInfo, messages []task.OutMessage) ([]byte, error) {
	if len(messages) == 0 {
		return dst, fmt.Errorf("%w: no messages", errBatch)
	}
	size := 0
	for i := range messages {
		if size += recordSize(i, &messages[i]); size > math.MaxInt32-BatchHeaderSize-10*len(messages) {
			return dst, fmt.Errorf("%w: %d messages are more than one batch can hold", errBatch, len(messages))
		}
	}
	start := len(dst)
	dst = slices.Grow(dst, BatchHeaderSize+size+5*len(messages))
	dst = dst[:start+BatchHeaderSize]
	dst = appendRecords(dst, messages)
	putHeader(dst[start:], info, len(messages))
	return dst, nil
}

func putHeader(b []byte, info *BatchInfo, count int) {
	be := binary.BigEndian
	be.PutUint64(b[atBaseOffset:], 0)
	be.PutUint32(b[atLength:], uint32(len(b)-atLeaderEpoch))
	be.PutUint32(b[atLeaderEpoch:], math.MaxUint32) // -1: the broker's business
	b[atMagic] = magic2
	be.PutUint16(b[atAttributes:], 0)
	be.PutUint32(b[atLastOffsetDelta:], uint32(count-1))
	be.PutUint64(b[atBaseTimestamp:], uint64(info.Timestamp))
	be.PutUint64(b[atMaxTimestamp:], uint64(info.Timestamp))
	be.PutUint64(b[atProducerID:], uint64(info.Producer.ID))
	be.PutUint16(b[atProducerEpoch:], uint16(info.Producer.Epoch))
	be.PutUint32(b[atBaseSequence:], uint32(info.Sequence))
	be.PutUint32(b[atCount:], uint32(count))
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
}

func appendRecords(dst []byte, messages []task.OutMessage) []byte {
	for i := range messages {
		m := &messages[i]
		dst = binary.AppendVarint(dst, int64(recordSize(i, m)))
		dst = append(dst, 0, 0) // attributes; timestamp delta
		dst = binary.AppendVarint(dst, int64(i))
		dst = appendNullable(dst, m.Key)
		dst = appendNullable(dst, m.Value)
		dst = binary.AppendVarint(dst, int64(len(m.Headers)))
		for j := range m.Headers {
			h := &m.Headers[j]
			dst = binary.AppendVarint(dst, int64(len(h.Key)))
			dst = append(dst, h.Key...)
			dst = appendNullable(dst, h.Value)
		}
	}
	return dst
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1: null
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

// recordSize returns a record's length field: the size of the bytes behind it.
func recordSize(i int, m *task.OutMessage) int {
	n := 2 + varintSize(i) + nullableSize(m.Key) + nullableSize(m.Value) + varintSize(len(m.Headers))
	for j := range m.Headers {
		h := &m.Headers[j]
		n += varintSize(len(h.Key)) + len(h.Key) + nullableSize(h.Value)
	}
	return n
}

func nullableSize(b []byte) int {
	return varintSize(len(b)) + len(b)
}

func varintSize(n int) int {
	return (bits.Len64(uint64(n)<<1|1) + 6) / 7
}
