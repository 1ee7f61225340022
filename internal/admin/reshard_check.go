package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// belongs fails unless a partition belongs to the state that is resharded.
func (f *resharding) belongs(p int32, m *state.Meta) error {
	if m.Partitions == f.from && slices.Equal(m.TopicNames, f.source.machine.TopicNames[:]) {
		return nil
	}
	return fmt.Errorf("partition %d is one of %d of topics %q, another of %d of %q: %w", p, m.Partitions, m.TopicNames, f.from,
		f.source.machine.TopicNames, errHalf)
}

var errHalf = errors.New("part of the state was resharded, and the prepared rest is gone: restore a backup, or " +
	"rebuild it with `ranker-worker state rebuild --replace`")

// whole fails if an unfinished reshard has left a partition that cannot be finished.
func (f *resharding) whole(ctx context.Context) error {
	for p := range int32(f.from) {
		m, _, err := f.tool.store.View(ctx, p, nil)
		if errors.Is(err, state.ErrNoState) {
			continue
		}
		if err == nil {
			err = f.belongs(p, &m)
		}
		if err == nil && m.Layout == task.StateUnfinished {
			err = fmt.Errorf("partition %d is locked by an interrupted reshard: run the command as it was run then; if that is of no "+
				"avail, %w", p, errHalf)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused returns the faults of the old state, and changes nothing. Unread records are not checked.
func (f *resharding) refused(ctx context.Context) error {
	var ids, astray int64
	for p := range int32(f.from) {
		v, err := f.lookAt(ctx, p)
		if errors.Is(err, state.ErrNoState) {
			continue
		}
		if err != nil {
			return err
		}
		to, err := f.tool.emptyMachine(p)
		if err == nil {
			err = partition.NewTransfer(v.machine, to, delay.Portion{}).Statistics()
		}
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		err = f.tool.entries(ctx, p, func(_ state.Page, e state.Entry) error {
			hash, known := partition.KeyHashOf(e.ID, e.Value)
			if ids++; known && partitionOf(hash, f.from) != p {
				astray++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := tooManyAstray(astray, ids); err != nil {
		return err
	}
	for p := int32(0); f.fresh && p < int32(f.to); p++ {
		d, err := f.tool.describe(ctx, p)
		if err != nil {
			return err
		}
		if err := f.unread(ctx, p, &d); err != nil {
			return err
		}
	}
	return nil
}

// tooManyAstray fails if too many ids are misplaced for an accident, or for the memory.
func tooManyAstray(astray, ids int64) error {
	if astray > maxMisplaced || astray >= manyMisplaced && 4*astray > ids {
		return fmt.Errorf("%w (%d of %d ids)", ErrPartitioner, astray, ids)
	}
	return nil
}

// gone fails if the inputs still hold the records that a partition has read.
func (tool *Tool) gone(ctx context.Context, v *view) error {
	d, err := tool.describe(ctx, v.number)
	if err != nil {
		return err
	}
	for t := range event.Topic(event.Inputs) {
		w, facts := v.meta.Inputs[t].Witness, &d.Topics[t]
		if w.Offset < 0 || w.Offset < facts.LogStart || w.Offset >= facts.End {
			continue
		}
		rec, err := tool.firstRecord(ctx, v.number, t, w.Offset, facts.End)
		if err != nil {
			return err
		}
		if rec != nil && task.Matches(w, rec) {
			return fmt.Errorf("%w (%s[%d] has the record at offset %d)", ErrNotRecreated, tool.broker.Topic(t), v.number, w.Offset)
		}
	}
	return nil
}

// unread fails if the group has read the new topics.
func (f *resharding) unread(ctx context.Context, p int32, d *task.Description) error {
	first, err := f.tool.firstDecision(ctx, p, d)
	if err != nil {
		return err
	}
	if first != nil {
		return fmt.Errorf("%w (%s[%d] holds decisions of it)", ErrReadBefore, f.tool.broker.Topic(event.Rankings), p)
	}
	if f.source == f.tool { // created again under the same names: committed offsets may be old
		return nil
	}
	offsets, err := f.tool.committed(ctx, p)
	if err != nil {
		return err
	}
	for t, offset := range offsets {
		if offset >= 0 {
			return fmt.Errorf("%w (it has committed offset %d of %s[%d])", ErrReadBefore, offset, f.tool.broker.Topic(event.Topic(t)), p)
		}
	}
	return nil
}
