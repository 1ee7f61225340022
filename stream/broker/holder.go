package broker

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/task"
	"github.com/ranker-worker/ranker-worker/stream/wire"
)

const transactionalIDNotFound = kafka.Error(105)

// Holder returns the producer id that the coordinator holds for our transactional id, -1 if none. It fences nothing. It needs Describe on
// the transactional id, and Kafka 3.0.
//
// It fails with task.ErrUnsupported without that right, or without DescribeTransactions. Other errors are transient.
func (p *Partition) Holder(ctx context.Context) (int64, error) {
	id := p.TransactionalID()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	res, err := req.RequestWith(ctx, p.coordinator())
	if err == nil && len(res.TransactionStates) != 1 {
		err = fmt.Errorf("%w: describe transactions", wire.ErrAnswer)
	}
	if err == nil {
		got := &res.TransactionStates[0]
		switch code := kafka.Error(got.ErrorCode); code {
		case 0:
			return got.ProducerID, nil
		case transactionalIDNotFound:
			return -1, nil
		case kafka.TransactionalIDAuthorizationFailed:
			err = fmt.Errorf("%w without the right Describe on the transactional id: %w", task.ErrUnsupported, code)
		default:
			err = brokerError(got.ErrorCode)
		}
	}
	return -1, fmt.Errorf("asking for the producer of transactional id %q: %w", id, err)
}
