package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// Shell executes requests. Each kind of request has a method, which returns the reply.
type Shell interface {
	Heartbeat() error
	Acquire(Acquire) (state.Meta, error)
	Load(Load) ([]state.Field, error)
	LookUp(LookUp) (LookedUp, error)
	Due(Due) (DueEntries, error)
	KnownIDs(KnownIDs) (Known, error)
	Checkpoint(Checkpoint) error
	Probe() (state.Fence, error)

	InitProducer(InitProducer) (Producer, error)
	AddPartition(AddPartition) error
	Retire(Retire) error
	AbortTxn(AbortTxn) error

	Describe() (Description, error)
	Committed() ([]int64, error) // by event.Topic of the inputs; -1: none
	Fetch(Fetch) (Fetched, error)
	Produce(Produce) (Produced, error)
	Commit(Commit) error
}

// replied is an effect whose reply is an R.
type replied[R any] interface{ by(Shell) (R, error) }

// nothing is an empty reply.
type nothing = struct{}

func (Heartbeat) by(s Shell) (r nothing, err error)      { return r, s.Heartbeat() }
func (e Acquire) by(s Shell) (state.Meta, error)         { return s.Acquire(e) }
func (e Load) by(s Shell) ([]state.Field, error)         { return s.Load(e) }
func (e LookUp) by(s Shell) (LookedUp, error)            { return s.LookUp(e) }
func (e Due) by(s Shell) (DueEntries, error)             { return s.Due(e) }
func (e KnownIDs) by(s Shell) (Known, error)             { return s.KnownIDs(e) }
func (e Checkpoint) by(s Shell) (r nothing, err error)   { return r, s.Checkpoint(e) }
func (Probe) by(s Shell) (state.Fence, error)            { return s.Probe() }
func (e InitProducer) by(s Shell) (Producer, error)      { return s.InitProducer(e) }
func (e AddPartition) by(s Shell) (r nothing, err error) { return r, s.AddPartition(e) }
func (e Retire) by(s Shell) (r nothing, err error)       { return r, s.Retire(e) }
func (e AbortTxn) by(s Shell) (r nothing, err error)     { return r, s.AbortTxn(e) }
func (Describe) by(s Shell) (Description, error)         { return s.Describe() }
func (Committed) by(s Shell) ([]int64, error)            { return s.Committed() }
func (e Fetch) by(s Shell) (Fetched, error)              { return s.Fetch(e) }
func (e Produce) by(s Shell) (Produced, error)           { return s.Produce(e) }
func (e Commit) by(s Shell) (r nothing, err error)       { return r, s.Commit(e) }

// Request is an effect that a task asks for. Every request gets exactly one
// reply through Task.Handle, in any order; after its deadline, an error.
type Request struct {
	ID      uint64
	Timeout time.Duration // the shell's deadline
	Do      Effect

	carry func(Shell) Reply
}

// Carry executes the request. It does not access the task, so any goroutine may call it.
func (r Request) Carry(s Shell) Reply { return r.carry(s) }

// Reply carries a result to the function that handles it.
type Reply struct {
	id   uint64
	take func()
}

// send makes a request. done gets a reply or an error.
func send[R any](t *Task, timeout time.Duration, e replied[R], done func(reply R, err error)) {
	t.nextID++
	id := t.nextID
	t.waiting[id] = t.incarnation
	t.requests = append(t.requests, Request{ID: id, Timeout: timeout, Do: e, carry: func(s Shell) Reply {
		r, err := e.by(s)
		return Reply{id, func() { done(r, err) }}
	}})
}

// ask sends e until it succeeds or fails for good; ok is called with the reply.
func ask[R any](t *Task, doing string, timeout time.Duration, e replied[R], ok func(reply R)) {
	t.doing = doing
	send(t, timeout, e, func(reply R, err error) {
		if err == nil {
			t.failures.clear(doing)
			ok(reply)
			return
		}
		t.failed(doing, err, func() { ask(t, doing, timeout, e, ok) })
	})
}

// read fetches once. An answer without progress ends no failure: a repeated read waits longer each time.
func (t *Task) read(doing string, timeout time.Duration, e Fetch, done func(f *Fetched, err error)) {
	t.doing = doing
	send(t, timeout, e, func(f Fetched, err error) {
		if err == nil && f.Next > e.Offset {
			t.failures.clear(doing)
		}
		done(&f, err)
	})
}

// Deadlines of single requests. Each is retried until it succeeds or the generation ends.
const (
	callTimeout = 5 * time.Second
	loadTimeout = time.Minute
)
