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

// Tool carries the commands out for one configuration.
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

// Options are what a configuration does not say.
type Options struct {
	// Progress is told in words, now and then, how a command goes on. It may be nil.
	Progress func(string)
	Now      func() time.Time // simulated time; nil: time.Now
}

// New makes a Tool. It connects to nothing yet. Close it in the end.
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

// Close releases connections.
func (tool *Tool) Close() error {
	tool.broker.Close()
	return tool.store.Close()
}

// say tells how it goes on.
func (tool *Tool) say(format string, args ...any) { tool.progress(fmt.Sprintf(format, args...)) }

// unlimited is what a ranking may take where no ranking is produced.
const unlimited = 1 << 20

// newMachine makes an empty machine of a partition.
func (tool *Tool) newMachine(p int32) (*partition.Offline, error) {
	c := tool.machine
	c.Partition, c.MaxRankingBytes = p, unlimited
	return partition.NewOffline(c)
}

// view is a partition as it is stored.
type view struct {
	number  int32
	meta    state.Meta
	fields  []state.Field
	machine *partition.Offline
}

// How often, and after how long, a partition is read again whose checkpoint is half-written.
const (
	incompleteTries = 50
	incompletePause = 20 * time.Millisecond
)

// look reads a partition without taking it over. A checkpoint that is half-written is waited for.
func (tool *Tool) look(ctx context.Context, p int32) (*view, error) {
	m, err := tool.newMachine(p)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		v := &view{number: p, machine: m}
		v.meta, v.fields, err = tool.store.View(ctx, p, m.Hashes())
		if errors.Is(err, state.ErrIncomplete) && try < incompleteTries {
			if err := sleep(ctx, incompletePause); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		return v, load(m, v.fields)
	}
}

// lookToTell is look for what is told to people or other groups: a state of another layout would be misread.
func (tool *Tool) lookToTell(ctx context.Context, p int32) (*view, error) {
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

// load fills a machine.
func load(m *partition.Offline, fields []state.Field) error {
	for _, f := range fields {
		if err := m.Load(f); err != nil {
			return fmt.Errorf("loading field %.64q of %q: %w", f.Field, f.Hash, err)
		}
	}
	return m.Loaded(0)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// partitions is how many partition numbers the group's state has: what any partition's cut says, else what the topics
// have. Stored tells whether a cut was found among the first.
func (tool *Tool) partitions(ctx context.Context) (n int, stored bool, err error) {
	cut, err := tool.anyCut(ctx)
	if err != nil {
		return 0, false, err
	}
	if cut != nil {
		return cut.Partitions, true, nil
	}
	n, err = tool.topicPartitions(ctx)
	return n, false, err
}

// anyCut is the cut of the first partition that has one, of as many as the topics have; nil where none has.
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
	return nil, nil
}

// topicPartitions is how many partitions the impressions have now.
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

// describe asks for the facts about a partition number of all topics.
func (tool *Tool) describe(ctx context.Context, p int32) (d task.Description, err error) {
	err = retry(ctx, func() error {
		d, err = tool.broker.Partition(p).Describe(ctx)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("describing the topics: %w", err)
	}
	return d, nil
}

// ErrNothing says that the group has no state.
var ErrNothing = errors.New("nothing is stored for this group")

// learner checks that a learner is configured.
func (tool *Tool) learner(name string) (*config.Learner, error) {
	for i := range tool.cfg.Learners {
		if l := &tool.cfg.Learners[i]; l.Name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no learner %q is configured", name)
}
