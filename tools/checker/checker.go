package checker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Options configure a check.
type Options struct {
	// Config is the workers' present configuration.
	Config *config.Config
	// Earlier are configurations of the group's past. A decision must fit one of them all.
	Earlier []*config.Config
	// Partitions to check; nil: all.
	Partitions []int32

	// Patience bounds the wait for a broker or Redis, and for the repair of a half-written checkpoint. 0: 30 s.
	Patience time.Duration
	// Parallel is the number of partitions checked at once; 0: as many as processors.
	Parallel int
	// Kept bounds the violations kept of each law and partition; others are only counted. 0: 100.
	Kept int
}

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

// Check checks a group once, and returns a report. It only reads, and may run beside
// workers. It fails if Kafka or Redis do not answer; violations are no error.
//
// These are not determined by the topics, counted as open or named in Unchecked, and never guessed:
//
//   - Records of unknown order, whose headers a mirror dropped or which exceed a header; and their learners' instances, windows and preferences.
//   - Learners that some configuration lacks; event time while parking_time or on_expiry changed.
//   - Statistics from before a reset. After an import the fold starts from the imported values. After a reshard Redis is compared with itself.
//   - When queues feed a payoff: only N and the waiting payoffs are compared.
//   - BOLD's value of an item that was not in every list fed, since FTRL starts it at the median; OSMD's point, beyond its form.
//   - Estimates (windows, levels, delay distribution, fits), which use other partitions; the instance that decided; the order of rankings.
//   - Statistics of drift, context, recency, share of selections and selections in flight, after an import or if configurations
//     differ in their settings. A context's sums after an item has ended.
//   - Whether a ranking was too large, and the effective time of a record dated far ahead: dead letter and ranking are believed.
//   - How far the expiry walk has come; other partitions' statistics.
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
	all := make([]PartitionReport, len(partitions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	for k, p := range partitions {
		group.Go(func() (err error) {
			if all[k], err = c.partition(ctx, p); err != nil {
				return fmt.Errorf("checking partition %d: %w", p, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Report{}, err
	}
	return summarise(o.Config.Kafka.Group, all, time.Since(began)), nil
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

// partition checks one: it reads Redis, then the inputs up to the checkpoint, and the rankings to their end.
func (c *checker) partition(ctx context.Context, p int32) (PartitionReport, error) {
	began := time.Now()
	out := newFindings(p, c.opt.Kept)
	snap, err := c.redis.snapshot(ctx, p, c.opt.Patience)
	var none *fold
	if errors.Is(err, errNoState) {
		if none, err = c.ranked(ctx, p, out); err != nil {
			return PartitionReport{}, err
		}
		// A worker may have begun meanwhile: read Redis again.
		snap, err = c.redis.snapshot(ctx, p, c.opt.Patience)
	}
	switch {
	case errors.Is(err, errNoState) && none != nil:
		if out.must(metaFields, !none.ranked.begun, "meta", "state: the group has ranked impressions of this partition", "nothing is stored") {
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

// ranked reads the rankings of a partition without stored state.
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
