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

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

// topicTimeout bounds the creation of topics, on a machine that computes other things besides.
const topicTimeout = 2 * time.Minute

// Unique returns a name that no other test uses, in any process: for topics, groups and key prefixes. It begins with the test's name.
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

// Topics creates topics with partitions partitions and one replica, and returns when each partition has a leader. A name may carry settings
// after a question mark: "payoffs?cleanup.policy=delete&segment.bytes=1048576".
func Topics(t testing.TB, addr string, partitions int, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), topicTimeout)
	defer cancel()
	if err := createTopics(ctx, addr, partitions, names); err != nil {
		t.Fatalf("create topics %q on %s: %v", names, addr, err)
	}
}

func createTopics(ctx context.Context, addr string, partitions int, names []string) error {
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
	for again := false; ; again = true {
		err := create(ctx, addr, topics, req, again)
		if err == nil {
			return awaitLeaders(ctx, addr, topics, partitions)
		}
		if !errors.Is(err, kafkago.BrokerNotAvailable) {
			return err
		}
		select { // on a busy machine a broker can be missing for a moment
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// transport knows metadata of the topics alone. kafka-go waits for metadata no longer than it keeps them, and without topics it reads
// those of all. Of a busy broker's thousands of topics, an answer can be late each time.
func transport(topics []string) *kafkago.Transport {
	return &kafkago.Transport{MetadataTopics: topics, MetadataTTL: topicTimeout}
}

// Transport returns a transport for clients of the topics, which exist. Its connections end with the test.
func Transport(t testing.TB, topics ...string) *kafkago.Transport {
	t.Helper()
	to := transport(topics)
	t.Cleanup(to.CloseIdleConnections)
	return to
}

// asks returns a client of the topics.
func asks(addr string, topics []string) (client *kafkago.Client, done func()) {
	to := transport(topics)
	return &kafkago.Client{Addr: kafkago.TCP(addr), Transport: to}, to.CloseIdleConnections
}

// create makes one request. With again, topics of an earlier request may exist.
func create(ctx context.Context, addr string, topics []string, req *kafkago.CreateTopicsRequest, again bool) error {
	client, done := asks(addr, topics)
	defer done()
	res, err := client.CreateTopics(ctx, req)
	if err != nil {
		return err
	}
	var faults []error
	for topic, err := range res.Errors {
		if err != nil && !(again && errors.Is(err, kafkago.TopicAlreadyExists)) {
			faults = append(faults, fmt.Errorf("%s: %w", topic, err))
		}
	}
	return errors.Join(faults...)
}

func awaitLeaders(ctx context.Context, addr string, topics []string, partitions int) error {
	expected := map[string]int{}
	for _, topic := range topics {
		expected[topic] = partitions
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		client, done := asks(addr, topics)
		missing := kafka.Serves(ctx, client, expected)
		done()
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
