package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/wire"
)

const (
	// Pauses between reads of the brokers' metadata grow from the first to the second.
	firstLook, lastLook = 20 * time.Millisecond, 500 * time.Millisecond
	// saysEvery is the interval of progress reports.
	saysEvery = 3 * time.Second
)

var ErrNotShown = errors.New("the topics are made, but not all brokers show them yet: wait, and run `ranker-worker topics` again")

type viewOf map[string]*metadata

// views asks every broker for its metadata: one broker's may be older than another's.
func (c *Client) views(ctx context.Context) (viewOf, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	all := make(viewOf, len(l.brokers))
	for _, b := range l.brokers {
		if all[b.Address], err = c.askMetadata(ctx, wire.ToBroker(b.ID), false); err != nil {
			return nil, fmt.Errorf("broker %d at %s: %w", b.ID, b.Address, err)
		}
	}
	return all, nil
}

// unseen returns the topics that a view lacks. A topic is shown if it has at least the given number of partitions, all with leaders.
func (v viewOf) unseen(topics map[string]int) (lacks []string) {
	for _, address := range slices.Sorted(maps.Keys(v)) {
		for _, name := range slices.Sorted(maps.Keys(topics)) {
			t, ok := v[address].topics[name]
			led := 0
			for _, l := range t.leaders {
				if l.broker >= 0 {
					led++
				}
			}
			if !ok || t.code != 0 || led == 0 || led < max(topics[name], len(t.leaders)) {
				lacks = append(lacks, fmt.Sprintf("%s at %s", name, address))
			}
		}
	}
	return lacks
}

// awaitShown waits until all views show topics. It fails with ErrNotShown when ctx ends. Every few seconds it passes the missing ones to
// say.
func awaitShown(ctx context.Context, topics map[string]int, views func(context.Context) (viewOf, error), say func(string)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	said := time.Now()
	waits := "the first answer"
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (waited for %s): %w", ErrNotShown, waits, ctx.Err())
		}
		v, err := views(ctx)
		switch {
		case err == nil:
			lacks := v.unseen(topics)
			if len(lacks) == 0 {
				return nil
			}
			waits = fmt.Sprintf("%d of %d: %s", len(lacks), len(topics)*len(v), strings.Join(lacks[:min(3, len(lacks))], ", "))
		case ctx.Err() == nil:
			waits = err.Error()
		}
		if say != nil && time.Since(said) >= saysEvery {
			said = time.Now()
			say("waiting for the topics in the brokers' metadata: " + waits)
		}
		timer.Reset(pause)
	}
}

// shown waits until every broker shows the topics that were made, and those that others have made meanwhile, and the leaders host them.
func (c *Client) shown(ctx context.Context, made []kafka.TopicConfig, say func(string)) error {
	topics := make(map[string]int, len(made))
	for _, t := range made {
		topics[t.Topic] = t.NumPartitions
	}
	return awaitShown(ctx, topics, func(ctx context.Context) (viewOf, error) {
		v, err := c.views(ctx)
		if err == nil && len(v.unseen(topics)) == 0 {
			err = c.hosted(ctx, topics)
		}
		return v, err
	}, say)
}

// hosted fails unless the leaders host all partitions of the topics: only then they know the offsets.
func (c *Client) hosted(ctx context.Context, topics map[string]int) error {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return err
	}
	var bounds []bound
	for name := range topics {
		for number := range l.topics[name].leaders {
			bounds = append(bounds, bound{topic: name, number: int32(number), when: offsetLatest, into: new(int64)})
		}
	}
	return c.askLeaders(ctx, l, bounds)
}
