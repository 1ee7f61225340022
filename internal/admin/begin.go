package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var ErrLost = errors.New("the group has run before, but its state is gone: rebuild it with `ranker-worker state rebuild`, " +
	"restore the store, or choose another kafka.group; then repeat the command")

// ErrTopics means that the topics' faults prevent a group from beginning.
var ErrTopics = errors.New("`ranker-worker topics` lists the topics' faults, and creates missing ones")

// beginMissing stores the first cut of partitions without state, as their first worker would:
// inputs begin where kafka.start says. It changes nothing unless all of them can begin. A worker
// that begins at the same time does no harm: the first stores the cut, the other finds it.
func (tool *Tool) beginMissing(ctx context.Context, n int32) error {
	fresh := map[int32]*state.Meta{}
	for p := range n {
		_, err := tool.store.Probe(ctx, p)
		if err == nil {
			continue
		}
		if !errors.Is(err, state.ErrNoState) {
			return err
		}
		if fresh[p], err = tool.firstCut(ctx, p, int(n)); err != nil {
			return err
		}
	}
	for p := range n {
		if fresh[p] == nil {
			continue
		}
		if _, err := tool.store.Acquire(ctx, p, 0, true, fresh[p]); err != nil {
			return fmt.Errorf("beginning partition %d: %w", p, err)
		}
	}
	return nil
}

// firstCut returns the first cut of a partition of a group that has never run; nil if a worker has begun it meanwhile.
func (tool *Tool) firstCut(ctx context.Context, p int32, n int) (*state.Meta, error) {
	d, err := tool.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	for t := range event.Topic(event.Topics) {
		f := &d.Topics[t]
		if used := t != event.Selections || tool.machine.HasSelections; used && (f.Missing || f.Partitions != n) {
			return nil, fmt.Errorf("topic %q has partition count %d instead of %d: %w", tool.broker.Topic(t), f.Partitions, n, ErrTopics)
		}
	}
	lost, err := tool.ranBefore(ctx, p, &d)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		// The signs may come from a worker that has just begun.
		if _, err := tool.store.Probe(ctx, p); !errors.Is(err, state.ErrNoState) {
			return nil, err
		}
		return nil, lost
	}
	return d.Beginning(tool.cfg.Kafka.Start == config.Latest), nil
}

// Lost returns the loss of a partition's state if the group has committed offsets there, else nil.
func Lost(b *broker.Client, p int32, committed []int64) error {
	for t, offset := range committed {
		if offset >= 0 {
			return fmt.Errorf("%w (it has committed offset %d of %s[%d])", ErrLost, offset, b.Topic(event.Topic(t)), p)
		}
	}
	return nil
}

// ranBefore looks for signs that the group has run.
func (tool *Tool) ranBefore(ctx context.Context, p int32, d *task.Description) (lost, err error) {
	offsets, err := tool.committed(ctx, p)
	if err != nil {
		return nil, err
	}
	if lost := Lost(tool.broker, p, offsets); lost != nil {
		return lost, nil
	}
	first, err := tool.firstDecision(ctx, p, d)
	if err == nil && first != nil {
		lost = fmt.Errorf("%w (%s[%d] holds decisions of it)", ErrLost, tool.broker.Topic(event.Rankings), p)
	}
	return lost, err
}
