package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// minRecordSize is the size of a record with null key and value, its length included.
const minRecordSize = 7

var errRecord = fmt.Errorf("%w: malformed record", ErrCorrupt)

// recordReader reads a batch's records one by one.
type recordReader struct {
	source
	batch *Batch
	topic event.Topic
	from  int64 // offset below which records are skipped
	// most is the largest length of a key or value. Of a longer one most+1 bytes are kept, as the mark.
	most int64
	// traces enables reading of traces. trace is that of the last record, empty if it has none.
	traces bool
	trace  task.Trace
	seen   []byte // of rankings: the last record's header task.SeenHeader

	unread int32
	last   int64 // offset delta of the previous record
	body   int64 // unread bytes of the present record
	sum    xxhash.Digest
}

// read begins a batch; end releases its buffers.
func (r *recordReader) read(ctx context.Context, b *Batch) error {
	r.source = source{ctx: ctx, b: b.records, next: min(max(2*len(b.records), slabLeast), slabSize)}
	r.batch, r.unread, r.last = b, b.Count, -1
	if b.Count == 0 || b.Compression() == None {
		return nil
	}
	u, err := unpackers.unpack(b.Compression(), b.records)
	if err != nil {
		return fmt.Errorf("%w in the batch at offset %d", err, b.BaseOffset)
	}
	r.b, r.source.from = nil, u
	return nil
}

func (r *recordReader) end() {
	if r.source.from != nil {
		r.source.from.close()
		r.source.from = nil
	}
}

// next reads the next record; ok is false if it is below the requested offset. steps is the header task.StepsHeader of a ranking.
func (r *recordReader) next() (rec partition.Record, steps []byte, ok bool, err error) {
	at := r.batch.BaseOffset + r.last + 1
	rec, steps, ok, err = r.decode()
	if r.unread--; err == nil && r.unread == 0 {
		err = r.nothing()
	}
	if errors.Is(err, errPast) || err == io.ErrNoProgress {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return rec, nil, false, fmt.Errorf("%w, at offset %d or behind it, in the batch at offset %d", err, at, r.batch.BaseOffset)
	}
	return rec, steps, ok, nil
}

// nothing fails if bytes follow the announced records, as Kafka's Java client does. A codec's error behind them is ignored: with gzip and
// lz4 that client does not read on.
func (r *recordReader) nothing() error {
	if len(r.b) > 0 || r.fill() == nil {
		return fmt.Errorf("%w: more bytes than %d records", ErrCorrupt, r.batch.Count)
	}
	return nil
}

func (r *recordReader) decode() (rec partition.Record, steps []byte, ok bool, err error) {
	size, _, err := r.varint()
	if err == nil && (size < minRecordSize-1 || size > math.MaxInt32) {
		err = errRecord
	}
	if err != nil {
		return rec, nil, false, err
	}
	r.body = size
	if err := r.pass(1); err != nil { // attributes: none are defined
		return rec, nil, false, err
	}
	if rec.Timestamp, err = r.number(); err != nil {
		return rec, nil, false, err
	}
	delta, err := r.number()
	if err != nil {
		return rec, nil, false, err
	}
	b := r.batch
	if delta <= r.last || delta > int64(b.LastOffsetDelta) {
		return rec, nil, false, fmt.Errorf("%w: offset delta %d after %d, of at most %d", ErrCorrupt, delta, r.last, b.LastOffsetDelta)
	}
	r.last = delta
	if rec.Offset = b.BaseOffset + delta; rec.Offset < r.from {
		return rec, nil, false, r.pass(r.body)
	}
	rec.Topic = r.topic
	if rec.Timestamp += b.BaseTimestamp; b.attributes&attrLogAppendTime != 0 {
		rec.Timestamp = b.MaxTimestamp
	}
	if err := r.content(&rec); err != nil {
		return rec, nil, false, err
	}
	if r.body == 0 {
		return rec, nil, false, errRecord // not even the number of headers
	}
	var headers []byte
	switch {
	case r.topic == event.Rankings:
		if headers, err = r.headers(r.most); err == nil {
			steps, r.seen, err = decisionIn(headers)
		}
	case r.traces:
		if headers, err = r.headers(maxTraceHeaders); err == nil {
			r.trace = traceIn(headers)
		}
	default:
		err = r.pass(r.body)
	}
	return rec, steps, err == nil, err
}

func (r *recordReader) content(rec *partition.Record) (err error) {
	var sum *xxhash.Digest
	if r.body > r.most {
		sum = &r.sum
		sum.Reset()
	}
	whole := int64(0)
	field := func() []byte {
		n := int64(-1)
		if err == nil {
			n, err = r.length()
		}
		if err != nil || n < 0 {
			return nil
		}
		whole += n
		r.body -= n
		var b []byte
		b, err = r.take(n, r.most+1, sum)
		return b
	}
	rec.Key = field()
	if sum != nil {
		_, _ = sum.Write([]byte{0})
	}
	rec.Value = field()
	if err == nil && whole > int64(len(rec.Key)+len(rec.Value)) {
		rec.Cut = &partition.Cut{Size: int(whole), Hash: sum.Sum64()}
		if r.source.from == nil { // nor is the whole kept in memory for the sake of the shorter of both
			rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		}
	}
	return err
}

// headers returns the rest of the record, or its first most bytes.
func (r *recordReader) headers(most int64) ([]byte, error) {
	n := r.body
	r.body = 0
	return r.take(n, most, nil)
}

// decisionIn returns the headers of a ranking.
func decisionIn(b []byte) (steps, seen []byte, err error) {
	whole := eachHeader(b, func(name, value []byte) {
		switch string(name) {
		case task.StepsHeader:
			steps = value
		case task.SeenHeader:
			seen = value
		}
	})
	if !whole {
		return nil, nil, errRecord
	}
	return steps, seen, nil
}

// eachHeader calls use for each header up to the first malformed one, and reports whether b holds nothing but headers. Of equal names the
// last one counts, as in Kafka's own clients. The value of null is nil.
func eachHeader(b []byte, use func(name, value []byte)) bool {
	number := func() (int64, bool) {
		v, n := binary.Varint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	field := func() (f []byte, ok bool) {
		n, ok := number()
		if !ok || n < -1 || n > int64(len(b)) {
			return nil, false
		}
		if n < 0 {
			return nil, true
		}
		f, b = b[:n:n], b[n:]
		return f, true
	}
	count, ok := number()
	for ; ok && count > 0; count-- {
		var name, value []byte
		if name, ok = field(); !ok || name == nil {
			return false
		}
		if value, ok = field(); ok {
			use(name, value)
		}
	}
	return ok && count == 0 && len(b) == 0
}

func (r *recordReader) number() (int64, error) {
	v, n, err := r.varint()
	if err != nil {
		return 0, err
	}
	if r.body -= int64(n); r.body < 0 {
		return 0, errRecord
	}
	return v, nil
}

func (r *recordReader) length() (int64, error) {
	n, err := r.number()
	if err == nil && (n < -1 || n > r.body) {
		err = errRecord
	}
	return n, err
}

// pass skips n bytes of the present record.
func (r *recordReader) pass(n int64) error {
	r.body -= n
	return r.skip(n, nil)
}

// Bounds of a record's trace, and of the header bytes read for it. W3C lets a tracestate above 512 bytes be dropped; a traceparent has 55.
const (
	maxTraceHeaders = 16 << 10
	maxTraceParent  = 256
	maxTraceState   = 512
)

const traceCost = int64(unsafe.Sizeof(task.Trace{}))

// traceIn returns the trace in headers. Malformed ones give no trace and no error: traces decide nothing, and without tracing the headers
// are not read.
func traceIn(b []byte) (t task.Trace) {
	_ = eachHeader(b, func(name, value []byte) {
		switch {
		case string(name) == task.TraceParentHeader && len(value) <= maxTraceParent:
			t.Parent = value
		case string(name) == task.TraceStateHeader && len(value) <= maxTraceState:
			t.State = value
		}
	})
	return t
}
