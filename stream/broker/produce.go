package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	acksAll = -1
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
	topic := p.c.topic(r.Topic)
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
	req, err := p.c.produceRequest((*buf)[:0], topic, p.number, &r, remaining(ctx, produceWait))
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	*buf = req
	a, err := p.c.do(ctx, brokerExchange{p.c.exchange(apiProduce, func(int16, []byte) []byte { return req }), lead.broker})
	if err != nil {
		// The connection's goroutine may still be reading the buffer, so it is not pooled.
		p.c.metadataCache.outdated(l)
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	p.c.requests.Put(buf)
	got, err := parseProduce(a, topic, p.number)
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

// produceRequest appends the request, with the batch encoded in place. Behind the header, all versions in use are equal.
func (c *Client) produceRequest(b []byte, topic string, number int32, r *task.Produce, wait time.Duration) ([]byte, error) {
	b = appendHeader(b, protocol.Produce, c.o.ClientID, false)
	b = appendInt16(b, -1) // no transactional id
	b = appendInt16(b, acksAll)
	b = appendInt32(b, int32(wait.Milliseconds()))
	b = appendInt32(b, 1)
	b = appendString(b, topic)
	b = appendInt32(b, 1)
	b = appendInt32(b, number)
	at := len(b)
	b = appendInt32(b, 0)
	info := BatchInfo{Producer: r.Producer, Sequence: r.Sequence, Timestamp: r.Timestamp}
	b, err := AppendBatch(b, &info, r.Messages)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b, nil
}

func parseProduce(a *answer, topic string, number int32) (got task.Produced, err error) {
	none := task.Produced{BaseOffset: -1, AppendTime: -1}
	r := reader{b: a.body}
	if r.count(2+4) != 1 || r.string() != topic || r.count(4+2+8+8) != 1 || r.int32() != number {
		return none, fmt.Errorf("%w: produce", errAnswer)
	}
	code := kafka.Error(r.int16())
	got.BaseOffset, got.AppendTime = r.int64(), r.int64()
	if a.version >= 5 {
		r.int64() // log start
	}
	message := ""
	if a.version >= 8 {
		for n := r.count(4 + 2); n > 0 && !r.bad; n-- {
			r.int32()
			if m := r.string(); message == "" {
				message = m
			}
		}
		if m := r.string(); m != "" {
			message = m
		}
	}
	if r.bad {
		return none, fmt.Errorf("%w: produce", errAnswer)
	}
	switch {
	case code == kafka.DuplicateSequenceNumber:
		return none, nil // it is in the log already
	case code == 0:
		return got, nil
	}
	err = brokerError(code)
	if message != "" && !errors.Is(err, task.ErrFenced) {
		err = fmt.Errorf("%w (%s)", err, message)
	}
	return none, err
}
