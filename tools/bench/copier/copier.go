package copier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
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
	FetchBytes int   // of one request; 0: 1 MiB
	Items      int64 // of Fill's catalogue; 0: 20,000
	Paid       bool  // Fill writes a selection and a payoff for each impression too
	Protobuf   bool  // Fill writes impressions in Protobuf
}

func (c *Config) items() int64 { return cmp.Or(c.Items, 20_000) }

type Result struct {
	Records int64
	Elapsed time.Duration
	CPU     time.Duration // of this process, user and system
}

func (r Result) PerSecond() float64 { return float64(r.Records) / r.Elapsed.Seconds() }

func (r Result) CPUPerRecord() time.Duration {
	return time.Duration(float64(r.CPU) / float64(max(r.Records, 1)))
}

func (r Result) String() string {
	return fmt.Sprintf("%d records in %v: %.0f records/s, %v CPU per record", r.Records, r.Elapsed.Round(time.Millisecond),
		r.PerSecond(), r.CPUPerRecord().Round(10*time.Nanosecond))
}

const (
	maxWait    = 200 * time.Millisecond
	callLimit  = 10 * time.Second
	batchBytes = 900 << 10
)

// Run copies impressions to rankings from the beginning, each partition under its own fenced producer.
func Run(ctx context.Context, cfg Config) (Result, error) {
	return measure(ctx, cfg, func(ctx context.Context, c *counted, p int) error {
		l := fenced{counted: c, p: c.Client.Partition(int32(p))}
		if err := l.fence(ctx); err != nil {
			return err
		}
		return ahead(ctx, l.fetch, l.produce)
	})
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

func measure(ctx context.Context, cfg Config, one func(ctx context.Context, c *counted, p int) error) (Result, error) {
	cfg.FetchBytes = cmp.Or(cfg.FetchBytes, 1<<20)
	ctx, done := context.WithCancel(ctx)
	defer done()
	c := counted{Config: cfg, done: done}
	cpu, start := cpuTime(), time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for p := range cfg.Partitions {
		g.Go(func() error {
			err := one(gctx, &c, p)
			if c.copied.Load() >= cfg.Records && ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	return Result{Records: c.copied.Load(), Elapsed: time.Since(start), CPU: cpuTime() - cpu}, err
}

// ahead fetches one answer ahead of the produce requests. fetch gets the offset of the next record, and returns the one after its answer.
func ahead[A any](ctx context.Context, fetch func(ctx context.Context, from int64) (A, int64, error), produce func(context.Context, A) error) error {
	answers := make(chan A)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for next := int64(0); ; {
			call, cancel := context.WithTimeout(ctx, callLimit)
			answer, after, err := fetch(call, next)
			cancel()
			if err != nil {
				return errors.Join(ctx.Err(), err)
			}
			next = after
			select {
			case answers <- answer:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	g.Go(func() error {
		for {
			select {
			case answer := <-answers:
				if err := produce(ctx, answer); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fenced copies one partition by the worker's client.
type fenced struct {
	*counted
	p        *broker.Partition
	producer task.Producer
	sequence int32
	messages []task.OutMessage
}

func (c *fenced) fetch(ctx context.Context, from int64) ([]partition.Record, int64, error) {
	f, err := c.p.Fetch(ctx, task.Fetch{Topic: event.Impressions, Offset: from, MaxBytes: c.FetchBytes, MaxWait: maxWait})
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
