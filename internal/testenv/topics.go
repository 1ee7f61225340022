package testenv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// topicTimeout bounds the creation of topics.
const topicTimeout = 30 * time.Second

// Unique returns a name that no other test uses, in this process or another: for topics, groups and key prefixes. It
// begins with the test's name, so that a person who looks into a server knows whose it is.
func Unique(t testing.TB, name string) string {
	t.Helper()
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '-'
	}, t.Name())
	if len(safe) > 80 { // Kafka allows 249 bytes in all
		safe = safe[:80]
	}
	return fmt.Sprintf("%s-%s-%s", safe, name, hex.EncodeToString(id[:]))
}

// Topics creates topics with that many partitions and one replica, and returns when each partition has a leader. Each
// name may carry settings after a question mark: "payoffs?cleanup.policy=delete&segment.bytes=1048576".
func Topics(t testing.TB, addr string, partitions int, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), topicTimeout)
	defer cancel()
	if err := createTopics(ctx, addr, partitions, names); err != nil {
		t.Fatalf("create topics %q on %s: %v", names, addr, err)
	}
}

func createTopics(ctx context.Context, addr string, partitions int, names []string) error {
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafkago.Client{Addr: kafkago.TCP(addr), Transport: transport}
	req := &kafkago.CreateTopicsRequest{}
	topics := make([]string, len(names))
	for i, name := range names {
		topic, settings, _ := strings.Cut(name, "?")
		config := kafkago.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
		for setting := range strings.SplitSeq(settings, "&") {
			if key, value, ok := strings.Cut(setting, "="); ok {
				config.ConfigEntries = append(config.ConfigEntries, kafkago.ConfigEntry{ConfigName: key, ConfigValue: value})
			}
		}
		topics[i] = topic
		req.Topics = append(req.Topics, config)
	}
	res, err := client.CreateTopics(ctx, req)
	if err != nil {
		return err
	}
	var faults []error
	for topic, err := range res.Errors {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", topic, err))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	return awaitLeaders(ctx, client, topics, partitions)
}

func awaitLeaders(ctx context.Context, client *kafkago.Client, topics []string, partitions int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := leaderless(ctx, client, topics, partitions)
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), missing)
		case <-tick.C:
		}
	}
}

// leaderless says which topic is not ready, or nil. That the metadata names a leader is not enough: the broker may not
// have heard yet that it is the one. So it is asked for the offsets, which only a leader tells.
func leaderless(ctx context.Context, client *kafkago.Client, topics []string, partitions int) error {
	meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	if err != nil {
		return err
	}
	ready := map[string]bool{}
	offsets := &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{}}
	for _, topic := range meta.Topics {
		ready[topic.Name] = topic.Error == nil && len(topic.Partitions) == partitions
		for _, p := range topic.Partitions {
			ready[topic.Name] = ready[topic.Name] && p.Error == nil && p.Leader.Host != ""
			offsets.Topics[topic.Name] = append(offsets.Topics[topic.Name], kafkago.LastOffsetOf(p.ID))
		}
	}
	for _, topic := range topics {
		if !ready[topic] {
			return fmt.Errorf("topic %s has no leader for each of its %d partitions", topic, partitions)
		}
	}
	res, err := client.ListOffsets(ctx, offsets)
	if err != nil {
		return err
	}
	for topic, answered := range res.Topics {
		for _, p := range answered {
			if p.Error != nil {
				return fmt.Errorf("partition %d of topic %s: %w", p.Partition, topic, p.Error)
			}
		}
	}
	return nil
}
