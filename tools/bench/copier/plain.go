package copier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// RunPlain is Run by kafka-go's own Client.Fetch and Client.Produce, like a program with the library alone. It fetches ahead in the same
// way.
func RunPlain(ctx context.Context, cfg Config) (Result, error) {
	if cfg.FetchBytes <= 0 {
		cfg.FetchBytes = 1 << 20
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var copied atomic.Int64
	cpu, start := cpuTime(), time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for i := range cfg.Partitions {
		g.Go(func() error {
			c := plainCopier{cfg: &cfg, client: cfg.Client.Kafka(), p: i, copied: &copied, done: done}
			err := c.run(gctx)
			if copied.Load() >= cfg.Records && ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	return Result{Records: copied.Load(), Elapsed: time.Since(start), CPU: cpuTime() - cpu}, err
}

type plainCopier struct {
	cfg    *Config
	client *kafka.Client
	p      int
	copied *atomic.Int64
	done   func()
}

func (c *plainCopier) run(ctx context.Context) error {
	answers := make(chan []kafka.Record)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.fetch(ctx, answers) })
	g.Go(func() error { return c.produce(ctx, answers) })
	return g.Wait()
}

func (c *plainCopier) fetch(ctx context.Context, answers chan<- []kafka.Record) error {
	next := int64(0)
	for {
		call, cancel := context.WithTimeout(ctx, callLimit)
		records, err := c.fetchOnce(call, next)
		cancel()
		if unknown(err) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("fetching partition %d: %w", c.p, err))
		}
		if len(records) == 0 {
			continue
		}
		next = records[len(records)-1].Offset + 1
		select {
		case answers <- records:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *plainCopier) fetchOnce(ctx context.Context, from int64) ([]kafka.Record, error) {
	res, err := c.client.Fetch(ctx, &kafka.FetchRequest{Topic: c.cfg.Client.Topic(event.Impressions), Partition: c.p,
		Offset: from, MinBytes: 1, MaxBytes: int64(c.cfg.FetchBytes), MaxWait: maxWait})
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

func (c *plainCopier) produce(ctx context.Context, answers <-chan []kafka.Record) error {
	for {
		var records []kafka.Record
		select {
		case records = <-answers:
		case <-ctx.Done():
			return ctx.Err()
		}
		// An answer may be as large as the largest batch.
		for half := (len(records) + 1) / 2; len(records) > 0; records = records[min(half, len(records)):] {
			if err := c.send(ctx, records[:min(half, len(records))]); err != nil {
				return err
			}
		}
	}
}

func (c *plainCopier) send(ctx context.Context, records []kafka.Record) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		res, err := c.client.Produce(call, &kafka.ProduceRequest{Topic: c.cfg.Client.Topic(event.Rankings), Partition: c.p,
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
	if c.copied.Add(int64(len(records))) >= c.cfg.Records {
		c.done()
	}
	return nil
}
