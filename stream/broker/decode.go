package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var (
	// ErrCorrupt: the bytes are no record batch, or a damaged one.
	ErrCorrupt = errors.New("corrupt record batch")
	// errPartial: the bytes end within a batch. A broker may cut off an answer's last batch; it is fetched again.
	errPartial = errors.New("partial record batch")
)

// Batch is a decoded batch header. The records are still encoded, in the bytes it was read from.
type Batch struct {
	BaseOffset      int64
	LastOffsetDelta int32
	BaseTimestamp   event.Millis
	MaxTimestamp    event.Millis
	Producer        task.Producer
	Count           int32
	leaderEpoch     int32 // of the leader that appended it
	attributes      uint16
	records         []byte
}

// LastOffset returns the last offset that the batch covers. Compaction may have removed its record.
func (b *Batch) LastOffset() int64 { return b.BaseOffset + int64(b.LastOffsetDelta) }

func (b *Batch) Control() bool { return b.attributes&attrControl != 0 }

func (b *Batch) Transactional() bool { return b.attributes&attrTransactional != 0 }

func (b *Batch) Compression() Compression { return Compression(b.attributes & attrCompression) }

// ReadBatch reads the header of the first batch in data, checks its checksum and returns the bytes behind the batch. The error is
// errPartial if the batch is cut off, else it wraps ErrCorrupt or task.ErrUnsupported.
func ReadBatch(data []byte) (b Batch, rest []byte, err error) {
	be := binary.BigEndian
	if len(data) <= atMagic {
		return b, data, errPartial
	}
	base := int64(be.Uint64(data[atBaseOffset:]))
	length := int64(int32(be.Uint32(data[atLength:])))
	if m := data[atMagic]; m != magic2 {
		if m < magic2 {
			return b, data, fmt.Errorf("%w: the records at offset %d are in message format %d; format 2 (Kafka 0.11) or "+
				"later is needed", task.ErrUnsupported, base, m)
		}
		return b, data, fmt.Errorf("%w: magic %d at offset %d", ErrCorrupt, m, base)
	}
	if length < BatchHeaderSize-atLeaderEpoch {
		return b, data, fmt.Errorf("%w: length %d at offset %d", ErrCorrupt, length, base)
	}
	end := atLeaderEpoch + length
	if int64(len(data)) < end {
		return b, data, errPartial
	}
	d := data[:end:end]
	if sum := crc32.Checksum(d[atAttributes:], castagnoli); sum != be.Uint32(d[atCRC:]) {
		return b, data, fmt.Errorf("%w: wrong checksum at offset %d", ErrCorrupt, base)
	}
	b = Batch{
		BaseOffset:      base,
		LastOffsetDelta: int32(be.Uint32(d[atLastOffsetDelta:])),
		BaseTimestamp:   int64(be.Uint64(d[atBaseTimestamp:])),
		MaxTimestamp:    int64(be.Uint64(d[atMaxTimestamp:])),
		Producer:        task.Producer{ID: int64(be.Uint64(d[atProducerID:])), Epoch: int16(be.Uint16(d[atProducerEpoch:]))},
		Count:           int32(be.Uint32(d[atCount:])),
		leaderEpoch:     int32(be.Uint32(d[atLeaderEpoch:])),
		attributes:      be.Uint16(d[atAttributes:]),
		records:         d[BatchHeaderSize:],
	}
	if base < 0 || b.LastOffsetDelta < 0 || b.LastOffset() < base || b.Count < 0 || int64(b.Count) > int64(b.LastOffsetDelta)+1 {
		return b, data, fmt.Errorf("%w: base offset %d, last offset delta %d, %d records", ErrCorrupt, base,
			b.LastOffsetDelta, b.Count)
	}
	return b, data[end:], nil
}

// marker reads a control batch. ok is false unless it ends a transaction.
func (b *Batch) marker(ctx context.Context) (m task.Marker, ok bool, err error) {
	if b.Count == 0 {
		return m, false, nil
	}
	r := recordReader{most: maxControlKey}
	defer r.end()
	if err := r.read(ctx, b); err != nil {
		return m, false, err
	}
	rec, _, _, err := r.next()
	if err != nil {
		return m, false, err
	}
	if len(rec.Key) < 4 {
		return m, false, fmt.Errorf("%w: a control record with a key of %d bytes at offset %d", ErrCorrupt, len(rec.Key), b.BaseOffset)
	}
	kind := binary.BigEndian.Uint16(rec.Key[2:])
	m = task.Marker{Offset: rec.Offset, Timestamp: rec.Timestamp, Producer: b.Producer, Abort: kind == 0}
	return m, kind <= 1, nil
}

// maxControlKey exceeds every control record's key.
const maxControlKey = 1 << 10
