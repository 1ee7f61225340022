package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
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
	return Retry(ctx, func(ctx context.Context) ([]Span, error) { return c.spans(ctx, topic, from) })
}

func (c *Client) spans(ctx context.Context, topic string, from int64) ([]Span, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	missing, n, err := l.partitions(topic)
	if err != nil {
		return nil, err
	}
	if missing {
		return nil, fmt.Errorf("%w: %s", errNoTopic, topic)
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

var errNoTopic = errors.New("the topic does not exist")

// Reader reads a partition of a topic in order, up to an end that it had earlier. A is an answer, with some of its records.
type Reader[A any] struct {
	fetch     func(ctx context.Context, offset int64) (answer A, next int64, err error)
	next, end int64
}

// NewReader returns a reader of the offsets from one to another, without end. fetch returns the records from an offset on, and the offset
// to continue at, which is the same if the log has no more to read.
func NewReader[A any](from, end int64, fetch func(ctx context.Context, offset int64) (answer A, next int64, err error)) *Reader[A] {
	return &Reader[A]{fetch, from, end}
}

// Next returns the next answer, which may have no records. It returns io.EOF at the end, and earlier if the rest belongs to an open
// transaction. After another error it can be called again.
func (r *Reader[A]) Next(ctx context.Context) (answer A, err error) {
	if r.next >= r.end {
		return answer, io.EOF
	}
	var next int64
	answer, err = Retry(ctx, func(ctx context.Context) (a A, err error) {
		a, next, err = r.fetch(ctx, r.next)
		return a, err
	})
	switch {
	case err != nil:
		return answer, fmt.Errorf("reading from offset %d: %w", r.next, err)
	case next <= r.next:
		return answer, io.EOF
	}
	r.next = next
	return answer, nil
}

// Offset returns the offset at which Next continues.
func (r *Reader[A]) Offset() int64 { return r.next }

const (
	readerBytes = 512 << 10 // of an answer, packed
	readerWait  = time.Second
)

// Reader reads this partition of a topic like Fetch. Answers have no records or markers at the end or behind it.
func (p *Partition) Reader(t event.Topic, from, end int64) *Reader[*task.Fetched] {
	return NewReader(from, end, func(ctx context.Context, offset int64) (*task.Fetched, int64, error) {
		f, err := p.Fetch(ctx, task.Fetch{Topic: t, Offset: offset, MaxBytes: readerBytes, MaxWait: readerWait})
		if err != nil {
			return nil, offset, err
		}
		if f.Next <= offset && offset < f.Readable {
			return nil, offset, task.ErrNothingRead
		}
		if i := slices.IndexFunc(f.Records, func(r partition.Record) bool { return r.Offset >= end }); i >= 0 {
			f.Records, f.Origins = f.Records[:i], f.Origins[:min(i, len(f.Origins))]
		}
		if i := slices.IndexFunc(f.Markers, func(m task.Marker) bool { return m.Offset >= end }); i >= 0 {
			f.Markers = f.Markers[:i]
		}
		return &f, f.Next, nil
	})
}

const (
	patience       = 15 * time.Second // for which Retry repeats a request
	attemptTimeout = 20 * time.Second
	attemptPause   = 200 * time.Millisecond
)

// Retry makes a request, with a deadline, and repeats it while it fails, as during the election of a leader. It returns the last error once
// patience is over, and at once an error that a repeated request would have again. It waits out any number of pauses over a quota.
func Retry[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(patience)
	return RetryWhile(ctx, func(err error) bool { return throttled(err) || !lasts(err) && !time.Now().After(end) }, ask)
}

// RetryWhile makes a request like Retry, and repeats it while its errors may pass, until ctx ends. If that is amid a request, the error before
// is the reason.
func RetryWhile[T any](ctx context.Context, passes func(error) bool, ask func(context.Context) (T, error)) (T, error) {
	var before error
	for {
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		answer, err := ask(limited)
		cancel()
		if err != nil && ctx.Err() != nil && before != nil {
			return answer, fmt.Errorf("%w; before: %w", err, before)
		}
		if before = err; err == nil || ctx.Err() != nil || !passes(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pauseAfter(err)):
		}
	}
}

// pauseAfter returns the pause before the next attempt: over a quota the one that the broker asks for, if that is longer.
func pauseAfter(err error) time.Duration {
	pause, _ := errors.AsType[task.Throttled](err)
	return max(attemptPause, min(time.Duration(pause), attemptTimeout))
}

// lasts reports whether a repeated request would have the same error.
func lasts(err error) bool {
	for _, lasting := range []error{task.ErrOffsetOutOfRange, kafka.OffsetOutOfRange, task.ErrUnsupported, errNoTopic} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return CannotBeRead(err) && !errors.Is(err, ErrContent)
}
