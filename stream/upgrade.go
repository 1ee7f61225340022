package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// upgrades convert a partition's stored state to task.StateLayout. There are none: version 1 is the first.
var upgrades = state.Upgrades{}

// upgrade converts all partitions' stored states to version to. It fails while a live worker announces a lower version
// and a state is lower. States without an upgrade path are skipped: the task that acquires one stops with the reason.
func upgrade(ctx context.Context, opt *Options, u state.Upgrades, to, partitions int) error {
	if len(u) == 0 {
		return nil
	}
	for p := range int32(partitions) {
		m, _, err := opt.Store.View(ctx, p, nil)
		if errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) || err == nil && (m.Layout >= to || m.Layout == task.StateUnfinished) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the version of the stored state: %w", err)
		}
		if err := noneLower(ctx, opt.Registry, to); err != nil {
			return err
		}
		if err := opt.Store.Fit(ctx, partitions); err != nil {
			return err
		}
		err = u.Run(ctx, opt.Store, p, to)
		switch {
		case err == nil:
			opt.Logger.Info("stored state upgraded", "partition", p, "from", m.Layout, "to", to)
		case !errors.Is(err, state.ErrVersion):
			return err
		}
	}
	return nil
}

// noneLower fails while a live worker reads a lower version than to. It passes if the store's rights forbid announcements.
func noneLower(ctx context.Context, r state.Registry, to int) error {
	if r == nil {
		return nil
	}
	all, err := r.Workers(ctx)
	if err != nil && !errors.Is(err, state.ErrForbidden) {
		return fmt.Errorf("reading which workers are alive: %w", err)
	}
	for i := range all {
		if all[i].Layout < to {
			return fmt.Errorf("the stored state is upgraded to version %d once all workers of a lower version have stopped: stop worker %s (%s)",
				to, all[i].ID, all[i].Version)
		}
	}
	return nil
}
