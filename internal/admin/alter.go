package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var (
	ErrLive = errors.New("the group has live members")
	// ErrConfirm means that something would be lost, which needs --yes.
	ErrConfirm = errors.New("nothing was changed: repeat with --yes")
)

// stopped fails if the coordinator knows a live worker of the group.
func (tool *Tool) stopped(ctx context.Context) error {
	g, err := broker.Retry(ctx, tool.broker.Group)
	if err != nil {
		return err
	}
	if len(g.Members) > 0 {
		return fmt.Errorf("%w: %d of %q (one from %s). Stop all workers, then repeat the command; a killed one "+
			"counts for another session timeout, 10 s", ErrLive, len(g.Members), tool.cfg.Kafka.Group, g.Members[0])
	}
	return tool.noneOutside(ctx)
}

// noneOutside fails if a worker stays outside of the group: the command may make it fit, and it would
// join while all workers must be stopped. It passes if the store's rights forbid announcements.
func (tool *Tool) noneOutside(ctx context.Context) error {
	workers, err := tool.registry.Workers(ctx)
	if err != nil && !errors.Is(err, state.ErrForbidden) {
		return fmt.Errorf("asking which workers stay outside of group %q: %w", tool.cfg.Kafka.Group, err)
	}
	workers = slices.DeleteFunc(workers, func(w state.WorkerInfo) bool { return !w.Outside })
	if len(workers) > 0 {
		return fmt.Errorf("%w: %s outside of %q would join. Stop them too, then repeat the command; a killed one "+
			"counts for another %v", ErrLive, plural.N(len(workers), "worker"), tool.cfg.Kafka.Group, state.WorkerCounts)
	}
	return nil
}

// alteration is a command's change of one partition.
type alteration struct {
	changes state.Changes
	drop    []string
	history History // number, time and offsets are filled in
}

// alter takes a partition over and applies the alteration that change returns, in one checkpoint. change gets the fields of meta and
// of the named hashes. Nothing is stored if it fails or returns nil. It fails with state.ErrNoState if the partition has no state.
func (tool *Tool) alter(ctx context.Context, p int32, hashes []string,
	change func(m *state.Meta, fields []state.Field) (*alteration, error)) error {
	before, _, err := tool.store.View(ctx, p, nil)
	if err != nil {
		return err
	}
	if err := task.CheckLayout(&before); err != nil { // an interrupted reshard would replace the partition
		return fmt.Errorf("partition %d: %w", p, err)
	}
	m, err := tool.store.Acquire(ctx, p, before.Generation, true, nil)
	if err != nil {
		return err
	}
	seen, fields, err := tool.store.View(ctx, p, hashes)
	if err != nil {
		return err
	}
	if seen.Fence != m.Fence {
		return fmt.Errorf("%w: a worker has started in the meantime; partition %d is unchanged", state.ErrFenced, p)
	}
	a, err := change(&m, fields)
	if err != nil || a == nil {
		return err
	}
	past, err := readHistory(fields)
	if err != nil {
		return err
	}
	if err := a.history.write(&a.changes, past, &m, tool.now()); err != nil {
		return err
	}
	w := writer{store: tool.store, p: p, meta: m}
	return w.write(ctx, a.changes, a.drop...)
}

// everyPartition calls do for each partition with state.
func (tool *Tool) everyPartition(ctx context.Context, do func(p int32) error) error {
	cut, err := tool.anyCut(ctx)
	if err != nil {
		return err
	}
	n := cut.Partitions
	for p := range int32(n) {
		if err := do(p); err != nil && !errors.Is(err, state.ErrNoState) {
			return err
		}
		tool.say("partition %d of %d is done", p, n)
	}
	return nil
}
