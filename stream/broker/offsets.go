package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

const (
	offsetLatest   = -1
	offsetEarliest = -2
)

// bound is an offset to be asked for: an end of a log, or the first at or after a time.
type bound struct {
	topic  string
	number int32
	when   int64 // milliseconds since the Unix epoch, offsetLatest or offsetEarliest
	into   *int64
	epoch  int32 // of its leader; askLeaders sets it
}

// bounds asks the leaders for log start and end of this partition number, in each topic that has it. It sets the epochs that fetch trusts. The
// end of a log that has lost records is where it lost them, although others follow (KIP-320).
func (p *Partition) bounds(ctx context.Context, l *metadata, facts []task.TopicFacts) error {
	var bounds []bound
	var leaders [event.Topics]leader
	epochs := [event.Topics]int32{}
	for t := range facts {
		f := &facts[t]
		epochs[t] = -1
		if int(p.number) >= f.Partitions {
			continue
		}
		name := p.c.o.Topics[t]
		if lead, err := l.leader(name, p.number); err == nil { // else askLeaders fails
			leaders[t], epochs[t] = lead, lead.epoch
		}
		bounds = append(bounds, bound{topic: name, number: p.number, when: offsetEarliest, into: &f.LogStart},
			bound{topic: name, number: p.number, when: offsetLatest, into: &f.End})
	}
	if err := p.c.askLeaders(ctx, l, bounds); err != nil {
		return err
	}
	p.mu.Lock()
	read := p.read
	p.mu.Unlock()
	for t := range facts {
		if read[t].epoch < 0 || read[t].epoch >= epochs[t] {
			continue
		}
		end, err := p.endOf(ctx, l, leaders[t], event.Topic(t), read[t].epoch)
		if err != nil {
			return err
		}
		if end >= 0 && end < read[t].next {
			facts[t].End = min(facts[t].End, end)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epochs = epochs
	return nil
}

// endOf returns the end of the batches that leaders up to an epoch have appended, as of the present leader's log; -1 if it does not know.
func (p *Partition) endOf(ctx context.Context, l *metadata, lead leader, t event.Topic, epoch int32) (int64, error) {
	one := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	one.Partition, one.CurrentLeaderEpoch, one.LeaderEpoch = p.number, lead.epoch, epoch
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic, topic.Partitions = p.c.Topic(t), []kmsg.OffsetForLeaderEpochRequestTopicPartition{one}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID, req.Topics = -1, []kmsg.OffsetForLeaderEpochRequestTopic{topic}
	res, err := req.RequestWith(ctx, p.c.to(wire.ToBroker(lead.broker)))
	switch {
	case errors.Is(err, task.ErrUnsupported):
		return -1, nil
	case err == nil && (len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1):
		err = fmt.Errorf("%w: offset for leader epoch", wire.ErrAnswer)
	case err == nil:
		err = brokerError(res.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		p.c.metadataCache.outdated(l)
		return 0, fmt.Errorf("asking for the end of an earlier leader's records of %s: %w", partitionName(p.c.Topic(t), p.number), err)
	}
	return res.Topics[0].Partitions[0].EndOffset, nil
}

// hosted fails unless the leaders host this partition number of the topics. A new topic is in the metadata before its leaders host it.
func (p *Partition) hosted(ctx context.Context, l *metadata, topics []string) error {
	bounds := make([]bound, len(topics))
	for i, name := range topics {
		bounds[i] = bound{topic: name, number: p.number, when: offsetLatest, into: new(int64)}
	}
	return p.c.askLeaders(ctx, l, bounds)
}

// askLeaders asks all leaders at the same time. An answer holds one offset of a partition, so each time is a request of its own. The error
// is one of the leaders'.
func (c *Client) askLeaders(ctx context.Context, l *metadata, bounds []bound) error {
	type request struct {
		broker int32
		when   int64
	}
	requests := make(map[request][]bound)
	for _, b := range bounds {
		lead, err := l.leader(b.topic, b.number)
		if err != nil {
			c.metadataCache.outdated(l)
			return err
		}
		b.epoch = lead.epoch
		r := request{lead.broker, b.when}
		requests[r] = append(requests[r], b)
	}
	var all errgroup.Group
	for r, bounds := range requests {
		all.Go(func() error { return c.listOffsets(ctx, r.broker, bounds) })
	}
	err := all.Wait()
	if err != nil {
		c.metadataCache.outdated(l)
	}
	return err
}

// listOffsets asks one broker for an offset of each of some logs that it leads: below the high watermark, also of open transactions.
func (c *Client) listOffsets(ctx context.Context, broker int32, bounds []bound) error {
	type log struct {
		topic  string
		number int32
	}
	missing := make(map[log]*int64, len(bounds))
	req := kmsg.NewPtrListOffsetsRequest()
	for _, b := range bounds {
		missing[log{b.topic, b.number}] = b.into
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.CurrentLeaderEpoch, one.Timestamp = b.number, b.epoch, b.when
		last := len(req.Topics) - 1
		if last < 0 || req.Topics[last].Topic != b.topic {
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = b.topic
			req.Topics = append(req.Topics, topic)
			last++
		}
		req.Topics[last].Partitions = append(req.Topics[last].Partitions, one)
	}
	res, err := req.RequestWith(ctx, c.to(wire.ToBroker(broker)))
	if err != nil {
		return fmt.Errorf("asking for offsets of %s: %w", partitionName(bounds[0].topic, bounds[0].number), err)
	}
	for _, t := range res.Topics {
		for _, one := range t.Partitions {
			if err := brokerError(one.ErrorCode); err != nil {
				return fmt.Errorf("asking for offsets of %s: %w", partitionName(t.Topic, one.Partition), err)
			}
			if into := missing[log{t.Topic, one.Partition}]; into != nil {
				*into = one.Offset
				delete(missing, log{t.Topic, one.Partition})
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: list offsets", wire.ErrAnswer)
	}
	return nil
}

// Partitions returns a topic's number of partitions, from fresh metadata.
func (c *Client) Partitions(ctx context.Context, t event.Topic) (int, error) {
	l, err := c.fetchMetadata(ctx)
	if err != nil {
		return 0, err
	}
	return l.existing(c.Topic(t))
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
	name := p.c.Topic(t)
	l, _, err := p.leader(ctx, name)
	if err != nil {
		return 0, err
	}
	err = p.c.askLeaders(ctx, l, []bound{{topic: name, number: p.number, when: when, into: &offset}})
	return offset, err
}
