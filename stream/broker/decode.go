package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var (
	// ErrCorrupt: bytes that are no record batch, or one that was damaged.
	ErrCorrupt = errors.New("corrupt record batch")
	// errPartial: the bytes end before the batch does. An answer's last batch may be cut off; it is asked for again.
	errPartial = errors.New("partial record batch")
)

// Batch is one decoded batch header. Its records are still encoded, in the bytes it was read from.
type Batch struct {
	BaseOffset      int64
	LastOffsetDelta int32
	BaseTimestamp   event.Millis
	MaxTimestamp    event.Millis
	Producer        task.Producer
	Sequence        int32
	Count           int32
	attributes      uint16
	records         []byte
}

// LastOffset is the last offset that the batch covers. Compaction can have removed its record.
func (b *Batch) LastOffset() int64 { return b.BaseOffset + int64(b.LastOffsetDelta) }

// Control tells whether the batch holds a control record, which no application sees.
func (b *Batch) Control() bool { return b.attributes&attrControl != 0 }

// Transactional tells whether the batch belongs to a transaction.
func (b *Batch) Transactional() bool { return b.attributes&attrTransactional != 0 }

// Compression is the codec of the batch's records.
func (b *Batch) Compression() Compression { return Compression(b.attributes & attrCompression) }

// ReadBatch reads the header of the batch that data begins with, checks its checksum and returns the bytes behind it.
// The error is errPartial where the batch is cut off, else it wraps ErrCorrupt or task.ErrUnsupported.
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
		Sequence:        int32(be.Uint32(d[atBaseSequence:])),
		Count:           int32(be.Uint32(d[atCount:])),
		attributes:      be.Uint16(d[atAttributes:]),
		records:         d[BatchHeaderSize:],
	}
	if base < 0 || b.LastOffsetDelta < 0 || b.LastOffset() < base || b.Count < 0 || int64(b.Count) > int64(b.LastOffsetDelta)+1 {
		return b, data, fmt.Errorf("%w: base offset %d, last offset delta %d, %d records", ErrCorrupt, base,
			b.LastOffsetDelta, b.Count)
	}
	return b, data[end:], nil
}

// minRecordSize is that of a record with null key and value, its length included.
const minRecordSize = 7

// plain returns the records uncompressed; limit bounds their size.
func (b *Batch) plain(limit int) ([]byte, error) {
	raw := b.records
	if c := b.Compression(); c != None && b.Count > 0 {
		var err error
		if raw, err = decompress(c, raw, limit); err != nil {
			return nil, fmt.Errorf("decompressing the batch at offset %d: %w", b.BaseOffset, err)
		}
	}
	if int64(b.Count)*minRecordSize > int64(len(raw)) {
		return nil, fmt.Errorf("%w: %d records in %d bytes at offset %d", ErrCorrupt, b.Count, len(raw), b.BaseOffset)
	}
	return raw, nil
}

// appendRecords appends those of the batch's records that have an offset of at least from, and returns the size of
// the uncompressed records too. Keys and values alias the bytes that the batch was read from or, if it is compressed,
// new ones. Headers are skipped. limit bounds the uncompressed size.
func (b *Batch) appendRecords(dst []partition.Record, topic event.Topic, from int64, limit int) ([]partition.Record, int, error) {
	raw, err := b.plain(limit)
	if err != nil {
		return dst, 0, err
	}
	size := len(raw)
	appendTime := b.attributes&attrLogAppendTime != 0
	last := int64(-1)
	for range b.Count {
		var r record
		if raw, err = r.read(raw); err != nil {
			return dst, size, fmt.Errorf("%w in the batch at offset %d", err, b.BaseOffset)
		}
		if r.offsetDelta <= last || r.offsetDelta > int64(b.LastOffsetDelta) {
			return dst, size, fmt.Errorf("%w: offset delta %d after %d, of at most %d, in the batch at offset %d",
				ErrCorrupt, r.offsetDelta, last, b.LastOffsetDelta, b.BaseOffset)
		}
		last = r.offsetDelta
		offset := b.BaseOffset + r.offsetDelta
		if offset < from {
			continue
		}
		at := b.BaseTimestamp + r.timestampDelta
		if appendTime {
			at = b.MaxTimestamp
		}
		dst = append(dst, partition.Record{Topic: topic, Offset: offset, Timestamp: at, Key: r.key, Value: r.value})
	}
	if len(raw) != 0 {
		return dst, size, fmt.Errorf("%w: %d bytes behind the records of the batch at offset %d", ErrCorrupt, len(raw), b.BaseOffset)
	}
	return dst, size, nil
}

// marker reads a control batch: the end of a transaction. ok is false for control records of other kinds.
func (b *Batch) marker() (m task.Marker, ok bool, err error) {
	if b.Count == 0 {
		return m, false, nil
	}
	raw, err := b.plain(len(b.records))
	if err != nil {
		return m, false, err
	}
	var r record
	if _, err := r.read(raw); err != nil {
		return m, false, fmt.Errorf("%w in the control batch at offset %d", err, b.BaseOffset)
	}
	if len(r.key) < 4 {
		return m, false, fmt.Errorf("%w: a control record with a key of %d bytes at offset %d", ErrCorrupt, len(r.key), b.BaseOffset)
	}
	kind := binary.BigEndian.Uint16(r.key[2:])
	m = task.Marker{Offset: b.BaseOffset + r.offsetDelta, Producer: b.Producer, Abort: kind == 0}
	return m, kind <= 1, nil
}

// record is one record as it stands in a batch; headers hold the encoded headers, their number included.
type record struct {
	timestampDelta int64
	offsetDelta    int64
	key, value     []byte
	headers        []byte
}

var errRecord = fmt.Errorf("%w: malformed record", ErrCorrupt)

// read reads the record that b begins with, and returns what follows it.
func (r *record) read(b []byte) ([]byte, error) {
	size, n := binary.Varint(b)
	if n <= 0 || size < minRecordSize-1 || size > int64(len(b)-n) {
		return nil, errRecord
	}
	b = b[n:]
	body, rest := b[1:size:size], b[size:] // without the attributes: none are defined
	if r.timestampDelta, n = binary.Varint(body); n <= 0 {
		return nil, errRecord
	}
	body = body[n:]
	if r.offsetDelta, n = binary.Varint(body); n <= 0 {
		return nil, errRecord
	}
	body = body[n:]
	var ok bool
	if r.key, body, ok = readNullable(body); !ok {
		return nil, errRecord
	}
	if r.value, body, ok = readNullable(body); !ok {
		return nil, errRecord
	}
	if len(body) == 0 {
		return nil, errRecord
	}
	r.headers = body
	return rest, nil
}

func readNullable(b []byte) (value, rest []byte, ok bool) {
	size, n := binary.Varint(b)
	if n <= 0 || size < -1 || size > int64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	if size < 0 {
		return nil, b, true
	}
	return b[:size:size], b[size:], true
}

// readHeaders decodes a record's headers.
func readHeaders(b []byte) ([]task.Header, error) {
	count, n := binary.Varint(b)
	if n <= 0 || count < 0 || count > int64(len(b)/2) {
		return nil, errRecord
	}
	b = b[n:]
	headers := make([]task.Header, 0, count)
	for range count {
		key, rest, ok := readNullable(b)
		if !ok || key == nil {
			return nil, errRecord
		}
		var value []byte
		if value, b, ok = readNullable(rest); !ok {
			return nil, errRecord
		}
		headers = append(headers, task.Header{Key: string(key), Value: value})
	}
	if len(b) != 0 {
		return nil, errRecord
	}
	return headers, nil
}

// peek reads how many records the batch that data begins with claims to hold, and its size; 0 where data is too
// short to say.
func peek(data []byte) (count, size int) {
	if len(data) < BatchHeaderSize {
		return 0, 0
	}
	size = int(int32(binary.BigEndian.Uint32(data[atLength:]))) + atLeaderEpoch
	count = int(int32(binary.BigEndian.Uint32(data[atCount:])))
	if size < BatchHeaderSize || count < 0 {
		return 0, 0
	}
	return count, size
}
