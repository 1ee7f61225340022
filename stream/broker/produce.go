package broker

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

const (
	acksAll = -1
	// produceVersion stands for all versions spoken, which differ only in their number.
	produceVersion = 3
	// produceWait is the leader's wait for its replicas if the context has no deadline.
	produceWait = 10 * time.Second
)

// Produce appends one idempotent batch and waits for all replicas in sync. A repeated request sends the same bytes, and the broker drops
// the copy. BaseOffset is -1 if the broker recognised a copy without its position.
//
// Errors: task.ErrFenced, task.ErrSequence, task.ErrTooLarge, task.ErrTimestamp, task.ErrInvalidRecord. After any other error the batch may
// or may not have been appended.
func (p *Partition) Produce(ctx context.Context, r task.Produce) (task.Produced, error) {
	none := task.Produced{BaseOffset: -1, AppendTime: -1}
	topic := p.c.Topic(r.Topic)
	if r.DeadLetters {
		if int(r.Topic) >= len(p.c.dlq) {
			return none, fmt.Errorf("%w: topic %d has no dead letters", task.ErrUnsupported, r.Topic)
		}
		topic = p.c.dlq[r.Topic]
	}
	doing := "producing to " + partitionName(topic, p.number)
	l, lead, err := p.leader(ctx, topic)
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	buf := p.c.buffer()
	req, encoded, err := p.c.produceRequest((*buf)[:0], topic, p.number, &r, remaining(ctx, produceWait))
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	*buf = encoded
	res, err := p.c.to(wire.ToBroker(lead.broker)).Send(ctx, req, encoded)
	if err != nil {
		// The connection's goroutine may still be reading the buffer, so it is not pooled.
		p.c.metadataCache.outdated(l)
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	p.c.requests.Put(buf)
	got, err := produced(res.(*kmsg.ProduceResponse), topic, p.number)
	if err != nil {
		if leaderMoved(err) {
			p.c.metadataCache.outdated(l)
		}
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return got, nil
}

func remaining(ctx context.Context, fallback time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Millisecond, time.Until(deadline)-waitMargin)
	}
	return fallback
}

// maxPooled is the capacity of the largest request buffer that is kept, in bytes.
const maxPooled = 4 << 20

func (c *Client) buffer() *[]byte {
	if b, ok := c.requests.Get().(*[]byte); ok && cap(*b) <= maxPooled {
		return b
	}
	return new([]byte)
}

// produceRequest encodes the request in b, with the batch in place, as the end of the request in all versions spoken.
func (c *Client) produceRequest(b []byte, topic string, number int32, r *task.Produce, wait time.Duration) (*kmsg.ProduceRequest, []byte, error) {
	one := kmsg.NewProduceRequestTopicPartition()
	one.Partition = number
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.Partitions = topic, []kmsg.ProduceRequestTopicPartition{one}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis, req.Topics = produceVersion, acksAll, int32(wait.Milliseconds()), []kmsg.ProduceRequestTopic{to}
	b = wire.Append(b, wire.ClientID, req)
	at := len(b)
	info := BatchInfo{Producer: r.Producer, Sequence: r.Sequence, Timestamp: r.Timestamp}
	b, err := AppendBatch(b, &info, r.Messages)
	if err != nil {
		return nil, nil, err
	}
	binary.BigEndian.PutUint32(b[at-4:], uint32(len(b)-at)) // the batch's length
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))         // the request's
	return req, b, nil
}

func produced(res *kmsg.ProduceResponse, topic string, number int32) (task.Produced, error) {
	none := task.Produced{BaseOffset: -1, AppendTime: -1}
	if len(res.Topics) != 1 || res.Topics[0].Topic != topic || len(res.Topics[0].Partitions) != 1 ||
		res.Topics[0].Partitions[0].Partition != number {
		return none, fmt.Errorf("%w: produce", wire.ErrAnswer)
	}
	got := &res.Topics[0].Partitions[0]
	switch kafka.Error(got.ErrorCode) {
	case 0:
		return task.Produced{BaseOffset: got.BaseOffset, AppendTime: got.LogAppendTime}, nil
	case kafka.DuplicateSequenceNumber:
		return none, nil // it is in the log already
	}
	message := wire.Text(got.ErrorMessage)
	for _, rec := range got.ErrorRecords {
		message = cmp.Or(message, wire.Text(rec.ErrorMessage))
	}
	err := brokerError(got.ErrorCode)
	if message != "" && !errors.Is(err, task.ErrFenced) {
		err = fmt.Errorf("%w (%s)", err, message)
	}
	return none, err
}

// brokerError returns an answer's error, with one of package task's errors if the code has a meaning there; nil for 0. Tasks treat a bare
// code as transient.
func brokerError(number int16) error {
	switch code := kafka.Error(number); code {
	case 0:
		return nil
	case kafka.OffsetOutOfRange:
		return fmt.Errorf("%w: %w", task.ErrOffsetOutOfRange, code)
	case kafka.InvalidProducerEpoch, kafka.ProducerFenced,
		// The transactional id has another producer id or state: another owner has fenced us, or the coordinator has dropped it. In both
		// cases the fence has to be repeated.
		kafka.InvalidProducerIDMapping, kafka.InvalidTransactionState:
		return fmt.Errorf("%w: %w", task.ErrFenced, code)
	case kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId:
		return fmt.Errorf("%w: %w", task.ErrSequence, code)
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge:
		return fmt.Errorf("%w: %w", task.ErrTooLarge, code)
	case kafka.InvalidTimestamp:
		return fmt.Errorf("%w: %w", task.ErrTimestamp, code)
	case kafka.InvalidRecord:
		return fmt.Errorf("%w: %w", task.ErrInvalidRecord, code)
	case kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.ConcurrentTransactions:
		return fmt.Errorf("%w: %w", task.ErrNotReady, code)
	case kafka.UnsupportedVersion, kafka.UnsupportedForMessageFormat, kafka.UnsupportedCompressionType:
		return fmt.Errorf("%w: %w", task.ErrUnsupported, code)
	default:
		return code
	}
}
