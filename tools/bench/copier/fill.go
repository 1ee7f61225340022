package copier

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const fillBatch = 800

// Place is the partition that Kafka's default partitioner gives to a key.
func Place(key []byte, partitions int) int {
	return partitioner.Balance(kafka.Message{Key: key}, numbers[:partitions]...)
}

var (
	partitioner = kafka.Murmur2Balancer{Consistent: true}
	numbers     = func() (n [1024]int) { // more partitions nobody measures with on one machine
		for p := range n {
			n[p] = p
		}
		return n
	}()
)

// fill writes those of the impressions whose place is p.
func fill(ctx context.Context, cfg Config, p int) error {
	var buf []byte
	var messages []task.OutMessage
	for i := range cfg.Records {
		if key := Key(i); Place(key, cfg.Partitions) == p {
			messages = append(messages, impressionOf(key, i, cmp.Or(cfg.Items, 20_000)))
		}
		if len(messages) < fillBatch && (i < cfg.Records-1 || len(messages) == 0) {
			continue
		}
		var err error
		buf, err = broker.AppendBatch(buf[:0], &broker.BatchInfo{Producer: task.Producer{ID: -1, Epoch: -1}, Sequence: -1,
			Timestamp: time.Now().UnixMilli()}, messages)
		if err != nil {
			return err
		}
		if err := write(ctx, cfg.Client, p, buf); err != nil {
			return err
		}
		messages = messages[:0]
	}
	return nil
}

func write(ctx context.Context, c *broker.Client, p int, batch []byte) error {
	if err := Send(ctx, c, p, batch); err != nil {
		return fmt.Errorf("filling partition %d: %w", p, err)
	}
	return nil
}

// Send appends one encoded batch to a partition of the impressions. The topic may be so new that not everybody knows
// of it: then it waits.
func Send(ctx context.Context, c *broker.Client, p int, batch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		res, err := c.Kafka().RawProduce(ctx, &kafka.RawProduceRequest{Topic: c.Topic(event.Impressions), Partition: p,
			RequiredAcks: kafka.RequireAll, RawRecords: framed(batch)})
		if err == nil {
			err = res.Error
		}
		if !unknown(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// unknown tells whether nothing was written because the topic is new.
func unknown(err error) bool {
	return errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition) || errors.Is(err, protocol.ErrNoLeader) ||
		errors.Is(err, kafka.NotLeaderForPartition) || errors.Is(err, kafka.UnknownTopicOrPartition)
}

// framed puts the size in front that the wire has there.
func framed(batch []byte) protocol.RawRecordSet {
	size := binary.BigEndian.AppendUint32(nil, uint32(len(batch)))
	return protocol.RawRecordSet{Reader: io.MultiReader(bytes.NewReader(size), bytes.NewReader(batch))}
}

// Key is the id of the i-th impression.
func Key(i int64) []byte { return fmt.Appendf(nil, "i-%010d", i) }

// NamedImpression makes the i-th impression under an id: 20 candidates with utilities, 950 bytes.
func NamedImpression(key []byte, i int64) task.OutMessage { return impressionOf(key, i, 20_000) }

// impressionOf is one of a catalogue of so many items.
func impressionOf(key []byte, i, items int64) task.OutMessage {
	v := fmt.Appendf(make([]byte, 0, 1000), `{"impression_id":"%s","candidates":[`, key)
	for j := range int64(20) {
		if j > 0 {
			v = append(v, ',')
		}
		v = fmt.Appendf(v, `{"item":"item-%06d","utility":0.%05d}`, (i*7919+j*104729)%items, (i*31+j*17389)%100000)
	}
	v = append(v, `]}`...)
	return task.OutMessage{Key: key, Value: v}
}
