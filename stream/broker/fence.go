package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// transactionTimeout is the time after which the coordinator ends the transaction of a fence whose owner died. Until then, readers of
// committed rankings may have to wait.
const transactionTimeout = 30 * time.Second

// TransactionalID returns <group>-<partition>. With ACLs it needs Write.
func (p *Partition) TransactionalID() string {
	return p.c.o.Group + "-" + strconv.Itoa(int(p.number))
}

// InitProducer raises the epoch of our transactional id, or obtains its first. Producer is -1, -1 on the first call, else the last result.
// It needs InitProducerID version 3 (Kafka 2.5), checked on the connection in use: an older broker ignores the producer, and fences
// nothing.
//
// It fails with task.ErrFenced if the given producer is not the newest, or the coordinator has dropped it, and with task.ErrUnsupported.
// Other errors are transient, as from a coordinator that is busy, loading or elsewhere.
func (p *Partition) InitProducer(ctx context.Context, r task.InitProducer) (task.Producer, error) {
	none := task.Producer{ID: -1, Epoch: -1}
	id := p.TransactionalID()
	producer := r.Producer
	x := p.c.exchange(apiInitProducer, func(_ int16, b []byte) []byte {
		b = appendUvarint(b, uint64(len(id))+1)
		b = append(b, id...)
		b = appendInt32(b, int32(transactionTimeout.Milliseconds()))
		b = appendInt64(b, producer.ID)
		b = appendInt16(b, producer.Epoch)
		return append(b, 0)
	})
	doing := fmt.Sprintf("initialising the producer of transactional id %q", id)
	a, err := p.c.do(ctx, txnExchange{x, id})
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, codeOf(err))
	}
	got, err := parseInitProducer(a)
	if err == nil {
		err = checkSameID(producer, got)
	}
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return got, nil
}

// NewProducer returns a new idempotent producer without a transactional id. Brokers before 3.0 require IdempotentWrite on the cluster. It
// needs InitProducerID version 3 (Kafka 2.5), else it fails with task.ErrUnsupported. Other errors are transient.
func (c *Client) NewProducer(ctx context.Context) (task.Producer, error) {
	x := c.exchange(apiInitProducer, func(_ int16, b []byte) []byte {
		b = append(b, 0) // null: no transactional id
		b = appendInt32(b, int32(transactionTimeout.Milliseconds()))
		b = appendInt64(b, -1)
		b = appendInt16(b, -1)
		return append(b, 0)
	})
	got := task.Producer{ID: -1, Epoch: -1}
	a, err := c.do(ctx, x)
	if err == nil {
		got, err = parseInitProducer(a)
	}
	if err != nil {
		return task.Producer{ID: -1, Epoch: -1}, fmt.Errorf("initialising an idempotent producer: %w", err)
	}
	return got, nil
}

// checkSameID compares the id held with the one obtained. A coordinator that lost a transactional id answers with a new producer id, as to
// a first call, which does not fence an owner with the old one. A new id is right only if the old one's epochs are used up.
func checkSameID(held, got task.Producer) error {
	if held.ID < 0 || got.ID == held.ID || held.Epoch >= math.MaxInt16-1 {
		return nil
	}
	return fmt.Errorf("%w: the coordinator has forgotten producer id %d, and gives %d", task.ErrFenced, held.ID, got.ID)
}

func parseInitProducer(a *answer) (task.Producer, error) {
	r := reader{b: a.body}
	r.int32() // throttle time
	code := kafka.Error(r.int16())
	got := task.Producer{ID: r.int64(), Epoch: r.int16()}
	r.tags()
	switch {
	case r.bad:
		return got, fmt.Errorf("%w: init producer id", errAnswer)
	case code == kafka.UnknownProducerId: // here not about a sequence
		return got, fmt.Errorf("%w: %w", task.ErrFenced, code)
	case code != 0:
		return got, brokerError(code)
	case got.ID < 0 || got.Epoch < 0:
		return got, fmt.Errorf("%w: producer id %d, epoch %d", errAnswer, got.ID, got.Epoch)
	}
	return got, nil
}

// AddPartition begins a transaction and adds all our partitions of this number to it: rankings, and each input's dead letters. So its end
// markers fence all of them. It fails like InitProducer. It begins no transaction before the leaders host all partitions; Create says why.
func (p *Partition) AddPartition(ctx context.Context, r task.AddPartition) error {
	doing := fmt.Sprintf("adding the partitions of number %d to the transaction of %q", p.number, p.TransactionalID())
	l, topics, err := p.written(ctx)
	if err == nil {
		err = p.hosted(ctx, l, topics)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	req := kafka.AddPartitionsToTxnRequest{
		TransactionalID: p.TransactionalID(),
		ProducerID:      int(r.Producer.ID),
		ProducerEpoch:   int(r.Producer.Epoch),
		Topics:          make(map[string][]kafka.AddPartitionToTxn, len(topics)),
	}
	for _, name := range topics {
		req.Topics[name] = []kafka.AddPartitionToTxn{{Partition: int(p.number)}}
	}
	res, err := p.c.Kafka().AddPartitionsToTxn(ctx, &req)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, codeOf(err))
	}
	return addError(doing, res, topics, p.number)
}

// addError returns the error of the topic that could not be added. The others then say that they were not attempted.
func addError(doing string, res *kafka.AddPartitionsToTxnResponse, topics []string, number int32) (failed error) {
	for _, name := range topics {
		at := slices.IndexFunc(res.Topics[name], func(a kafka.AddPartitionToTxnPartition) bool { return a.Partition == int(number) })
		err := fmt.Errorf("%w: nothing about it", errAnswer)
		if at >= 0 {
			err = codeOf(res.Topics[name][at].Error)
		}
		if err != nil && (failed == nil || errors.Is(failed, errNotAttempted)) {
			failed = fmt.Errorf("%s: %s: %w", doing, partitionName(name, number), err)
		}
	}
	return failed
}

const errNotAttempted = kafka.Error(55)

// written returns the topics that the worker writes to, if they have this partition number. Later checks report missing dead-letter topics.
func (p *Partition) written(ctx context.Context) (l *metadata, topics []string, err error) {
	if l, err = p.c.fetchMetadata(ctx); err != nil {
		return nil, nil, err
	}
	topics = []string{p.c.o.Topics[event.Rankings]}
	for _, name := range p.c.dlq {
		if name == "" {
			continue
		}
		if _, n, err := l.partitions(name); err != nil {
			return nil, nil, err
		} else if int(p.number) < n {
			topics = append(topics, name)
		}
	}
	return l, topics, nil
}

// AbortTxn aborts a transaction. Once it has returned, the markers will be written in any case, but may not stand in the log yet. It fails
// like InitProducer.
func (p *Partition) AbortTxn(ctx context.Context, r task.AbortTxn) error {
	doing := fmt.Sprintf("aborting the transaction of %q", p.TransactionalID())
	res, err := p.c.Kafka().EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: p.TransactionalID(),
		ProducerID:      int(r.Producer.ID),
		ProducerEpoch:   int(r.Producer.Epoch),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, codeOf(err))
	}
	return nil
}
