package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Unreadable is a stretch of a topic that no worker can read.
type Unreadable struct {
	From, To  int64        // offsets; To is behind the last
	Timestamp event.Millis // of the newest of its records, as far as its batch can be believed; -1 is none
	Batch     []byte       // as it came, with the records before From that can be read; nil where the broker does not send it; of ErrContent the value
	High      int64
	LogStart  int64
	Err       error // why it cannot be read
}

// CannotBeRead reports whether a fetch error is about the log's contents. Only ErrContent is transient; after a long
// time it counts as a fault.
func CannotBeRead(err error) bool {
	return errors.Is(err, ErrContent) || errors.Is(err, ErrCorrupt) || errors.Is(err, task.ErrUnsupported) || errors.Is(err, kafka.InvalidMessage)
}

// Unreadable finds out why an input topic cannot be read at an offset, and up to which offset. It returns nil if a
// worker can read on from there, or if nothing is there yet.
func (p *Partition) Unreadable(ctx context.Context, topic event.Topic, offset int64) (*Unreadable, error) {
	f := task.Fetch{Topic: topic, Offset: offset, MaxBytes: 1}
	name := p.c.topic(topic)
	l, lead, err := p.leader(ctx, name)
	if err != nil {
		return nil, err
	}
	a, err := p.ask(ctx, l, lead, &f)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", partitionName(name, p.number), err)
	}
	var got task.Fetched
	d := fetchDecoder{asked: &f, maxValue: int64(p.c.o.MaxValue)}
	if err = d.decode(ctx, a, &got); err == nil {
		err = p.c.read(ctx, topic, &got)
	}
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, ErrContent):
		rec := &got.Records[0]
		return &Unreadable{From: rec.Offset, To: rec.Offset + 1, Timestamp: rec.Timestamp, Batch: rec.Value, High: a.high, LogStart: a.logStart, Err: err}, nil
	case !CannotBeRead(err):
		return nil, fmt.Errorf("fetching %s: %w", partitionName(name, p.number), err)
	}
	u := &Unreadable{From: offset, To: offset + 1, Timestamp: -1, High: a.high, LogStart: a.logStart, Err: err}
	u.extend(a.records)
	return u, nil
}

// extend takes the first batch that reaches beyond From out of data, as far as the headers of batches make sense.
func (u *Unreadable) extend(data []byte) {
	be := binary.BigEndian
	for len(data) >= BatchHeaderSize {
		base, length := int64(be.Uint64(data[atBaseOffset:])), int64(int32(be.Uint32(data[atLength:])))
		last := base + int64(int32(be.Uint32(data[atLastOffsetDelta:])))
		end := min(int64(len(data)), max(0, length)+atLeaderEpoch)
		if sane := base >= 0 && last >= base && data[atMagic] == magic2 && end >= BatchHeaderSize; !sane {
			u.Batch = data
			return
		}
		if last >= u.From {
			u.Batch = data[:end]
			if base <= u.From && (u.High < 0 || last < u.High) {
				u.To = last + 1
			}
			if at := int64(be.Uint64(data[atMaxTimestamp:])); at >= 0 && at < math.MaxInt64/2 {
				u.Timestamp = at
			}
			return
		}
		data = data[end:]
	}
}
