package copier

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type Config struct {
	Client     *broker.Client
	Partitions int   // each is copied by one goroutine, in order
	Records    int64 // over all partitions; the copier waits for them
	Items      int64 // of Fill's catalogue; 0: 20,000
	Paid       bool  // Fill writes a selection and a payoff for each impression too
	Protobuf   bool  // Fill writes impressions in Protobuf
}

func (c *Config) items() int64 { return cmp.Or(c.Items, 20_000) }

const (
	maxWait    = 200 * time.Millisecond
	callLimit  = 10 * time.Second
	fetchBytes = 1 << 20
	batchBytes = 900 << 10
)

// Run copies impressions to rankings from the beginning, each partition under its own fenced producer.
func Run(ctx context.Context, cfg Config) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	c := counted{Config: cfg, done: done}
	g, gctx := errgroup.WithContext(ctx)
	for p := range cfg.Partitions {
		g.Go(func() error {
			l := fenced{counted: &c, p: c.Client.Partition(int32(p))}
			if err := l.run(gctx); c.copied.Load() < cfg.Records || ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	return g.Wait()
}

// counted ends the copying when all records are copied.
type counted struct {
	Config
	copied atomic.Int64
	done   func()
}

func (c *counted) add(records int) {
	if c.copied.Add(int64(records)) >= c.Records {
		c.done()
	}
}

// fenced copies one partition by the worker's client.
type fenced struct {
	*counted
	p        *broker.Partition
	producer task.Producer
	sequence int32
	messages []task.OutMessage
}

// run fetches one answer ahead of the produce requests.
func (c *fenced) run(ctx context.Context) error {
	if err := c.fence(ctx); err != nil {
		return err
	}
	answers := make(chan []partition.Record)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for next := int64(0); ; {
			records, after, err := c.fetch(ctx, next)
			if err != nil {
				return errors.Join(ctx.Err(), err)
			}
			next = after
			select {
			case answers <- records:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	g.Go(func() error {
		for {
			select {
			case records := <-answers:
				if err := c.produce(ctx, records); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}

func (c *fenced) fetch(ctx context.Context, from int64) ([]partition.Record, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	f, err := c.p.Fetch(ctx, task.Fetch{Topic: event.Impressions, Offset: from, MaxBytes: fetchBytes, MaxWait: maxWait})
	return f.Records, f.Next, err
}

func (c *fenced) produce(ctx context.Context, records []partition.Record) error {
	bytes := 0
	for i := range records {
		r := &records[i]
		c.messages = append(c.messages, task.OutMessage{Key: r.Key, Value: r.Value})
		if bytes += len(r.Key) + len(r.Value) + task.RecordOverhead; bytes < batchBytes && i < len(records)-1 {
			continue
		}
		if err := c.send(ctx); err != nil {
			return err
		}
		c.messages, bytes = c.messages[:0], 0
	}
	return nil
}

func (c *fenced) send(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.p.Produce(call, task.Produce{Topic: event.Rankings, Producer: c.producer, Sequence: c.sequence,
		Timestamp: time.Now().UnixMilli(), Messages: c.messages})
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	c.sequence += int32(len(c.messages))
	c.add(len(c.messages))
	return nil
}

// fence gets a producer. It retries while the coordinator is busy or starting.
func (c *fenced) fence(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var err error
		c.producer, err = c.p.InitProducer(ctx, task.InitProducer{Producer: task.Producer{ID: -1, Epoch: -1}})
		if err == nil || ctx.Err() != nil || errors.Is(err, task.ErrUnsupported) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Fill writes impressions of 20 candidates, about 950 bytes each, in Protobuf 550, to their default partitions with a plain producer. If
// paid, it writes their selections and payoffs, too. Times rise.
func Fill(ctx context.Context, cfg Config) error {
	g, ctx := errgroup.WithContext(ctx)
	for p := range cfg.Partitions {
		g.Go(func() error { return fill(ctx, cfg, p) })
	}
	return g.Wait()
}
