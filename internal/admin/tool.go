package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Tool executes the commands for one configuration.
type Tool struct {
	cfg      *config.Config
	store    state.AdminStore
	registry interface {
		Workers(ctx context.Context) ([]state.WorkerInfo, error)
	}
	broker   *broker.Client
	machine  partition.Config
	progress func(string)
	now      func() time.Time
	oneClock bool // time is simulated
}

// Options are the inputs that are not in the configuration file.
type Options struct {
	// Progress is called now and then with a command's progress, in words. It may be nil.
	Progress func(string)
	Now      func() time.Time // simulated time; nil: time.Now
}

// New makes a Tool. It does not connect. The caller must Close it.
func New(cfg *config.Config, opt Options) (*Tool, error) {
	machine, err := app.MachineConfig(cfg)
	if err != nil {
		return nil, err
	}
	b, err := app.NewBroker(cfg)
	if err != nil {
		return nil, err
	}
	s, err := app.NewStore(cfg)
	if err != nil {
		b.Close()
		return nil, err
	}
	tool := &Tool{cfg: cfg, store: s, registry: s, broker: b, machine: machine, progress: opt.Progress, now: opt.Now, oneClock: opt.Now != nil}
	if tool.progress == nil {
		tool.progress = func(string) {}
	}
	if tool.now == nil {
		tool.now = time.Now
	}
	return tool, nil
}

func (tool *Tool) Close() error {
	tool.broker.Close()
	return tool.store.Close()
}

func (tool *Tool) say(format string, args ...any) { tool.progress(fmt.Sprintf(format, args...)) }

// unlimited is the ranking size of machines that make no rankings.
const unlimited = 1 << 20

func (tool *Tool) newMachine(p int32) (*partition.Offline, error) {
	c := tool.machine
	c.Partition, c.MaxRankingBytes = p, unlimited
	return partition.NewOffline(c)
}

// view is a stored partition.
type view struct {
	number  int32
	meta    state.Meta
	fields  []state.Field
	machine *partition.Offline
}

// look reads a partition without taking it over.
func (tool *Tool) look(ctx context.Context, p int32) (*view, error) {
	m, err := tool.newMachine(p)
	if err != nil {
		return nil, err
	}
	v := &view{number: p, machine: m}
	err = state.Patiently(ctx, func() (err error) {
		v.meta, v.fields, err = tool.store.View(ctx, p, m.Hashes())
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, load(m, v.fields)
}

// lookForOutput is look for output to people or other groups: a state of another layout would be misread.
func (tool *Tool) lookForOutput(ctx context.Context, p int32) (*view, error) {
	m, _, err := tool.store.View(ctx, p, nil)
	if err != nil && !errors.Is(err, state.ErrIncomplete) {
		return nil, err
	}
	if err == nil {
		if err := task.CheckLayout(&m); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return tool.look(ctx, p)
}

func load(m *partition.Offline, fields []state.Field) error {
	for _, f := range fields {
		if err := m.Load(f); err != nil {
			return fmt.Errorf("loading field %.64q of %q: %w", f.Field, f.Hash, err)
		}
	}
	return m.Loaded()
}

// partitions returns the number of partitions in the group's state, as any cut says, else the topics'.
func (tool *Tool) partitions(ctx context.Context) (int, error) {
	cut, err := tool.anyCut(ctx)
	switch {
	case errors.Is(err, ErrNothing):
		return tool.topicPartitions(ctx)
	case err != nil:
		return 0, err
	}
	return cut.Partitions, nil
}

// anyCut returns the cut of the first partition that has one; it fails with ErrNothing if none has.
func (tool *Tool) anyCut(ctx context.Context) (*state.Meta, error) {
	n := 1
	for p := int32(0); p < int32(n); p++ {
		m, _, err := tool.store.View(ctx, p, nil)
		if err == nil {
			return &m, nil
		}
		if !errors.Is(err, state.ErrNoState) {
			return nil, err
		}
		if p == 0 { // it may never have been taken over
			if n, err = tool.topicPartitions(ctx); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("%w (%q)", ErrNothing, tool.cfg.Kafka.Group)
}

// topicPartitions returns the impressions' present number of partitions.
func (tool *Tool) topicPartitions(ctx context.Context) (int, error) {
	d, err := tool.describe(ctx, 0)
	if err != nil {
		return 0, err
	}
	f := &d.Topics[event.Impressions]
	if f.Missing {
		return 0, fmt.Errorf("topic %q does not exist", tool.broker.Topic(event.Impressions))
	}
	return f.Partitions, nil
}

func (tool *Tool) describe(ctx context.Context, p int32) (task.Description, error) {
	d, err := broker.Retry(ctx, tool.broker.Partition(p).Describe)
	if err != nil {
		return d, fmt.Errorf("describing the topics: %w", err)
	}
	return d, nil
}

var ErrNothing = errors.New("nothing is stored for this group")

func (tool *Tool) learner(name string) (*config.Learner, error) {
	if l := tool.cfg.Learner(name); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("no learner %q is configured", name)
}
