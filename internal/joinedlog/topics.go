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

// ErrRetention says that a topic does not go back as far as was asked.
var ErrRetention = errors.New("retention has taken what was asked for")

// span is a partition of a topic, from one offset to another.
type span struct {
	topic  event.Topic
	name   string
	number int32
	from   *broker.Partition
	first  int64
	next   int64
	end    int64
	// last is where to end early: at the first record whose own time is at or after it; 0 is nowhere.
	last  event.Millis
	batch task.Fetched
	at    int
	entry Entry
}

// OpenTopics opens all partitions of the topics between two times, as they end now. It takes part in no group and only reads.
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
	if from != 0 && topic != event.Impressions { // clocks differ: what follows an impression may have been written before it
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

// retained fails where the partition's first record is of after the time from which on rows are asked for, since those before it were deleted.
// Who asks for all rankings that Accept takes has to say when the first was, or what became of it may be gone unseen.
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
	p.at-- // it is the next one again
	if e.Timestamp > q.From {
		return fmt.Errorf("%w: the %s before %s of partition %d are gone; begin there with --from", ErrRetention, topicNames[p.topic],
			time.UnixMilli(e.Timestamp).UTC().Format(time.RFC3339), p.number)
	}
	return nil
}

// Topic implements Source.
func (p *span) Topic() event.Topic { return p.topic }

// Place implements Source.
func (p *span) Place() string {
	return fmt.Sprintf("%s[%d] offset %d", p.name, p.number, p.entry.Offset)
}

// Progress implements Source.
func (p *span) Progress() (done, all int64) { return p.next - p.first, p.end - p.first }

// Close implements Source.
func (p *span) Close() error { return nil }

// Next implements Source.
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
		if p.at = 0; p.batch.Next <= p.next { // the rest belongs to a transaction that is open
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
