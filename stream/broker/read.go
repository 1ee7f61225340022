package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Span is a range of a partition's offsets, without End.
type Span struct {
	Partition  int
	First, End int64
	// Since is the first offset whose record has the requested time or a later one, if times are in order. It is End if all records are
	// older.
	Since int64
}

// Spans returns those of a topic's partitions, by number. from is in milliseconds since the Unix epoch, 0 for none.
func (c *Client) Spans(ctx context.Context, topic string, from int64) ([]Span, error) {
	meta, err := c.Kafka().Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, fmt.Errorf("asking about topic %s: %w", topic, err)
	}
	if len(meta.Topics) != 1 {
		return nil, fmt.Errorf("asking about topic %s: the answer is about %d topics", topic, len(meta.Topics))
	}
	if err := meta.Topics[0].Error; err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	req := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{}}
	for _, p := range meta.Topics[0].Partitions {
		req.Topics[topic] = append(req.Topics[topic], kafka.FirstOffsetOf(p.ID), kafka.LastOffsetOf(p.ID))
		if from != 0 {
			req.Topics[topic] = append(req.Topics[topic], kafka.TimeOffsetOf(p.ID, time.UnixMilli(from)))
		}
	}
	res, err := c.Kafka().ListOffsets(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of %s: %w", topic, err)
	}
	var all []Span
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("asking for the offsets of %s: %w", partitionName(topic, int32(p.Partition)), p.Error)
		}
		s := Span{Partition: p.Partition, First: p.FirstOffset, End: p.LastOffset, Since: p.FirstOffset}
		for offset := range p.Offsets { // of the time; -1: all was written before
			if s.Since = max(s.Since, offset); offset < 0 {
				s.Since = s.End
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Span) int { return a.Partition - b.Partition })
	return all, nil
}

const (
	attempts       = 5 // how often Retry makes a request before its error counts
	attemptTimeout = 20 * time.Second
	attemptPause   = 200 * time.Millisecond
)

// Retry repeats a failing request up to attempts times, each with a deadline. It does not repeat a request for an offset outside the log.
func Retry(ctx context.Context, do func(context.Context) error) (err error) {
	for range attempts {
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		err = do(limited)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, task.ErrOffsetOutOfRange) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(attemptPause):
		}
	}
	return err
}
