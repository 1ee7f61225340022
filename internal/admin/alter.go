package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var (
	// ErrLive says that workers are running that should not.
	ErrLive = errors.New("the group has live members")
	// ErrConfirm says that something would be given up, which needs --yes.
	ErrConfirm = errors.New("nothing was changed: repeat with --yes")
)

// patience is how long passing errors of the log are sat out.
const patience = 15 * time.Second

// retry repeats what can fail in passing, such as a leader that is just being elected.
func retry(ctx context.Context, try func() error) error {
	for end := time.Now().Add(patience); ; {
		err := try()
		if err == nil || ctx.Err() != nil || time.Now().After(end) || errors.Is(err, task.ErrUnsupported) {
			return err
		}
		if sleep(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

// stopped makes sure that no worker of the group is alive, as far as the coordinator knows.
func (tool *Tool) stopped(ctx context.Context) error {
	group := tool.cfg.Kafka.Group
	var members int
	var client string
	err := retry(ctx, func() error {
		res, err := tool.broker.Kafka().DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return err
		}
		for _, g := range res.Groups {
			if g.Error != nil && !errors.Is(g.Error, kafka.GroupIdNotFound) {
				return g.Error
			}
			if members = len(g.Members); members > 0 {
				client = g.Members[0].ClientHost
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("asking for the members of group %q: %w", group, err)
	}
	if members > 0 {
		return fmt.Errorf("%w: %d of %q (one from %s). Stop all workers, then repeat the command; a killed one "+
			"counts for another session timeout, 10 s", ErrLive, members, group, client)
	}
	return tool.noneOutside(ctx)
}

// noneOutside makes sure that no worker stays outside of the group for a while: what the command does may make it fit to work, and it would
// join in the middle of what needs all of them stopped. Where the store's rights forbid workers to tell each other, nobody knows.
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

// alteration is what a command makes of one partition.
type alteration struct {
	changes state.Changes
	drop    []string
	history History // number, time and offsets are filled in
}

// alter takes a partition over and replaces its cut by one that differs in what change gives, all in one checkpoint. The
// hashes named are among the fields that change gets, with those of meta. Nothing is stored if change fails, or gives
// nil. It fails with state.ErrNoState where the partition has none.
func (tool *Tool) alter(ctx context.Context, p int32, hashes []string,
	change func(m *state.Meta, fields []state.Field) (*alteration, error)) error {
	before, _, err := tool.store.View(ctx, p, nil)
	if err != nil {
		return err
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
	h := &a.history
	h.Number, h.Time, h.Rankings = m.Seq+1, tool.now().UTC().Format(time.RFC3339), m.Rankings
	for _, in := range m.Inputs {
		h.Offsets = append(h.Offsets, in.Offset)
	}
	if err := h.Write(&a.changes, past); err != nil {
		return err
	}
	return tool.store.Checkpoint(ctx, p, &state.Checkpoint{Fence: m.Fence, ID: fmt.Sprintf("%s-%d", m.Token, m.Seq+1), Meta: m,
		Changes: a.changes, Drop: a.drop})
}

// everyPartition does something to each stored partition. Those without state are passed over.
func (tool *Tool) everyPartition(ctx context.Context, do func(p int32) error) error {
	n, stored, err := tool.partitions(ctx)
	if err != nil {
		return err
	}
	if !stored {
		return fmt.Errorf("%w (%q)", ErrNothing, tool.cfg.Kafka.Group)
	}
	for p := range int32(n) {
		if err := do(p); err != nil && !errors.Is(err, state.ErrNoState) {
			return err
		}
		tool.say("partition %d of %d is done", p, n)
	}
	return nil
}
