package joinedlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// ErrRetention is wrapped if a topic does not reach back far enough.
var ErrRetention = errors.New("retention has deleted records of the requested time")

// span is a range of offsets of a partition.
type span struct {
	topic      event.Topic
	name       string
	number     int32
	reader     *broker.Reader[*task.Fetched]
	first, end int64
	// last ends the span at the first record with this time or a later one; 0 is none.
	last  event.Millis
	done  bool // a record with that time was read
	ended bool // the reader has
	batch []partition.Record
	ahead []event.Millis // Entry.Ahead, by record of batch
	at    int
	entry Entry
}

// OpenTopics opens all partitions of the topics within the query's times, up to their present ends. It joins no group and only reads.
func OpenTopics(ctx context.Context, c *broker.Client, q *Query) ([]Source, error) {
	var all []Source
	for _, topic := range []event.Topic{event.Impressions, event.Rankings, event.Selections, event.Payoffs} {
		if topic == event.Selections && !q.HasSelections || topic == event.Impressions && q.Accept != nil {
			continue
		}
		some, err := openTopic(ctx, c, topic, q)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func openTopic(ctx context.Context, c *broker.Client, topic event.Topic, q *Query) ([]Source, error) {
	name := c.Topic(topic)
	from := q.From
	if from != 0 && topic != event.Impressions { // clocks differ: events may be older than their impression
		from = max(1, from-halfTime)
	}
	spans, err := c.Spans(ctx, name, from)
	if err != nil {
		return nil, err
	}
	var all []Source
	for i := range spans {
		s := &spans[i]
		p := &span{topic: topic, name: name, number: int32(s.Partition), first: s.Since, end: s.End}
		p.reader = c.Partition(p.number).Reader(topic, p.first, p.end)
		if q.To != 0 && topic == event.Impressions { // a ranking may be appended long after its impression
			p.last = q.To + halfTime
		}
		if (topic == event.Impressions || q.Accept != nil) && s.First > 0 && p.first == s.First {
			if err := p.retained(ctx, q); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// retained fails with ErrRetention if the partition's first record is later than the query's From, so that earlier ones may have
// been deleted. With Accept, From must be given.
func (p *span) retained(ctx context.Context, q *Query) error {
	if q.From == 0 && q.Accept == nil {
		return nil
	}
	e, err := p.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	p.at-- // it is read again
	if e.Timestamp > q.From {
		return fmt.Errorf("%w: the %s before %s of partition %d are gone; begin there with --from", ErrRetention, topicNames[p.topic],
			time.UnixMilli(e.Timestamp).UTC().Format(time.RFC3339), p.number)
	}
	return nil
}

func (p *span) Topic() event.Topic { return p.topic }

func (p *span) Place() string {
	return fmt.Sprintf("%s[%d] offset %d", p.name, p.number, p.entry.Offset)
}

func (p *span) Progress() (done, all int64) {
	if p.done {
		return p.end - p.first, p.end - p.first
	}
	return min(p.reader.Offset(), p.end) - p.first, p.end - p.first
}

func (p *span) Close() error { return nil }

func (p *span) Next(ctx context.Context) (*Entry, error) {
	if p.done {
		return nil, io.EOF
	}
	for !p.ended && p.at+around >= len(p.batch) { // records behind the next must be known
		f, err := p.reader.Next(ctx)
		if p.ended = errors.Is(err, io.EOF); p.ended {
			break
		}
		if err != nil {
			return nil, err
		}
		p.batch, p.at = slices.Concat(p.batch[p.at:], f.Records), 0
		p.ahead = aheadOf(p.batch)
	}
	if p.at == len(p.batch) {
		return nil, io.EOF
	}
	p.entry = Entry{Record: p.batch[p.at], Timed: p.batch[p.at].Timestamp >= 0, Keyed: true, Ahead: p.ahead[p.at]}
	if p.at++; p.last != 0 && p.entry.Timestamp-p.entry.Ahead >= p.last {
		p.done, p.batch, p.at = true, nil, 0
		return nil, io.EOF
	}
	if p.entry.Cut != nil {
		p.entry.Fault = &event.Fault{Reason: event.RecordTooLarge, Detail: fmt.Sprintf("the record takes %d bytes", p.entry.Cut.Size)}
	}
	return &p.entry, nil
}

// clockBound is the difference of producers' clocks, in milliseconds, beyond which a record counts as dated ahead of those behind it. It is
// compared with so many of them that a few which are dated back do not decide.
const clockBound, around = 300_000, 64

// aheadOf returns Entry.Ahead by record.
func aheadOf(batch []partition.Record) []event.Millis {
	all := make([]event.Millis, len(batch))
	var behind []event.Millis
	for i, rec := range batch {
		behind = behind[:0]
		for _, b := range batch[i+1 : min(i+1+around, len(batch))] {
			if b.Timestamp > 0 {
				behind = append(behind, b.Timestamp)
			}
		}
		if len(behind) > 0 && slices.Min(behind) < rec.Timestamp-clockBound {
			slices.Sort(behind)
			all[i] = max(0, rec.Timestamp-behind[len(behind)/16]-clockBound)
		}
	}
	return all
}
