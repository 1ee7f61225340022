package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	configCleanup       = "cleanup.policy"
	configTimestamps    = "message.timestamp.type"
	configMaxMessage    = "max.message.bytes"
	configRetention     = "retention.ms"
	configRetentionSize = "retention.bytes"
)

// Describe returns the facts that the protocol checks, with fresh metadata; the caller fills in StoreFault. An input topic's
// MaxMessageBytes is the lesser of its own and its dead-letter topic's, since its records must fit into both.
func (p *Partition) Describe(ctx context.Context) (task.Description, error) {
	d := task.Description{Topics: make([]task.TopicFacts, event.Topics)}
	l, err := p.c.fetchMetadata(ctx)
	if err != nil {
		return d, err
	}
	d.ClusterID = l.clusterID
	settings, err := p.c.settings(ctx, l)
	if err != nil {
		return d, err
	}
	for t := range event.Topics {
		name := p.c.o.Topics[t]
		if name == "" {
			continue
		}
		f := &d.Topics[t]
		if f.Missing, f.Partitions, err = l.partitions(name); err != nil {
			return d, err
		}
		if f.Missing {
			continue
		}
		s := settings[name]
		f.Compacted = s.compacted()
		f.LogAppendTime = s.logAppendTime()
		f.MaxMessageBytes = s.maxMessage()
		f.RetentionMillis, f.RetentionBytes = s.kept(configRetention), s.kept(configRetentionSize)
		if t < event.Inputs {
			missing, n, err := l.partitions(p.c.dlq[t])
			if err != nil {
				return d, err
			}
			if f.DeadLetters = !missing && n >= f.Partitions; f.DeadLetters {
				letters := settings[p.c.dlq[t]]
				f.MaxMessageBytes = min(f.MaxMessageBytes, letters.maxMessage())
				f.LettersCompacted = letters.compacted()
			}
		}
	}
	return d, p.bounds(ctx, l, d.Topics)
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

const (
	offsetLatest   = -1
	offsetEarliest = -2
)

// logBound is one end of a topic's log, to be asked for.
type logBound struct {
	topic string
	epoch int32 // of its leader
	when  int64
	into  *int64
}

// bounds asks the leaders for log start and end of this partition number, in each topic that has it. It sets the epochs that fetch trusts.
func (p *Partition) bounds(ctx context.Context, l *metadata, facts []task.TopicFacts) error {
	starts, ends := make(map[int32][]logBound), make(map[int32][]logBound)
	epochs := [event.Topics]int32{}
	for t := range facts {
		f := &facts[t]
		epochs[t] = -1
		if f.Partitions == 0 || int(p.number) >= f.Partitions {
			continue
		}
		name := p.c.o.Topics[t]
		lead, err := l.leader(name, p.number)
		if err != nil {
			p.c.metadataCache.outdated(l)
			return err
		}
		epochs[t] = lead.epoch
		starts[lead.broker] = append(starts[lead.broker], logBound{name, lead.epoch, offsetEarliest, &f.LogStart})
		ends[lead.broker] = append(ends[lead.broker], logBound{name, lead.epoch, offsetLatest, &f.End})
	}
	if err := p.askLeaders(ctx, l, starts, ends); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epochs = epochs
	return nil
}

// hosted fails unless the leaders host this partition number of the topics. A new topic is in the metadata before its leaders host it.
func (p *Partition) hosted(ctx context.Context, l *metadata, topics []string) error {
	ends := make(map[int32][]logBound)
	for _, name := range topics {
		lead, err := l.leader(name, p.number)
		if err != nil {
			p.c.metadataCache.outdated(l)
			return err
		}
		ends[lead.broker] = append(ends[lead.broker], logBound{name, lead.epoch, offsetLatest, new(int64)})
	}
	return p.askLeaders(ctx, l, ends)
}

// askLeaders sends the requests, which are grouped by broker, at the same time. It returns the first error.
func (p *Partition) askLeaders(ctx context.Context, l *metadata, requests ...map[int32][]logBound) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for _, byLeader := range requests {
		for broker, bounds := range byLeader {
			wg.Go(func() {
				err := p.listOffsets(ctx, broker, bounds)
				mu.Lock()
				defer mu.Unlock()
				if first == nil && err != nil {
					first = err
				}
			})
		}
	}
	wg.Wait()
	if first != nil {
		p.c.metadataCache.outdated(l)
	}
	return first
}

// Partitions returns a topic's number of partitions, from fresh metadata.
func (c *Client) Partitions(ctx context.Context, t event.Topic) (int, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return 0, err
	}
	missing, n, err := l.partitions(c.topic(t))
	if err == nil && missing {
		err = fmt.Errorf("topic %q: %w", c.topic(t), kafka.UnknownTopicOrPartition)
	}
	return n, err
}

// Bounds returns a log's first offset, and the one behind its last.
func (p *Partition) Bounds(ctx context.Context, t event.Topic) (first, end int64, err error) {
	if first, err = p.offset(ctx, t, offsetEarliest); err == nil {
		end, err = p.offset(ctx, t, offsetLatest)
	}
	return first, end, err
}

// OffsetAt returns the offset of the first record whose timestamp is at or after when; ok is false if there is none.
func (p *Partition) OffsetAt(ctx context.Context, t event.Topic, when event.Millis) (offset int64, ok bool, err error) {
	offset, err = p.offset(ctx, t, max(when, 0))
	return offset, offset >= 0, err
}

func (p *Partition) offset(ctx context.Context, t event.Topic, when int64) (offset int64, err error) {
	name := p.c.topic(t)
	l, lead, err := p.leader(ctx, name)
	if err != nil {
		return 0, err
	}
	if err = p.listOffsets(ctx, lead.broker, []logBound{{name, lead.epoch, when, &offset}}); err != nil {
		p.c.metadataCache.outdated(l)
	}
	return offset, err
}

// listOffsets asks one broker for the first or last offset of this partition number, in topics that it leads.
func (p *Partition) listOffsets(ctx context.Context, broker int32, bounds []logBound) error {
	names := make([]string, len(bounds))
	for i := range bounds {
		names[i] = bounds[i].topic
	}
	x := p.c.exchange(apiListOffsets, func(version int16, b []byte) []byte {
		b = appendInt32(b, -1)               // no replica
		b = append(b, byte(readUncommitted)) // the high watermark
		b = appendInt32(b, int32(len(bounds)))
		for i := range bounds {
			b = appendString(b, names[i])
			b = appendInt32(b, 1)
			b = appendInt32(b, p.number)
			if version >= 4 {
				b = appendInt32(b, bounds[i].epoch)
			}
			b = appendInt64(b, bounds[i].when)
		}
		return b
	})
	a, err := p.c.do(ctx, brokerExchange{x, broker})
	if err != nil {
		return fmt.Errorf("asking for offsets of %s: %w", strings.Join(names, ", "), err)
	}
	offsets, err := parseListOffsets(a, names, p.number)
	for i := range offsets {
		*bounds[i].into = offsets[i]
	}
	return err
}

func parseListOffsets(a *answer, topics []string, number int32) ([]int64, error) {
	offsets := make([]int64, len(topics))
	found := 0
	r := reader{b: a.body}
	r.int32() // throttle time
	for n := r.count(2 + 4); n > 0 && !r.bad; n-- {
		name := r.string()
		for m := r.count(4 + 2 + 8 + 8); m > 0 && !r.bad; m-- {
			partition, code := r.int32(), kafka.Error(r.int16())
			r.int64() // timestamp
			offset := r.int64()
			if a.version >= 4 {
				r.int32() // leader epoch
			}
			if code != 0 {
				return nil, fmt.Errorf("asking for offsets of %s: %w", partitionName(name, partition), brokerError(code))
			}
			for i := range topics {
				if topics[i] == name && partition == number {
					offsets[i] = offset
					found++
				}
			}
		}
	}
	if r.bad || found != len(topics) {
		return nil, fmt.Errorf("%w: list offsets", errAnswer)
	}
	return offsets, nil
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

func (c *Client) settings(ctx context.Context, l *metadata) (map[string]topicSettings, error) {
	var resources []kafka.DescribeConfigRequestResource
	for name, t := range l.topics {
		if t.code == 0 {
			resources = append(resources, kafka.DescribeConfigRequestResource{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: name,
				ConfigNames: []string{configCleanup, configTimestamps, configMaxMessage, configRetention, configRetentionSize},
			})
		}
	}
	all := make(map[string]topicSettings, len(resources))
	if len(resources) == 0 {
		return all, nil
	}
	res, err := c.Kafka().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: resources})
	if err != nil {
		return nil, fmt.Errorf("asking for the topics' settings: %w", err)
	}
	for _, r := range res.Resources {
		if r.Error != nil {
			return nil, fmt.Errorf("asking for the settings of topic %q: %w", r.ResourceName, codeOf(r.Error))
		}
		s := make(topicSettings, len(r.ConfigEntries))
		for _, e := range r.ConfigEntries {
			s[e.ConfigName] = e.ConfigValue
		}
		all[r.ResourceName] = s
	}
	return all, nil
}

// Committed returns the group's committed offsets of this partition number by input topic; -1 for none.
func (p *Partition) Committed(ctx context.Context) ([]int64, error) {
	offsets := make([]int64, event.Inputs)
	topics := make(map[string][]int, event.Inputs)
	for t := range offsets {
		offsets[t] = -1
		if name := p.c.o.Topics[t]; name != "" {
			topics[name] = []int{int(p.number)}
		}
	}
	doing := fmt.Sprintf("asking for the committed offsets of group %q", p.c.o.Group)
	res, err := p.c.Kafka().OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: p.c.o.Group, Topics: topics})
	if err == nil {
		if err = codeOf(res.Error); errors.Is(err, kafka.GroupIdNotFound) {
			return offsets, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	for t := range offsets {
		name := p.c.o.Topics[t]
		if name == "" {
			continue
		}
		for _, got := range res.Topics[name] {
			if got.Partition != int(p.number) {
				continue
			}
			if err := codeOf(got.Error); err != nil {
				return nil, fmt.Errorf("%s for %s: %w", doing, partitionName(name, p.number), err)
			}
			offsets[t] = got.CommittedOffset
		}
	}
	return offsets, nil
}
