package copier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// RunPlain is Run by kafka-go's own Client.Fetch and Client.Produce, like a program with the library alone. It fetches ahead in the same
// way.
func RunPlain(ctx context.Context, cfg Config) (Result, error) {
	return measure(ctx, cfg, func(ctx context.Context, c *counted, p int) error {
		l := plain{c, c.Client.Kafka(), p}
		return ahead(ctx, l.fetch, l.produce)
	})
}

type plain struct {
	*counted
	client *kafka.Client
	p      int
}

func (c *plain) fetch(ctx context.Context, from int64) ([]kafka.Record, int64, error) {
	for {
		records, err := c.fetchOnce(ctx, from)
		switch {
		case unknown(err):
			time.Sleep(10 * time.Millisecond)
		case err != nil:
			return nil, 0, fmt.Errorf("fetching partition %d: %w", c.p, err)
		case len(records) == 0:
			return nil, from, nil
		default:
			return records, records[len(records)-1].Offset + 1, nil
		}
	}
}

func (c *plain) fetchOnce(ctx context.Context, from int64) ([]kafka.Record, error) {
	res, err := c.client.Fetch(ctx, &kafka.FetchRequest{Topic: c.Client.Topic(event.Impressions), Partition: c.p,
		Offset: from, MinBytes: 1, MaxBytes: int64(c.FetchBytes), MaxWait: maxWait})
	if err != nil {
		return nil, err
	}
	if res.Error != nil {
		return nil, res.Error
	}
	var records []kafka.Record
	for {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		if r.Offset >= from { // an answer begins with a whole batch
			records = append(records, *r)
		}
	}
}

// produce sends halves: an answer may be as large as the largest batch.
func (c *plain) produce(ctx context.Context, records []kafka.Record) error {
	for half := range slices.Chunk(records, len(records)/2+1) {
		if err := c.send(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

func (c *plain) send(ctx context.Context, records []kafka.Record) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		res, err := c.client.Produce(call, &kafka.ProduceRequest{Topic: c.Client.Topic(event.Rankings), Partition: c.p,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
		if err == nil {
			err = res.Error
		}
		if unknown(err) && call.Err() == nil {
			time.Sleep(10 * time.Millisecond) // the client does not know the new topic's leaders yet
			continue
		}
		if err != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("producing to partition %d: %w", c.p, err))
		}
		break
	}
	c.add(len(records))
	return nil
}
