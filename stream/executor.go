package stream

import (
	"context"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Executor executes the requests of a task that need the log or the store only. Heartbeat, Acquire and Commit need
// a group membership and belong to the shell that embeds it. Its Describe does not check the store's fitness.
type Executor struct {
	Ctx       context.Context // of the request
	Log       Log
	Store     state.Store
	Partition int32
}

func (c Executor) Load(e task.Load) ([]state.Field, error) {
	return c.Store.Load(c.Ctx, c.Partition, e.Hashes)
}

func (c Executor) LookUp(e task.LookUp) (task.LookedUp, error) {
	f, values, err := c.Store.LookUp(c.Ctx, c.Partition, e.Places, e.Room)
	return task.LookedUp{Fence: f, Values: values}, err
}

func (c Executor) Due(e task.Due) (task.DueEntries, error) {
	f, entries, more, err := c.Store.Due(c.Ctx, c.Partition, e.UpTo, e.Limit, e.Room)
	return task.DueEntries{Fence: f, Entries: entries, More: more}, err
}

func (c Executor) KnownIDs(e task.KnownIDs) (task.Known, error) {
	pages, next, err := c.Store.KnownIDs(c.Ctx, c.Partition, e.Cursor)
	return task.Known{Pages: pages, Next: next}, err
}

func (c Executor) Checkpoint(e task.Checkpoint) error {
	return c.Store.Checkpoint(c.Ctx, c.Partition, e.Checkpoint)
}

func (c Executor) Probe() (state.Fence, error) { return c.Store.Probe(c.Ctx, c.Partition) }

func (c Executor) InitProducer(e task.InitProducer) (task.Producer, error) {
	return c.Log.InitProducer(c.Ctx, e)
}

func (c Executor) AddPartition(e task.AddPartition) error { return c.Log.AddPartition(c.Ctx, e) }

func (c Executor) Retire(e task.Retire) error { return c.Log.Retire(c.Ctx, e) }

func (c Executor) AbortTxn(e task.AbortTxn) error { return c.Log.AbortTxn(c.Ctx, e) }

func (c Executor) Describe() (task.Description, error) { return c.Log.Describe(c.Ctx) }

func (c Executor) Committed() ([]int64, error) { return c.Log.Committed(c.Ctx) }

func (c Executor) Fetch(e task.Fetch) (task.Fetched, error) { return c.Log.Fetch(c.Ctx, e) }

func (c Executor) Produce(e task.Produce) (task.Produced, error) { return c.Log.Produce(c.Ctx, e) }
