package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

const (
	configCleanup       = "cleanup.policy"
	configTimestamps    = "message.timestamp.type"
	configMaxMessage    = "max.message.bytes"
	configRetention     = "retention.ms"
	configRetentionSize = "retention.bytes"
)

// Describe returns the facts that the protocol checks, with fresh metadata; the caller fills in StoreFault.
func (p *Partition) Describe(ctx context.Context) (d task.Description, err error) {
	l, settings, err := p.c.topics(ctx)
	if err != nil {
		return d, err
	}
	if d, err = l.describe(p.c, settings); err != nil {
		return d, err
	}
	return d, p.bounds(ctx, l, d.Topics)
}

// describe returns a description without the bounds of logs.
func (l *metadata) describe(c *Client, settings map[string]topicSettings) (d task.Description, err error) {
	d = task.Description{ClusterID: l.clusterID, Topics: make([]task.TopicFacts, event.Topics), DeadLetters: make([]task.TopicFacts, event.Inputs)}
	for t := range d.Topics {
		if d.Topics[t], err = l.facts(c.o.Topics[t], settings); err != nil {
			return d, err
		}
	}
	for t := range d.DeadLetters {
		if d.DeadLetters[t], err = l.facts(c.dlq[t], settings); err != nil {
			return d, err
		}
	}
	return d, nil
}

// facts returns zero values for the name of an unconfigured topic.
func (l *metadata) facts(name string, settings map[string]topicSettings) (f task.TopicFacts, err error) {
	if name == "" {
		return f, nil
	}
	f.Name = name
	if f.Missing, f.Partitions, err = l.partitions(name); err != nil || f.Missing {
		return f, err
	}
	s := settings[name]
	f.Compacted, f.LogAppendTime, f.MaxMessageBytes = s.compacted(), s.logAppendTime(), s.maxMessage()
	f.RetentionMillis, f.RetentionBytes = s.kept(configRetention), s.kept(configRetentionSize)
	return f, nil
}

func (l *metadata) partitions(topic string) (missing bool, n int, err error) {
	t, ok := l.topics[topic]
	switch {
	case !ok || t.code == kafka.UnknownTopicOrPartition:
		return true, 0, nil
	case t.code != 0:
		return false, 0, fmt.Errorf("describing topic %q: %w", topic, t.code)
	}
	return false, len(t.leaders), nil
}

// existing is partitions for a topic that must exist.
func (l *metadata) existing(topic string) (n int, err error) {
	missing, n, err := l.partitions(topic)
	if missing {
		err = fmt.Errorf("topic %q: %w", topic, kafka.UnknownTopicOrPartition)
	}
	return n, err
}

// topicSettings are a topic's settings by name, defaults included.
type topicSettings map[string]string

func (s topicSettings) compacted() bool     { return strings.Contains(s[configCleanup], "compact") }
func (s topicSettings) logAppendTime() bool { return s[configTimestamps] == "LogAppendTime" }

// defaultMaxMessage is Kafka's default, for brokers that do not report it.
const defaultMaxMessage = 1048588

func (s topicSettings) maxMessage() int {
	if n, err := strconv.Atoi(s[configMaxMessage]); err == nil && n > 0 {
		return n
	}
	return defaultMaxMessage
}

// kept returns a retention, in milliseconds or bytes; -1 for ever, or if the broker does not report it.
func (s topicSettings) kept(setting string) int64 {
	if n, err := strconv.ParseInt(s[setting], 10, 64); err == nil {
		return max(n, -1)
	}
	return -1
}

// retention is in milliseconds, -1 for ever; ok is false if the broker does not report it.
func (s topicSettings) retention() (ms int64, ok bool) {
	ms, err := strconv.ParseInt(s[configRetention], 10, 64)
	return ms, err == nil
}

// topics asks for the metadata, and for the settings that the protocol depends on, of all topics that exist.
func (c *Client) topics(ctx context.Context) (*metadata, map[string]topicSettings, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for name, t := range l.topics {
		if t.code == 0 {
			names = append(names, name)
		}
	}
	all, refused, err := c.describeConfigs(ctx, names, configCleanup, configTimestamps, configMaxMessage, configRetention, configRetentionSize)
	if err == nil {
		err = refused
	}
	return l, all, err
}

// describeConfigs asks for settings of topics. refused is the error of one that the broker does not describe.
func (c *Client) describeConfigs(ctx context.Context, topics []string, names ...string) (all map[string]topicSettings, refused, err error) {
	if len(topics) == 0 {
		return nil, nil, nil
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, names
		req.Resources = append(req.Resources, r)
	}
	res, err := req.RequestWith(ctx, c.to(nil))
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the topics' settings: %w", err)
	}
	all = make(map[string]topicSettings, len(res.Resources))
	for i := range res.Resources {
		r := &res.Resources[i]
		if err := brokerError(r.ErrorCode); err != nil {
			refused = fmt.Errorf("asking for the settings of topic %q: %w", r.ResourceName, err)
			continue
		}
		s := make(topicSettings, len(r.Configs))
		for _, e := range r.Configs {
			s[e.Name] = wire.Text(e.Value)
		}
		all[r.ResourceName] = s
	}
	return all, refused, nil
}

// Committed returns the group's committed offsets of this partition number by input topic; -1 for none.
func (p *Partition) Committed(ctx context.Context) ([]int64, error) {
	offsets := make([]int64, event.Inputs)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = p.c.o.Group
	for t := range offsets {
		offsets[t] = -1
		if name := p.c.o.Topics[t]; name != "" {
			topic := kmsg.NewOffsetFetchRequestTopic()
			topic.Topic, topic.Partitions = name, []int32{p.number}
			req.Topics = append(req.Topics, topic)
		}
	}
	doing := fmt.Sprintf("asking for the committed offsets of group %q", req.Group)
	res, err := req.RequestWith(ctx, p.c.to(wire.ToGroup(req.Group)))
	if err == nil {
		err = brokerError(res.ErrorCode)
	}
	if errors.Is(err, kafka.GroupIdNotFound) {
		return offsets, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	for _, got := range res.Topics {
		t := slices.Index(p.c.o.Topics[:event.Inputs], got.Topic)
		if t < 0 || len(got.Partitions) != 1 || got.Partitions[0].Partition != p.number {
			return nil, fmt.Errorf("%s: %w", doing, wire.ErrAnswer)
		}
		if err := brokerError(got.Partitions[0].ErrorCode); err != nil {
			return nil, fmt.Errorf("%s for %s: %w", doing, partitionName(got.Topic, p.number), err)
		}
		offsets[t] = got.Partitions[0].Offset
	}
	return offsets, nil
}
