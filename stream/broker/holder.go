package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

const transactionalIDNotFound = kafka.Error(105)

// Holder returns the producer id that the coordinator holds for our transactional id, -1 if none. It fences nothing. It needs Describe on
// the transactional id, and Kafka 3.0.
//
// It fails with task.ErrUnsupported without that right, or without DescribeTransactions. Other errors are transient.
func (p *Partition) Holder(ctx context.Context) (int64, error) {
	id := p.TransactionalID()
	doing := fmt.Sprintf("asking for the producer of transactional id %q", id)
	version, err := p.c.versionOf(ctx, apiDescribeTxns, "DescribeTransactions")
	if err != nil {
		return -1, fmt.Errorf("%s: %w", doing, err)
	}
	x := p.c.exchange(apiDescribeTxns, func(_ int16, b []byte) []byte {
		w := writer{b: b, flexible: true}
		w.array(1)
		w.string(id)
		w.tags()
		return w.b
	})
	x.fixed = &version
	a, err := p.c.do(ctx, txnExchange{x, id})
	if err != nil {
		return -1, fmt.Errorf("%s: %w", doing, err)
	}
	holder, err := parseHolder(a)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", doing, err)
	}
	return holder, nil
}

// parseHolder reads the answer up to the producer id.
func parseHolder(a *answer) (int64, error) {
	r := reader{b: a.body}
	r.int32() // throttle time
	if r.array(true, 2+1+1+4+8+8+2+1+1) != 1 {
		return -1, fmt.Errorf("%w: describe transactions", errAnswer)
	}
	code := kafka.Error(r.int16())
	_ = r.compact() // the id
	_ = r.compact() // its state
	r.int32()       // the timeout
	r.int64()       // when it began
	holder := r.int64()
	switch {
	case r.bad:
		return -1, fmt.Errorf("%w: describe transactions", errAnswer)
	case code == transactionalIDNotFound:
		return -1, nil
	case errors.Is(code, kafka.TransactionalIDAuthorizationFailed):
		return -1, fmt.Errorf("%w without the right Describe on the transactional id: %w", task.ErrUnsupported, code)
	case code != 0:
		return -1, brokerError(code)
	}
	return holder, nil
}

// versionOf selects the version of a request that kafka-go neither knows nor negotiates.
func (c *Client) versionOf(ctx context.Context, a api, name string) (int16, error) {
	res, err := c.Kafka().ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	if err == nil {
		err = codeOf(res.Error)
	}
	if err != nil {
		return 0, fmt.Errorf("asking for the broker's versions: %w", err)
	}
	for _, k := range res.ApiKeys {
		if protocol.ApiKey(k.ApiKey) == a.key && k.MinVersion <= int(a.max) {
			return int16(min(k.MaxVersion, int(a.max))), nil
		}
	}
	return 0, fmt.Errorf("%w: the broker speaks no %s up to version %d", task.ErrUnsupported, name, a.max)
}
