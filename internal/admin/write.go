package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// writer stores a partition from scratch, in checkpoints of bounded size. Only the last one makes it usable.
type writer struct {
	store   state.Store
	p       int32
	meta    state.Meta
	machine *partition.Offline // nil if changes come from elsewhere
}

func newWriter(ctx context.Context, store state.Store, p int32, fresh *state.Meta, m *partition.Offline) (*writer, error) {
	meta, err := store.Acquire(ctx, p, fresh.Generation, true, fresh)
	if err != nil {
		return nil, err
	}
	if meta.Layout != task.StateUnfinished {
		return nil, fmt.Errorf("%w: a worker has begun with it meanwhile: stop it and repeat the command", state.ErrFenced)
	}
	return &writer{store: store, p: p, meta: meta, machine: m}, nil
}

// find looks up an id.
func (w *writer) find(ctx context.Context, id state.ID) (partition.Found, error) {
	places := w.machine.Places(nil, id)
	_, values, err := w.store.LookUp(ctx, w.p, places, lookBytes)
	if err != nil {
		return partition.Found{}, err
	}
	for i, value := range values {
		if value != nil {
			return partition.Found{Page: places[i].Page, Value: value}, nil
		}
	}
	return partition.Found{}, nil
}

// writeAtOnce is the approximate size of a checkpoint in bytes.
const writeAtOnce = 4 << 20

func (w *writer) flushIfLarge(ctx context.Context) error {
	if _, bytes := w.machine.Dirty(); bytes < writeAtOnce {
		return nil
	}
	return w.flush(ctx)
}

func (w *writer) flush(ctx context.Context) error {
	var c state.Changes
	segment, _ := w.machine.Seal(&c)
	if err := w.write(ctx, c); err != nil {
		return err
	}
	w.machine.Forget(segment)
	return nil
}

func (w *writer) write(ctx context.Context, c state.Changes, drop ...string) error {
	m := w.meta
	err := w.store.Checkpoint(ctx, w.p, &state.Checkpoint{Fence: m.Fence, ID: fmt.Sprintf("%s-%d", m.Token, m.Seq+1), Meta: m, Changes: c, Drop: drop})
	if err == nil {
		w.meta.Seq++
	}
	return err
}

// shut locks a partition with state until it is finished or dropped: workers leave it
// alone. It fails with state.ErrFenced if the partition has changed since it was seen.
func (tool *Tool) shut(ctx context.Context, p int32, seen map[int32]int64) error {
	before, _, err := tool.store.View(ctx, p, nil)
	if errors.Is(err, state.ErrNoState) || err == nil && before.Layout == task.StateUnfinished {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := tool.store.Acquire(ctx, p, before.Generation, true, nil)
	if err != nil {
		return err
	}
	if seq, ok := seen[p]; ok && m.Seq != seq {
		return fmt.Errorf("%w: a worker has changed it meanwhile: stop it and repeat the command", state.ErrFenced)
	}
	w := writer{store: tool.store, p: p, meta: m}
	w.meta.Layout = task.StateUnfinished
	return w.write(ctx, state.Changes{})
}

// shutNew locks a partition without state, which workers would take for a beginning.
func (tool *Tool) shutNew(ctx context.Context, from *Tool, p int32) error {
	if _, err := tool.store.Probe(ctx, p); !errors.Is(err, state.ErrNoState) {
		return err
	}
	staged, _, err := from.store.View(ctx, p, nil)
	if err != nil {
		return err
	}
	staged.Layout = task.StateUnfinished
	_, err = tool.store.Acquire(ctx, p, staged.Generation, true, &staged)
	return err
}

// copyPartition replaces a partition by another tool's.
func (tool *Tool) copyPartition(ctx context.Context, from *Tool, p int32) error {
	v, err := from.look(ctx, p)
	if err != nil {
		return err
	}
	if err := tool.store.Drop(ctx, p, ""); err != nil {
		return err
	}
	fresh := v.meta
	fresh.Layout = task.StateUnfinished
	w, err := newWriter(ctx, tool.store, p, &fresh, nil)
	if err != nil {
		return err
	}
	var c state.Changes
	bytes := 0
	flush := func() error {
		if bytes < writeAtOnce {
			return nil
		}
		err := w.write(ctx, c)
		c, bytes = state.Changes{}, 0
		return err
	}
	for _, f := range v.fields {
		c.Writes = append(c.Writes, state.Write{Hash: f.Hash, Field: f.Field, Value: f.Value})
		bytes += len(f.Hash) + len(f.Field) + len(f.Value)
		if err := flush(); err != nil {
			return err
		}
	}
	last := uint32(0)
	err = from.entries(ctx, p, func(page state.Page, e state.Entry) error {
		if page.Number != last { // a page that spans two checkpoints begins once
			c.Pages, last = append(c.Pages, page), page.Number
		}
		c.Entries = append(c.Entries, e)
		bytes += len(e.ID) + len(e.Value) + 64
		return flush()
	})
	if err != nil {
		return err
	}
	w.meta.Layout = task.StateLayout
	return w.write(ctx, c)
}
