package task

import (
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// Shell carries requests out. Each kind of request has a method here, which returns the reply.
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
	Committed() ([]int64, error) // by event.Topic of the inputs; -1 for none
	Fetch(Fetch) (Fetched, error)
	Produce(Produce) (Produced, error)
	Commit(Commit) error
}

// replied is an effect whose reply is an R.
type replied[R any] interface {
	Effect
	by(Shell) (R, error)
}

// nothing is the reply of what is only done.
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

func (Heartbeat) effect()    {}
func (Acquire) effect()      {}
func (Load) effect()         {}
func (LookUp) effect()       {}
func (Due) effect()          {}
func (KnownIDs) effect()     {}
func (Checkpoint) effect()   {}
func (Probe) effect()        {}
func (InitProducer) effect() {}
func (AddPartition) effect() {}
func (Retire) effect()       {}
func (AbortTxn) effect()     {}
func (Describe) effect()     {}
func (Committed) effect()    {}
func (Fetch) effect()        {}
func (Produce) effect()      {}
func (Commit) effect()       {}

// Request is what a task wants done. Every request has exactly one reply, which Task.Handle takes: in any order, also
// after the deadline has passed (with an error).
type Request struct {
	ID      uint64
	Timeout time.Duration // the shell's deadline for it
	Do      Effect

	carry func(Shell) Reply
}

// Carry lets the shell do what is asked for. It touches nothing of the task, so that any goroutine may call it.
func (r Request) Carry(s Shell) Reply { return r.carry(s) }

// Reply is what came of a request, on its way to the function that takes it.
type Reply struct {
	id   uint64
	take func()
}

// send makes a request. Exactly one of reply and err counts.
func send[R any](t *Task, timeout time.Duration, e replied[R], done func(reply R, err error)) {
	t.nextID++
	id := t.nextID
	t.waiting[id] = t.incarnation
	t.requests = append(t.requests, Request{ID: id, Timeout: timeout, Do: e, carry: func(s Shell) Reply {
		r, err := e.by(s)
		return Reply{id, func() { done(r, err) }}
	}})
}

// ask sends e until it is answered without an error that passes; ok is called with the reply.
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

// read fetches a piece of a log.
func (t *Task) read(doing string, timeout time.Duration, e Fetch, done func(f *Fetched, err error)) {
	t.doing = doing
	send(t, timeout, e, func(f Fetched, err error) {
		if err == nil {
			t.failures.clear(doing)
		}
		done(&f, err)
	})
}

// Deadlines of single requests. Each is tried again until it succeeds or the generation ends.
const (
	callTimeout = 5 * time.Second
	loadTimeout = time.Minute
)
