package dlq

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// Tail calls use with the last dead letters of the topics (empty: all), oldest first, and with follow each later one until ctx is done.
// Topics are named as in Find.
func (b *Box) Tail(ctx context.Context, topics []string, last int, follow bool, use func(*Letter) error) error {
	inputs, err := b.inputs(topics)
	if err != nil {
		return err
	}
	type part struct {
		topic string
		broker.Span
	}
	var parts []part
	var latest []Letter
	for _, input := range inputs {
		all, err := b.broker.Spans(ctx, b.topics.DLQ(input), 0)
		if err != nil {
			return err
		}
		for _, s := range all {
			parts = append(parts, part{b.topics.DLQ(input), s})
			found, err := b.lastOf(ctx, b.topics.DLQ(input), s, last)
			if err != nil {
				return err
			}
			latest = append(latest, found...)
		}
	}
	slices.SortStableFunc(latest, func(a, b Letter) int { return a.Time.Compare(b.Time) })
	for i := range latest[max(0, len(latest)-last):] {
		if err := use(&latest[max(0, len(latest)-last)+i]); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, p := range parts {
		wg.Go(func() {
			cancel(b.follow(ctx, p.topic, p.Span, func(l *Letter) error {
				mu.Lock()
				defer mu.Unlock()
				return use(l)
			}))
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// inputs returns the named topics; all without names.
func (b *Box) inputs(topics []string) ([]string, error) {
	if len(topics) == 0 {
		return b.Inputs(), nil
	}
	var all []string
	for _, name := range topics {
		input, _, err := b.input(name)
		if err != nil {
			return nil, err
		}
		all = append(all, input)
	}
	return all, nil
}

// lastOf returns a partition's last dead letters, at most most; each fence leaves a marker between them.
func (b *Box) lastOf(ctx context.Context, topic string, s broker.Span, most int) ([]Letter, error) {
	first := s.First
	for reach := int64(2 * max(most, 1)); ; reach *= 4 {
		s.First = max(first, s.End-reach)
		var found []Letter
		err := b.read(ctx, topic, s, func(r *record) error {
			if l, ok := letterOf(r); ok {
				found = append(found, l)
			}
			return nil
		})
		if err != nil || len(found) >= most || s.First == first {
			return found[max(0, len(found)-most):], err
		}
	}
}

// follow reads the records behind a span.
func (b *Box) follow(ctx context.Context, topic string, s broker.Span, use func(*Letter) error) error {
	for at := s.End; ; {
		all, err := broker.Retry(ctx, func(ctx context.Context) (all []record, err error) {
			all, at, err = b.fetch(ctx, topic, s.Partition, at, kafka.ReadCommitted)
			return all, err
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("following dead letters: %w", err)
		}
		for i := range all {
			if l, ok := letterOf(&all[i]); ok {
				if err := use(&l); err != nil {
					return err
				}
			}
		}
	}
}
