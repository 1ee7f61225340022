package broker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// transactionTimeout is when the coordinator ends a fence's transaction whose owner died in the middle of it. Until
// then, readers of committed rankings may have to wait.
const transactionTimeout = 30 * time.Second

// TransactionalID is that of this partition number: <group>-<partition>. With ACLs it needs Write.
func (p *Partition) TransactionalID() string {
	return p.c.o.Group + "-" + strconv.Itoa(int(p.number))
}

// InitProducer raises the epoch of our transactional id, or gets its first. Producer is -1, -1 for a first call, else
// what the last call has given. It needs InitProducerID version 3 (Kafka 2.5): below it, the broker never sees the
// producer, and nothing would be fenced; the version is that of the very connection used.
//
// Errors: task.ErrFenced where the producer given is not the newest; task.ErrUnsupported. Others pass, such as those of
// a coordinator that is busy, loading or elsewhere.
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
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	got, err := parseInitProducer(a)
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return got, nil
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
	case code != 0:
		return got, brokerError(code)
	case got.ID < 0 || got.Epoch < 0:
		return got, fmt.Errorf("%w: producer id %d, epoch %d", errAnswer, got.ID, got.Epoch)
	}
	return got, nil
}

// AddPartition adds rankings[p] to a transaction, which it begins. Errors as InitProducer.
func (p *Partition) AddPartition(ctx context.Context, r task.AddPartition) error {
	topic := p.c.o.Topics[event.Rankings]
	doing := fmt.Sprintf("adding %s to the transaction of %q", where(topic, p.number), p.TransactionalID())
	res, err := p.c.Kafka().AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: p.TransactionalID(),
		ProducerID:      int(r.Producer.ID),
		ProducerEpoch:   int(r.Producer.Epoch),
		Topics:          map[string][]kafka.AddPartitionToTxn{topic: {{Partition: int(p.number)}}},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	for _, got := range res.Topics[topic] {
		if got.Partition != int(p.number) {
			continue
		}
		if err := codeOf(got.Error); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		return nil
	}
	return fmt.Errorf("%s: %w: nothing about it", doing, errAnswer)
}

// AbortTxn ends a transaction with an abort. Once it has returned, the abort markers will be written, whatever
// becomes of us; they stand in the log a little later. Errors as InitProducer.
func (p *Partition) AbortTxn(ctx context.Context, r task.AbortTxn) error {
	doing := fmt.Sprintf("aborting the transaction of %q", p.TransactionalID())
	res, err := p.c.Kafka().EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: p.TransactionalID(),
		ProducerID:      int(r.Producer.ID),
		ProducerEpoch:   int(r.Producer.Epoch),
	})
	if err == nil {
		err = codeOf(res.Error)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
