package stream

import (
	"context"
	"fmt"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Carry carries out a task's request that concerns the log or the store alone. Heartbeat, Acquire and Commit, which need
// a membership of the group, are the caller's own; they, and what is unknown, fail with task.ErrUnsupported. Describe does
// not ask whether the store is fit.
func Carry(ctx context.Context, log Log, store state.Store, p int32, e task.Effect) (any, error) {
	switch e := e.(type) {
	case task.Load:
		return store.Load(ctx, p, e.Hashes)
	case task.LookUp:
		f, values, err := store.LookUp(ctx, p, e.IDs, e.Room)
		return task.LookedUp{Fence: f, Values: values}, err
	case task.Due:
		f, entries, more, err := store.Due(ctx, p, e.UpTo, e.Limit, e.Room)
		return task.DueIDs{Fence: f, Entries: entries, More: more}, err
	case task.KnownIDs:
		ids, next, err := store.KnownIDs(ctx, p, e.Cursor)
		return task.Known{IDs: ids, Next: next}, err
	case task.Checkpoint:
		return nil, store.Checkpoint(ctx, p, e.Checkpoint)
	case task.Probe:
		return store.Probe(ctx, p)
	case task.InitProducer:
		return log.InitProducer(ctx, e)
	case task.AddPartition:
		return nil, log.AddPartition(ctx, e)
	case task.Retire:
		return nil, log.Retire(ctx, e)
	case task.AbortTxn:
		return nil, log.AbortTxn(ctx, e)
	case task.Describe:
		return log.Describe(ctx)
	case task.Committed:
		return log.Committed(ctx)
	case task.Fetch:
		return log.Fetch(ctx, e), nil
	case task.Produce:
		return log.Produce(ctx, e)
	}
	return nil, fmt.Errorf("%w: request %T", task.ErrUnsupported, e)
}
