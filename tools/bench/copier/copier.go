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
			c := partitionCopier{cfg: &cfg, p: cfg.Client.Partition(int32(i)), copied: &copied, done: done}
			err := c.run(gctx)
			if copied.Load() >= cfg.Records && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	return Result{Records: copied.Load(), Elapsed: time.Since(start), CPU: cpuTime() - cpu}, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type partitionCopier struct {
	cfg      *Config
	p        *broker.Partition
	copied   *atomic.Int64
	done     func()
	producer task.Producer
	sequence int32
}

// run fetches one answer ahead of the produce requests.
func (c *partitionCopier) run(ctx context.Context) error {
	if err := c.fence(ctx); err != nil {
		return err
	}
	answers := make(chan task.Fetched)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.fetch(ctx, answers) })
	g.Go(func() error { return c.produce(ctx, answers) })
	return g.Wait()
}

func (c *partitionCopier) fetch(ctx context.Context, answers chan<- task.Fetched) error {
	next := int64(0)
	for {
		call, cancel := context.WithTimeout(ctx, callLimit)
		f, err := c.p.Fetch(call, task.Fetch{Topic: event.Impressions, Offset: next, MaxBytes: c.cfg.FetchBytes, MaxWait: maxWait})
		cancel()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		next = f.Next
		select {
		case answers <- f:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *partitionCopier) produce(ctx context.Context, answers <-chan task.Fetched) error {
	var messages []task.OutMessage
	for {
		var f task.Fetched
		select {
		case f = <-answers:
		case <-ctx.Done():
			return ctx.Err()
		}
		bytes := 0
		for i := range f.Records {
			r := &f.Records[i]
			messages = append(messages, task.OutMessage{Key: r.Key, Value: r.Value})
			if bytes += len(r.Key) + len(r.Value) + task.RecordOverhead; bytes < batchBytes && i < len(f.Records)-1 {
				continue
			}
			if err := c.send(ctx, messages); err != nil {
				return err
			}
			messages, bytes = messages[:0], 0
		}
	}
}

func (c *partitionCopier) send(ctx context.Context, messages []task.OutMessage) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.p.Produce(call, task.Produce{Topic: event.Rankings, Producer: c.producer, Sequence: c.sequence,
		Timestamp: time.Now().UnixMilli(), Messages: messages})
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	c.sequence += int32(len(messages))
	if c.copied.Add(int64(len(messages))) >= c.cfg.Records {
		c.done()
	}
	return nil
}

// fence gets a producer. It retries while the coordinator is busy or starting.
func (c *partitionCopier) fence(ctx context.Context) error {
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
