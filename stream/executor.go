package stream

import (
	"context"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Executor carries out one request of a task, where it concerns the log or the store alone. Heartbeat, Acquire and Commit, which
// need a membership of the group, are left to the shell that embeds it. Describe does not ask whether the store is fit.
type Executor struct {
	Ctx       context.Context // the request's
	Log       Log
	Store     state.Store
	Partition int32
}

// Load reads the stored state.
func (c Executor) Load(e task.Load) ([]state.Field, error) {
	return c.Store.Load(c.Ctx, c.Partition, e.Hashes)
}

// LookUp reads what lies at places.
func (c Executor) LookUp(e task.LookUp) (task.LookedUp, error) {
	f, values, err := c.Store.LookUp(c.Ctx, c.Partition, e.Places, e.Room)
	return task.LookedUp{Fence: f, Values: values}, err
}

// Due reads what is due.
func (c Executor) Due(e task.Due) (task.DueEntries, error) {
	f, entries, more, err := c.Store.Due(c.Ctx, c.Partition, e.UpTo, e.Limit, e.Room)
	return task.DueEntries{Fence: f, Entries: entries, More: more}, err
}

// KnownIDs reads ids under which something is stored.
func (c Executor) KnownIDs(e task.KnownIDs) (task.Known, error) {
	pages, next, err := c.Store.KnownIDs(c.Ctx, c.Partition, e.Cursor)
	return task.Known{Pages: pages, Next: next}, err
}

// Checkpoint saves.
func (c Executor) Checkpoint(e task.Checkpoint) error {
	return c.Store.Checkpoint(c.Ctx, c.Partition, e.Checkpoint)
}

// Probe reads the stored fence.
func (c Executor) Probe() (state.Fence, error) { return c.Store.Probe(c.Ctx, c.Partition) }

// InitProducer raises the producer's epoch.
func (c Executor) InitProducer(e task.InitProducer) (task.Producer, error) {
	return c.Log.InitProducer(c.Ctx, e)
}

// AddPartition adds our partitions to a transaction.
func (c Executor) AddPartition(e task.AddPartition) error { return c.Log.AddPartition(c.Ctx, e) }

// Retire makes the brokers refuse a producer id.
func (c Executor) Retire(e task.Retire) error { return c.Log.Retire(c.Ctx, e) }

// AbortTxn aborts the transaction.
func (c Executor) AbortTxn(e task.AbortTxn) error { return c.Log.AbortTxn(c.Ctx, e) }

// Describe asks for the topics' facts.
func (c Executor) Describe() (task.Description, error) { return c.Log.Describe(c.Ctx) }

// Committed asks for the group's offsets.
func (c Executor) Committed() ([]int64, error) { return c.Log.Committed(c.Ctx) }

// Fetch reads a topic.
func (c Executor) Fetch(e task.Fetch) (task.Fetched, error) { return c.Log.Fetch(c.Ctx, e) }

// Produce appends a batch.
func (c Executor) Produce(e task.Produce) (task.Produced, error) { return c.Log.Produce(c.Ctx, e) }
