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

// Unreadable is a range of a topic that no worker can read.
type Unreadable struct {
	From, To  int64        // offsets; without To
	Timestamp event.Millis // of its newest record, by the batch's header; -1: none
	Batch     []byte       // as received, with the readable records before From; nil if the broker does not send it; for ErrContent the value
	High      int64
	LogStart  int64
	Err       error
}

// CannotBeRead reports whether a fetch error is about the log's contents. Only ErrContent is transient; after a long time it counts as a
// fault.
func CannotBeRead(err error) bool {
	return errors.Is(err, ErrContent) || errors.Is(err, ErrCorrupt) || errors.Is(err, task.ErrUnsupported) || errors.Is(err, kafka.InvalidMessage)
}

// Unreadable returns why an input topic cannot be read at an offset, and up to which one. It returns nil if a worker can read on from
// there, or if there is nothing yet.
func (p *Partition) Unreadable(ctx context.Context, topic event.Topic, offset int64) (*Unreadable, error) {
	f := task.Fetch{Topic: topic, Offset: offset, MaxBytes: 1}
	name := p.c.Topic(topic)
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
		return &Unreadable{From: rec.Offset, To: rec.Offset + 1, Timestamp: rec.Timestamp, Batch: rec.Value, High: a.HighWatermark, LogStart: a.LogStartOffset, Err: err}, nil
	case !CannotBeRead(err):
		return nil, fmt.Errorf("fetching %s: %w", partitionName(name, p.number), err)
	}
	u := &Unreadable{From: offset, To: offset + 1, Timestamp: -1, High: a.HighWatermark, LogStart: a.LogStartOffset, Err: err}
	u.extend(a.RecordBatches)
	return u, nil
}

// extend sets the range from the first batch in data beyond From, and further ones while their headers are valid.
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
