package copier

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const fillBatch = 800

type filler struct {
	cfg  *Config
	p    int
	buf  []byte
	last int64 // of the last batch, in Unix milliseconds
}

// fill writes the impressions of partition p, each batch followed by its selections and payoffs.
func fill(ctx context.Context, cfg Config, p int) error {
	f := filler{cfg: &cfg, p: p}
	var batches [event.Inputs][]task.OutMessage
	for i := range cfg.Records {
		if key := Key(i); state.PartitionOf(key, cfg.Partitions) == int32(p) {
			batches[event.Impressions] = append(batches[event.Impressions], cfg.impression(key, i))
			if cfg.Paid {
				batches[event.Selections] = append(batches[event.Selections], selectionOf(key, i, cfg.items()))
				batches[event.Payoffs] = append(batches[event.Payoffs], payoffOf(key, i))
			}
		}
		if len(batches[event.Impressions]) < fillBatch && i < cfg.Records-1 {
			continue
		}
		for t := range batches {
			if err := f.write(ctx, event.Topic(t), batches[t]); err != nil {
				return err
			}
			batches[t] = batches[t][:0]
		}
	}
	return nil
}

// write appends one batch with a later time than the one before: a selection comes after its impression.
func (f *filler) write(ctx context.Context, t event.Topic, messages []task.OutMessage) (err error) {
	if len(messages) == 0 {
		return nil
	}
	f.last = max(f.last+1, time.Now().UnixMilli())
	f.buf, err = broker.AppendBatch(f.buf[:0], &broker.BatchInfo{Producer: task.Producer{ID: -1, Epoch: -1}, Sequence: -1, Timestamp: f.last}, messages)
	if err != nil {
		return err
	}
	if err := Send(ctx, f.cfg.Client, t, f.p, f.buf); err != nil {
		return fmt.Errorf("filling partition %d of %s: %w", f.p, f.cfg.Client.Topic(t), err)
	}
	return nil
}

// Send appends one encoded batch to a partition of an input. It waits for a topic that is too new.
func Send(ctx context.Context, c *broker.Client, t event.Topic, p int, batch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		res, err := c.Kafka().RawProduce(ctx, &kafka.RawProduceRequest{Topic: c.Topic(t), Partition: p,
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

// unknown reports whether nothing was written because the topic is new.
func unknown(err error) bool {
	return errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition) || errors.Is(err, protocol.ErrNoLeader) ||
		errors.Is(err, kafka.NotLeaderForPartition) || errors.Is(err, kafka.UnknownTopicOrPartition)
}

// framed prepends the size, as on the wire.
func framed(batch []byte) protocol.RawRecordSet {
	size := binary.BigEndian.AppendUint32(nil, uint32(len(batch)))
	return protocol.RawRecordSet{Reader: io.MultiReader(bytes.NewReader(size), bytes.NewReader(batch))}
}

func Key(i int64) []byte { return fmt.Appendf(nil, "i-%010d", i) }

// NamedImpression returns the i-th impression under an id: 20 candidates with utilities, 950 bytes.
func NamedImpression(key []byte, i int64) task.OutMessage {
	return task.OutMessage{Key: key, Value: impressionOf(key, i, 20_000)}
}

// impressionOf returns an impression of a catalogue of items.
func impressionOf(key []byte, i, items int64) []byte {
	v := fmt.Appendf(make([]byte, 0, 1000), `{"impression_id":"%s","candidates":[`, key)
	for j := range int64(candidates) {
		if j > 0 {
			v = append(v, ',')
		}
		v = fmt.Appendf(v, `{"item":"item-%06d","utility":%.5f}`, candidate(i, j, items), utility(i, j))
	}
	v = append(v, `]}`...)
	return v
}

func (c *Config) impression(key []byte, i int64) task.OutMessage {
	if !c.Protobuf {
		return task.OutMessage{Key: key, Value: impressionOf(key, i, c.items())}
	}
	imp := event.Impression{ID: key, HasUtilities: true}
	for j := range int64(candidates) {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Appendf(nil, "item-%06d", candidate(i, j, c.items())), Utility: utility(i, j)})
	}
	return task.OutMessage{Key: key, Value: event.AppendProtobufImpression(nil, &imp)}
}

func utility(i, j int64) float64 { return float64((i*31+j*17389)%100000) / 100000 }

const candidates = 20

// candidate returns the item of the j-th candidate of the i-th impression. Candidates differ, and items are equally frequent, unless the
// number of items is a multiple of the primes.
func candidate(i, j, items int64) int64 { return (i*7919 + j*104729) % items }

// selectionOf selects the i-th impression's (i mod 20)-th candidate, whatever its ranking.
func selectionOf(key []byte, i, items int64) task.OutMessage {
	return task.OutMessage{Key: key, Value: fmt.Appendf(nil, `{"impression_id":"%s","item":"item-%06d"}`, key, candidate(i, i%candidates, items))}
}

// payoffOf returns the i-th impression's payoff, within [0, 1).
func payoffOf(key []byte, i int64) task.OutMessage {
	return task.OutMessage{Key: key, Value: fmt.Appendf(nil, `{"impression_id":"%s","payoff":0.%05d}`, key, i*7919%100000)}
}
