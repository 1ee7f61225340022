package checker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Options say what is checked, and what may be taken for granted.
type Options struct {
	// Config is the workers' configuration, as it is now.
	Config *config.Config
	// Earlier are configurations that were in force before, in this group's life: a decision has to fit one of them all.
	Earlier []*config.Config
	// Partitions to check; nil: all.
	Partitions []int32

	// Patience bounds the wait for a broker or Redis that does not answer, and for a checkpoint that was written in part
	// to be repaired. 0: 30 s.
	Patience time.Duration
	// Parallel is how many partitions are checked at once; 0: as many as there are processors.
	Parallel int
	// Kept bounds the violations that are kept of each law and partition; the others are only counted. 0: 100.
	Kept int
}

// ErrOptions says that the options make no sense.
var ErrOptions = errors.New("checker: options")

func (o *Options) defaults() error {
	if o.Config == nil {
		return fmt.Errorf("%w: no configuration", ErrOptions)
	}
	if o.Patience < 0 || o.Parallel < 0 || o.Kept < 0 {
		return fmt.Errorf("%w: a negative bound", ErrOptions)
	}
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Parallel = cmp.Or(o.Parallel, runtime.GOMAXPROCS(0))
	o.Kept = cmp.Or(o.Kept, 100)
	return nil
}

// Check checks a group once, and reports what it found. An error says that it could not be checked: Kafka or Redis do not
// answer. Violations are no error.
//
// It only reads. It may run while workers do.
func Check(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	if err := o.defaults(); err != nil {
		return Report{}, err
	}
	c, err := newChecker(&o)
	if err != nil {
		return Report{}, err
	}
	defer c.close()
	partitions := o.Partitions
	if partitions == nil {
		if partitions, err = c.partitions(ctx); err != nil {
			return Report{}, err
		}
	}
	var mu sync.Mutex
	var all []PartitionReport
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	for _, p := range partitions {
		group.Go(func() error {
			r, err := c.partition(ctx, p)
			if err != nil {
				return fmt.Errorf("checking partition %d: %w", p, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, r)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Report{}, err
	}
	slices.SortFunc(all, func(a, b PartitionReport) int { return cmp.Compare(a.Partition, b.Partition) })
	return summarise(o.Config.Kafka.Group, all, time.Since(began)), nil
}

// checker is what one Check works with.
type checker struct {
	opt     *Options
	cfg     *config.Config
	configs []*config.Config // all, the present one first
	broker  *broker.Client
	redis   *store
}

func newChecker(o *Options) (*checker, error) {
	b, err := app.NewBroker(o.Config)
	if err != nil {
		return nil, err
	}
	s, err := newStore(o.Config)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &checker{opt: o, cfg: o.Config, configs: append([]*config.Config{o.Config}, o.Earlier...), broker: b, redis: s}, nil
}

func (c *checker) close() {
	c.broker.Close()
	c.redis.close()
}

// partitions lists the partition numbers of the impressions.
func (c *checker) partitions(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.Patience)
	defer cancel()
	topic := c.cfg.Kafka.Topics.Impressions
	answer, err := c.broker.Kafka().Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, fmt.Errorf("asking for the partitions of %q: %w", topic, err)
	}
	var numbers []int32
	for _, t := range answer.Topics {
		if t.Error != nil {
			return nil, fmt.Errorf("asking for the partitions of %q: %w", topic, t.Error)
		}
		for _, p := range t.Partitions {
			numbers = append(numbers, int32(p.ID))
		}
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("topic %q has no partitions", topic)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// partition checks one. First Redis is read, then the topics, the inputs up to where the checkpoint has come.
func (c *checker) partition(ctx context.Context, p int32) (PartitionReport, error) {
	began := time.Now()
	out := newFindings(p, c.opt.Kept)
	snap, err := c.redis.snapshot(ctx, p, c.opt.Patience)
	var none *fold
	if errors.Is(err, errNoState) {
		if none, err = c.ranked(ctx, p, out); err != nil {
			return PartitionReport{}, err
		}
		// A worker may have begun meanwhile: state that was there before the rankings were read is asked for again.
		snap, err = c.redis.snapshot(ctx, p, c.opt.Patience)
	}
	switch {
	case errors.Is(err, errNoState) && none != nil:
		if !out.ok(metaFields, !none.ranked.begun) {
			out.breach(metaFields, "meta", "state: the group has ranked impressions of this partition", "nothing is stored")
		} else {
			out.skip("nothing is stored and nothing was ranked yet")
		}
		return out.report(none, time.Since(began)), nil
	case err != nil:
		return PartitionReport{}, err
	}
	out = newFindings(p, c.opt.Kept)
	st, err := readState(snap, c.cfg.Kafka.Topics.HasSelections(), out)
	if err != nil {
		return PartitionReport{}, err
	}
	f := newFold(c, p, st, out)
	if err := f.run(ctx); err != nil {
		return PartitionReport{}, err
	}
	f.finish()
	return out.report(f, time.Since(began)), nil
}

// ranked reads the rankings of a partition of which Redis holds nothing.
func (c *checker) ranked(ctx context.Context, p int32, out *findings) (*fold, error) {
	f := newFold(c, p, &state{}, out)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := f.describe(ctx)
	if err != nil {
		return nil, err
	}
	f.ranked.open(d.Topics[event.Rankings].LogStart, nil)
	f.ranked.log = c.read(ctx, p, event.Rankings, f.ranked.from, -1)
	f.ranked.log.fences = f.ranked.fence
	return f, f.ranked.drain(f)
}

// near tells whether two sums of n terms agree: they were added up in another order.
func near(a, b float64, n int64) bool {
	scale := math.Max(math.Max(math.Abs(a), math.Abs(b)), 1)
	return math.Abs(a-b) <= 1e-12*scale*float64(16+n)
}
