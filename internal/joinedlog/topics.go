package joinedlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	pieceBytes = 512 << 10
	pieceWait  = time.Second
)

// ErrRetention is wrapped if a topic does not reach back far enough.
var ErrRetention = errors.New("retention has taken what was asked for")

// span is a range of offsets of a partition.
type span struct {
	topic  event.Topic
	name   string
	number int32
	from   *broker.Partition
	first  int64
	next   int64
	end    int64
	// last ends the span at the first record with this time or a later one; 0 is none.
	last  event.Millis
	batch task.Fetched
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
	var spans []broker.Span
	err := broker.Retry(ctx, func(ctx context.Context) (err error) {
		spans, err = c.Spans(ctx, name, from)
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []Source
	for i := range spans {
		s := &spans[i]
		p := &span{topic: topic, name: name, number: int32(s.Partition), from: c.Partition(int32(s.Partition)), first: s.Since, next: s.Since, end: s.End}
		if q.To != 0 && (topic == event.Impressions || topic == event.Rankings) {
			p.last = q.To + halfTime
		}
		if (topic == event.Impressions || q.Accept != nil) && s.First > 0 && p.next == s.First {
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

func (p *span) Progress() (done, all int64) { return p.next - p.first, p.end - p.first }

func (p *span) Close() error { return nil }

func (p *span) Next(ctx context.Context) (*Entry, error) {
	for p.at == len(p.batch.Records) {
		if p.next >= p.end {
			return nil, io.EOF
		}
		err := broker.Retry(ctx, func(ctx context.Context) (err error) {
			p.batch, err = p.from.Fetch(ctx, task.Fetch{Topic: p.topic, Offset: p.next, MaxBytes: pieceBytes, MaxWait: pieceWait})
			return err
		})
		if err != nil {
			return nil, err
		}
		if p.at = 0; p.batch.Next <= p.next { // the rest belongs to an open transaction
			return nil, io.EOF
		}
		p.next = p.batch.Next
	}
	p.entry = Entry{Record: p.batch.Records[p.at], Timed: true, Keyed: true}
	if p.at++; p.entry.Offset >= p.end || p.last != 0 && p.entry.Timestamp >= p.last {
		p.next, p.at = p.end, len(p.batch.Records)
		return nil, io.EOF
	}
	if p.entry.Cut != nil {
		p.entry.Fault = &event.Fault{Reason: event.RecordTooLarge, Detail: fmt.Sprintf("the record takes %d bytes", p.entry.Cut.Size)}
	}
	return &p.entry, nil
}
