package broker

import (
	"context"
	"errors"
	"time"

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

// Spans returns those of the partitions of a topic, which is one of ours, by number. from is in milliseconds since the Unix epoch, 0 for none.
func (c *Client) Spans(ctx context.Context, topic string, from int64) ([]Span, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	n, err := l.existing(topic)
	if err != nil {
		return nil, err
	}
	all := make([]Span, n)
	var bounds []bound
	for i := range all {
		s := &all[i]
		s.Partition = i
		bounds = append(bounds, bound{topic: topic, number: int32(i), when: offsetEarliest, into: &s.First},
			bound{topic: topic, number: int32(i), when: offsetLatest, into: &s.End})
		if from != 0 {
			bounds = append(bounds, bound{topic: topic, number: int32(i), when: from, into: &s.Since})
		}
	}
	if err := c.askLeaders(ctx, l, bounds); err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		if s.Since < 0 { // all was written before
			s.Since = s.End
		}
		s.Since = max(s.Since, s.First)
	}
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
