package task

import "github.com/ranker-worker/ranker-worker/state"

// broken is a shell that fails at all that it is asked for.
type broken struct{ err error }

func (b broken) Heartbeat() error                            { return b.err }
func (b broken) Acquire(Acquire) (r state.Meta, err error)   { return r, b.err }
func (b broken) Load(Load) ([]state.Field, error)            { return nil, b.err }
func (b broken) LookUp(LookUp) (r LookedUp, err error)       { return r, b.err }
func (b broken) Due(Due) (r DueEntries, err error)           { return r, b.err }
func (b broken) KnownIDs(KnownIDs) (r Known, err error)      { return r, b.err }
func (b broken) Checkpoint(Checkpoint) error                 { return b.err }
func (b broken) Probe() (r state.Fence, err error)           { return r, b.err }
func (b broken) InitProducer(InitProducer) (Producer, error) { return Producer{}, b.err }
func (b broken) AddPartition(AddPartition) error             { return b.err }
func (b broken) Retire(Retire) error                         { return b.err }
func (b broken) AbortTxn(AbortTxn) error                     { return b.err }
func (b broken) Describe() (r Description, err error)        { return r, b.err }
func (b broken) Committed() ([]int64, error)                 { return nil, b.err }
func (b broken) Fetch(Fetch) (r Fetched, err error)          { return r, b.err }
func (b broken) Produce(Produce) (r Produced, err error)     { return r, b.err }
func (b broken) Commit(Commit) error                         { return b.err }
