package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// Spec says how Create makes missing topics.
type Spec struct {
	// Partitions of new topics; 0: as many as the existing ones have, or 6.
	Partitions int
	// Replication factor; 0: the broker's default.
	Replication int
	// Retention of new topics; 0: the broker's default. Rankings get that of an existing impressions topic if it is longer.
	Retention time.Duration
	// Say, if not nil, receives a line every few seconds with the reason that Create still waits.
	Say func(string)
}

const defaultPartitions = 6

// Create makes the missing topics, dead-letter topics included, and returns their names. Existing topics stay as they are; Check lists
// their faults. Inputs and dead letters are not compacted. Rankings have LogAppendTime, and are kept at least as long as impressions.
// Create returns once all brokers' metadata show the new topics with leaders, and the leaders host them. If ctx ends before that, it
// returns their names and ErrNotShown.
//
// The wait for hosting spares the brokers a fault of Kafka, seen in 4.3.1. A WriteTxnMarkers request gets no answer if a leader hosts no
// partition of its last marker and has written an earlier one. Until request.timeout.ms, 30 s, no other marker goes to that leader.
func (c *Client) Create(ctx context.Context, spec Spec) (created []string, err error) {
	l, settings, err := c.topics(ctx)
	if err != nil {
		return nil, err
	}
	partitions, err := c.wanted(l, spec)
	if err != nil {
		return nil, err
	}
	replication := spec.Replication
	if replication == 0 {
		replication = -1
	}
	var configs []kafka.TopicConfig
	add := func(name string, n int, entries ...kafka.ConfigEntry) {
		entries = append(entries, kafka.ConfigEntry{ConfigName: configCleanup, ConfigValue: "delete"})
		configs = append(configs, kafka.TopicConfig{Topic: name, NumPartitions: n, ReplicationFactor: replication,
			ConfigEntries: entries})
	}
	for t := range event.Topics {
		name := c.o.Topics[t]
		if name == "" {
			continue
		}
		missing, n, err := l.partitions(name)
		if err != nil {
			return nil, err
		}
		if missing {
			n = partitions
			if event.Topic(t) == event.Rankings {
				add(name, n, append(retentionEntries(c.rankingsRetention(spec, settings)),
					kafka.ConfigEntry{ConfigName: configTimestamps, ConfigValue: "LogAppendTime"})...)
			} else {
				add(name, n, retentionEntries(spec.Retention.Milliseconds())...)
			}
		}
		if t < event.Inputs {
			if missing, _, err := l.partitions(c.dlq[t]); err != nil {
				return nil, err
			} else if missing {
				// A dead-letter topic must accept every record of its input topic.
				size := kafka.ConfigEntry{ConfigName: configMaxMessage, ConfigValue: strconv.Itoa(settings[name].maxMessage())}
				add(c.dlq[t], n, append(retentionEntries(spec.Retention.Milliseconds()), size)...)
			}
		}
	}
	return c.create(ctx, configs, spec.Say)
}

func (c *Client) create(ctx context.Context, configs []kafka.TopicConfig, say func(string)) (created []string, err error) {
	if len(configs) == 0 {
		return nil, nil
	}
	res, err := c.Kafka().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: configs})
	c.metadataCache.last.Store(nil)
	if err != nil {
		return nil, fmt.Errorf("creating topics: %w", err)
	}
	var faults []error
	for _, t := range configs {
		if err := res.Errors[t.Topic]; err == nil {
			created = append(created, t.Topic)
		} else if !errors.Is(err, kafka.TopicAlreadyExists) {
			faults = append(faults, fmt.Errorf("creating topic %q: %w", t.Topic, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return created, err
	}
	return created, c.shown(ctx, configs, say)
}

// wanted returns the number of partitions of new topics: that of the existing ones.
func (c *Client) wanted(l *metadata, spec Spec) (int, error) {
	for t := range event.Topics {
		missing, n, err := l.partitions(c.o.Topics[t])
		if c.o.Topics[t] == "" || missing || err != nil {
			continue
		}
		if spec.Partitions != 0 && spec.Partitions != n {
			return 0, fmt.Errorf("topic %q exists with partition count %d: the others cannot have %d", c.o.Topics[t], n, spec.Partitions)
		}
		return n, nil
	}
	if spec.Partitions != 0 {
		return spec.Partitions, nil
	}
	return defaultPartitions, nil
}

// rankingsRetention returns milliseconds: -1 for ever, 0 for the broker's default.
func (c *Client) rankingsRetention(spec Spec, settings map[string]topicSettings) int64 {
	own := spec.Retention.Milliseconds()
	theirs, ok := settings[c.o.Topics[event.Impressions]].retention()
	if !ok || own != 0 && theirs >= 0 && own >= theirs {
		return own
	}
	return theirs
}

func retentionEntries(ms int64) []kafka.ConfigEntry {
	if ms == 0 {
		return nil
	}
	return []kafka.ConfigEntry{{ConfigName: configRetention, ConfigValue: strconv.FormatInt(ms, 10)}}
}

// Check returns the faults of all topics, each with its remedy: those that a worker finds, and missing leaders. It fails if it cannot ask the
// brokers.
func (c *Client) Check(ctx context.Context) (problems []string, err error) {
	l, settings, err := c.topics(ctx)
	if err != nil {
		return nil, err
	}
	d, err := l.describe(c, settings)
	if err != nil {
		return nil, err
	}
	for _, f := range d.TopicFaults() {
		problems = append(problems, f.Text)
	}
	for _, name := range c.o.Topics {
		for p, leader := range l.topics[name].leaders {
			if leader.broker < 0 {
				problems = append(problems, partitionName(name, int32(p))+" has no leader now: its broker is down, or it is just being created")
			}
		}
	}
	return problems, nil
}

// Missing returns the names of missing topics, dead-letter topics included.
func (c *Client) Missing(ctx context.Context) (names []string, err error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range c.topicNames() {
		missing, _, err := l.partitions(name)
		if err != nil {
			return nil, err
		}
		if missing {
			names = append(names, name)
		}
	}
	return names, nil
}

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
