package keep

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

// Keeper carries the commands out for one configuration.
type Keeper struct {
	cfg      *config.Config
	store    state.Keeper
	broker   *broker.Client
	machine  partition.Config
	progress func(string)
	now      func() time.Time
	oneClock bool // time is simulated
}

// Options are what a configuration does not say.
type Options struct {
	// Progress is told in words how a command goes on, now and then; nil: nobody is.
	Progress func(string)
	Now      func() time.Time // simulated time; nil: time.Now
}

// New makes a Keeper. It connects to nothing yet. Close it in the end.
func New(cfg *config.Config, opt Options) (*Keeper, error) {
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
	k := &Keeper{cfg: cfg, store: s, broker: b, machine: machine, progress: opt.Progress, now: opt.Now, oneClock: opt.Now != nil}
	if k.progress == nil {
		k.progress = func(string) {}
	}
	if k.now == nil {
		k.now = time.Now
	}
	return k, nil
}

// Close releases connections.
func (k *Keeper) Close() error {
	k.broker.Close()
	return k.store.Close()
}

// say tells how it goes on.
func (k *Keeper) say(format string, args ...any) { k.progress(fmt.Sprintf(format, args...)) }

// unlimited is what a ranking may take where no ranking is produced.
const unlimited = 1 << 20

// newMachine makes an empty machine of a partition.
func (k *Keeper) newMachine(p int32) (*partition.Machine, error) {
	c := k.machine
	c.Partition, c.MaxRankingBytes = p, unlimited
	return partition.New(c)
}

// view is a partition as it is stored.
type view struct {
	number  int32
	meta    state.Meta
	fields  []state.Field
	machine *partition.Machine
}

// look reads a partition without taking it over. A checkpoint that is half-written is waited for.
func (k *Keeper) look(ctx context.Context, p int32) (*view, error) {
	m, err := k.newMachine(p)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		v := &view{number: p, machine: m}
		v.meta, v.fields, err = k.store.View(ctx, p, m.Hashes())
		if errors.Is(err, state.ErrIncomplete) && try < 50 {
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
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

// load fills a machine.
func load(m *partition.Machine, fields []state.Field) error {
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
func (k *Keeper) partitions(ctx context.Context) (n int, stored bool, err error) {
	cut, err := k.anyCut(ctx)
	if err != nil {
		return 0, false, err
	}
	if cut != nil {
		return cut.Partitions, true, nil
	}
	n, err = k.topicPartitions(ctx)
	return n, false, err
}

// anyCut is the cut of the first partition that has one, of as many as the topics have; nil where none has.
func (k *Keeper) anyCut(ctx context.Context) (*state.Meta, error) {
	n := 1
	for p := int32(0); p < int32(n); p++ {
		m, _, err := k.store.View(ctx, p, nil)
		if err == nil {
			return &m, nil
		}
		if !errors.Is(err, state.ErrNoState) {
			return nil, err
		}
		if p == 0 { // it may never have been taken over
			if n, err = k.topicPartitions(ctx); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// topicPartitions is how many partitions the impressions have now.
func (k *Keeper) topicPartitions(ctx context.Context) (int, error) {
	d, err := k.describe(ctx, 0)
	if err != nil {
		return 0, err
	}
	f := &d.Topics[event.Impressions]
	if f.Missing {
		return 0, fmt.Errorf("topic %q does not exist", k.broker.Topic(event.Impressions))
	}
	return f.Partitions, nil
}

// describe asks for the facts about a partition number of all topics.
func (k *Keeper) describe(ctx context.Context, p int32) (d task.Description, err error) {
	err = insist(ctx, func() error {
		d, err = k.broker.Partition(p).Describe(ctx)
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
func (k *Keeper) learner(name string) (*config.Learner, error) {
	for i := range k.cfg.Learners {
		if l := &k.cfg.Learners[i]; l.Name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no learner %q is configured", name)
}
