package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// world is a simulated Kafka partition, store and group coordinator, in which tasks, the real ones, live and die. One
// goroutine, one random source: a seed is a schedule.
type world struct {
	rng    *rand.Rand
	config func() Config // of the next process
	mono   time.Duration
	wall   event.Millis

	store     *memstore.Store
	other     *memstore.Store // beside it, while there are two
	rule      storeRule
	tokens    int
	nextToken string // instead of a fresh one
	copies    []copied
	downUntil time.Duration    // the store does not answer
	saved     []state.Position // of the last checkpoint

	broker
	generation int64
	committed  []int64

	procs  []*proc
	ghosts []ghost
	faults faults
	noise  bool // faults on

	forked       bool    // an abandoned copy was restored
	stepless     float64 // how many rankings lose the header with their steps
	elsewhere    map[string]bool
	rightAt      time.Duration               // when all clocks are right again
	oneAt        time.Duration               // when there is one store again
	lag          [event.Inputs]time.Duration // how long fetches of a topic may take
	unsavedBound int64                       // 0: not checked
	seen         sightings
	violation    error
	checkpointed func(*state.Checkpoint)
	restored     func() // the store has gone back
}

// copied is a backup of the store. It is dropped when an earlier one is restored: history differs from there on.
type copied struct {
	memstore.Copy
	abandoned bool
}

// sightings count events, to show that a kind of schedule lives up to its name.
type sightings struct {
	full, rollbacks, renewals, refusedForSize, fences      int
	forgotten, foreign, disbelieved, clocks, splits, waits int
}

// proc is one process that holds, or believes it holds, the partition.
type proc struct {
	task   *Task
	gen    int64
	flying []flying
	paused bool
	shown  state.Fence         // the fence that a store with a weaker rule shows it
	skew   int64               // of its clock, in milliseconds
	aside  bool                // it talks to the other store
	epochs [event.Inputs]int32 // of the leaders that it knows
}

type flying struct {
	Request
	notBefore time.Duration
	done      bool
	reply     Reply
}

// ghost is a request that its sender has given up, and that arrives nevertheless.
type ghost struct {
	p *proc
	Request
}

// faults are probabilities per scheduling step, and per request.
type faults struct {
	crash, pause, resume, reassign, rollback, down float64
	relapse                                        float64 // a crash in the middle of a replay
	fail, lose, late, slow, stuck                  float64
	clock, split, amnesia, foreign                 float64
}

func newWorld(seed uint64, config func(*rand.Rand) Config) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), wall: 1_800_000_000_000, committed: []int64{-1, -1, -1}}
	w.config = func() Config { return config(w.rng) }
	w.broker = newBroker(w)
	w.store = memstore.New(w.token)
	return w
}

func (w *world) token() string {
	if w.nextToken != "" {
		return w.nextToken
	}
	w.tokens++
	return fmt.Sprintf("token-%d", w.tokens)
}

func (w *world) now(p *proc) Now { return Now{w.mono, w.wall + p.skew} }

func (w *world) pass(d time.Duration) {
	w.mono += d
	w.wall += d.Milliseconds()
}

// start begins a generation with a new process as its owner.
func (w *world) start() *proc {
	w.generation++
	p := &proc{task: New(w.config()), gen: w.generation, epochs: w.epochs}
	if w.other != nil {
		p.aside = w.rng.IntN(2) == 0
	}
	p.task.Elsewhere(partition.Elsewhere{Learners: w.elsewhere})
	w.procs = append(w.procs, p)
	return p
}

func (w *world) owner() *proc {
	for _, p := range w.procs {
		if p.gen == w.generation {
			return p
		}
	}
	return nil
}

// step lets one thing happen.
func (w *world) step() {
	if w.noise {
		w.fault()
	}
	w.pass(time.Duration(w.rng.IntN(20)) * time.Millisecond)
	if len(w.procs) == 0 {
		w.start()
	}
	p := w.procs[w.rng.IntN(len(w.procs))]
	if o := w.owner(); o != nil && w.rng.IntN(2) == 0 {
		p = o
	}
	switch w.rng.IntN(3) {
	case 0:
		if !p.paused {
			w.advance(p)
		}
	case 1: // the network delivers a request, whatever its sender does
		if k := w.pick(p, false); k >= 0 {
			w.execute(p, k)
		}
	case 2: // and a reply
		if k := w.pick(p, true); k >= 0 && !p.paused {
			f := p.flying[k]
			p.flying = slices.Delete(p.flying, k, k+1)
			p.task.Handle(w.now(p), f.reply)
			if w.rng.IntN(3) > 0 {
				w.advance(p)
			}
		}
	}
	if len(w.ghosts) > 0 && w.rng.IntN(10) == 0 {
		k := w.rng.IntN(len(w.ghosts))
		g := w.ghosts[k]
		w.ghosts = slices.Delete(w.ghosts, k, k+1)
		g.Carry(shell{w, g.p})
	}
}

func (w *world) advance(p *proc) {
	requests, _ := p.task.Advance(w.now(p))
	for _, r := range requests {
		f := flying{Request: r}
		if fetch, ok := r.Do.(Fetch); ok && w.noise && fetch.Topic < event.Inputs {
			if lag := w.lag[fetch.Topic]; lag > 0 {
				f.notBefore = w.mono + time.Duration(w.rng.Int64N(int64(lag)))
			}
		}
		if w.noise && (ofStore(r.Do) && w.chance(w.faults.slow) || ofProducer(r.Do) && w.chance(w.faults.stuck)) {
			f.notBefore = w.mono + time.Duration(w.rng.IntN(3000))*time.Millisecond
		}
		p.flying = append(p.flying, f)
	}
	s := progressOf(p.task)
	if s.Full {
		w.seen.full++
	}
	if p.task.run != nil && p.task.run.queues[event.Payoffs].waits != nil {
		w.seen.waits++
	}
	if ahead := s.Watermark - w.wall; ahead > p.task.cfg.ClockBound.Milliseconds() {
		w.violate("event time is %d ms ahead of the time that it is", ahead)
	}
	if w.unsavedBound > 0 && s.Unsaved > w.unsavedBound {
		w.violate("%d bytes are unsaved, more than %d", s.Unsaved, w.unsavedBound)
	}
	if s.Phase == Stopped && w.noise {
		w.violate("stopped (%s): %w", s.Reason, s.Err)
	}
	w.bury(p)
}

func (w *world) violate(format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf(format, args...)
	}
}

// bury removes a process that has ended.
func (w *world) bury(p *proc) {
	if p.task.Phase() == Done && len(p.flying) == 0 {
		w.procs = slices.DeleteFunc(w.procs, func(q *proc) bool { return q == p })
	}
}

func (w *world) pick(p *proc, done bool) int {
	var at []int
	for i := range p.flying {
		if p.flying[i].done == done && p.flying[i].notBefore <= w.mono {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return -1
	}
	return at[w.rng.IntN(len(at))]
}

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

func (w *world) fault() {
	f := &w.faults
	o := w.owner()
	if w.chance(f.down) {
		w.downUntil = w.mono + time.Duration(w.rng.IntN(20_000))*time.Millisecond
	}
	switch {
	case w.chance(f.crash) && o != nil, o != nil && o.task.Phase() == Replaying && w.chance(f.relapse):
		// The process dies; its requests may still arrive, or not.
		o.paused, o.gen = true, -1
		if w.chance(0.5) {
			w.procs = slices.DeleteFunc(w.procs, func(q *proc) bool { return q == o })
		}
		w.start()
	case w.chance(f.pause) && o != nil:
		o.paused = true
	case w.chance(f.resume):
		for _, p := range w.procs {
			if p.gen >= 0 {
				p.paused = false
			}
		}
	case w.chance(f.reassign):
		if o != nil && w.chance(0.5) {
			o.task.Drain()
		}
		w.start()
	case w.chance(f.clock) && w.rightAt == 0 && w.timesKnown():
		w.wrongClock(o)
	case w.rightAt > 0 && w.mono >= w.rightAt:
		w.rightClocks()
	case w.chance(f.split) && w.other == nil && w.saved != nil:
		w.seen.splits++
		w.other = memstore.New(w.token)
		w.other.Restore(0, w.store.Copy(0))
		w.oneAt = w.mono + time.Duration(w.rng.IntN(10_000))*time.Millisecond
		for _, p := range w.procs {
			p.aside = w.rng.IntN(2) == 0
		}
	case w.other != nil && w.mono >= w.oneAt:
		w.oneStore()
	case w.chance(f.amnesia):
		w.forget()
	case w.chance(f.foreign) && w.saved != nil:
		w.foreign([]int64{1_000_000_000, int64(len(w.inputs[event.Impressions])), int64(w.rng.IntN(len(w.inputs[event.Impressions]) + 1))}[w.rng.IntN(3)])
	case w.chance(f.rollback) && len(w.copies) > 0:
		back := w.rng.IntN(len(w.copies))
		if w.rng.IntN(2) == 0 {
			back = min(back, w.rng.IntN(4))
		}
		w.rollback(back)
	}
	if len(w.procs) > 6 { // zombies do not live for ever
		w.procs = slices.DeleteFunc(w.procs, func(p *proc) bool { return p.gen != w.generation && w.chance(0.3) })
	}
}

// rollback restores the last copy of the store but so many.
func (w *world) rollback(back int) {
	w.seen.rollbacks++
	at := len(w.copies) - 1 - back
	w.forked = w.forked || w.copies[at].abandoned
	w.store.Restore(0, w.copies[at].Copy)
	for i := at + 1; i < len(w.copies); i++ {
		w.copies[i].abandoned = true
	}
	if w.restored != nil {
		w.restored()
	}
}

// wrongClock sets one clock, of the owner or of the broker, by seconds, hours or years, for a while.
func (w *world) wrongClock(o *proc) {
	w.seen.clocks++
	by := []time.Duration{time.Second, time.Minute, time.Hour, 10 * 365 * 24 * time.Hour}[w.rng.IntN(4)].Milliseconds()
	by += w.rng.Int64N(by) // two clocks are not wrong by the same
	if w.rng.IntN(2) == 0 {
		by = -by
	}
	if o != nil && w.rng.IntN(2) == 0 {
		o.skew = by
	} else {
		w.skew = by
	}
	w.rightAt = w.mono + time.Duration(w.rng.IntN(5000))*time.Millisecond
}

// timesKnown reports whether no process has a wrong idea of Kafka's time: one clock is wrong at a time.
func (w *world) timesKnown() bool {
	return !slices.ContainsFunc(w.procs, func(p *proc) bool {
		c := &p.task.clock
		by := c.at + (w.mono - c.mono).Milliseconds() - w.wall
		return !c.known || by > 2000 || by < -2000
	})
}

func (w *world) rightClocks() {
	w.rightAt, w.skew = 0, 0
	for _, p := range w.procs {
		p.skew = 0
	}
}

// oneStore ends the time of two stores: either survives.
func (w *world) oneStore() {
	if w.other == nil {
		return
	}
	if w.rng.IntN(2) == 0 {
		w.store.Restore(0, w.other.Copy(0))
	}
	w.other = nil
	for _, p := range w.procs {
		p.aside = false
	}
}

// storeOf is the store that a process talks to.
func (w *world) storeOf(p *proc) *memstore.Store {
	if p.aside && w.other != nil {
		return w.other
	}
	return w.store
}

var (
	errMoved  = errors.New("sim: the leader has changed")
	errFailed = errors.New("sim: the request did not arrive")
	errLost   = errors.New("sim: the reply was lost")
)

func (w *world) execute(p *proc, k int) {
	f := &p.flying[k]
	f.done = true
	switch {
	case w.noise && (w.chance(w.faults.fail) || ofStore(f.Do) && w.mono < w.downUntil):
		f.reply = f.Carry(broken{errFailed})
		return
	case w.noise && w.chance(w.faults.late):
		f.reply = f.Carry(broken{errLost})
		w.ghosts = append(w.ghosts, ghost{p, f.Request})
		return
	}
	f.reply = f.Carry(shell{w, p})
	if w.noise && w.chance(w.faults.lose) {
		f.reply = f.Carry(broken{errLost})
	}
}

func ofProducer(e Effect) bool {
	_, produce := e.(Produce)
	return produce
}

func ofStore(e Effect) bool {
	switch e.(type) {
	case Acquire, Load, LookUp, Due, KnownIDs, Checkpoint, Probe:
		return true
	}
	return false
}

// shell carries out the requests of a process.
type shell struct {
	w *world
	p *proc
}

func (s shell) Heartbeat() error {
	if s.p.gen != s.w.generation {
		return ErrGenerationOver
	}
	return nil
}

func (s shell) Commit(e Commit) error {
	if s.p.gen == s.w.generation {
		copy(s.w.committed, e.Offsets)
	}
	return nil
}

func (s shell) Committed() ([]int64, error) { return slices.Clone(s.w.committed), nil }

func (s shell) InitProducer(e InitProducer) (Producer, error) { return s.w.initProducer(e.Producer) }

func (s shell) AddPartition(e AddPartition) error { return s.w.addPartition(e.Producer) }

func (s shell) AbortTxn(e AbortTxn) error { return s.w.abortTxn(e.Producer) }

func (s shell) Retire(e Retire) error {
	s.w.retire(e.ProducerID)
	return nil
}

func (s shell) Describe() (Description, error) {
	s.p.epochs = s.w.epochs
	return s.w.describe(), nil
}

func (s shell) Fetch(e Fetch) (Fetched, error) {
	if e.Topic < event.Inputs && s.p.epochs[e.Topic] != s.w.epochs[e.Topic] {
		return Fetched{}, errMoved // until the metadata is asked for again, which the client does at once
	}
	return s.w.fetch(e)
}

func (s shell) Produce(e Produce) (Produced, error) { return s.w.produce(e) }

// room is how much a reply holds: at times as if records were large.
func (w *world) room(room int64) int64 {
	if !w.noise || w.rng.IntN(4) > 0 {
		return room
	}
	return 1 + w.rng.Int64N(min(room, 2000))
}

var inMemory = context.Background() // the store in memory never waits

func (s shell) store() *memstore.Store { return s.w.storeOf(s.p) }

func (s shell) Load(e Load) ([]state.Field, error) { return s.store().Load(inMemory, 0, e.Hashes) }

func (s shell) LookUp(e LookUp) (LookedUp, error) {
	f, v, err := s.store().LookUp(inMemory, 0, e.Places, s.w.room(e.Room))
	return LookedUp{s.w.rule.show(s.p, f), v}, err
}

func (s shell) Due(e Due) (DueEntries, error) {
	f, d, more, err := s.store().Due(inMemory, 0, e.UpTo, e.Limit, s.w.room(e.Room))
	return DueEntries{s.w.rule.show(s.p, f), d, more}, err
}

func (s shell) KnownIDs(e KnownIDs) (Known, error) {
	ids, next, err := s.store().KnownIDs(inMemory, 0, e.Cursor)
	return Known{ids, next}, err
}

func (s shell) Checkpoint(e Checkpoint) error {
	w := s.w
	err := s.store().Checkpoint(inMemory, 0, w.rule.claim(w, s.p, e.Checkpoint))
	if err == nil {
		w.saved = e.Checkpoint.Meta.Inputs
	}
	if err == nil && w.checkpointed != nil {
		w.checkpointed(e.Checkpoint)
	}
	if err == nil && w.chance(0.2) {
		w.copies = append(w.copies, copied{Copy: s.store().Copy(0)})
	}
	return err
}

func (s shell) Probe() (state.Fence, error) {
	f, err := s.store().Probe(inMemory, 0)
	return s.w.rule.show(s.p, f), err
}

func (s shell) Acquire(e Acquire) (state.Meta, error) {
	w := s.w
	w.nextToken = ""
	if f, err := s.store().Probe(inMemory, 0); w.rule == epochCounter {
		n := 0
		if err == nil {
			_, _ = fmt.Sscanf(f.Token, "epoch-%d", &n)
		}
		w.nextToken = fmt.Sprintf("epoch-%d", n+1)
	}
	m, err := s.store().Acquire(inMemory, 0, max(s.p.gen, 0), e.Force, e.Fresh)
	if err == nil {
		s.p.shown = m.Fence
	}
	return m, err
}

// storeRule is a store's check of its writers. All but the first are known to be too weak.
type storeRule uint8

const (
	tokenAndSeq storeRule = iota
	tokenAlone
	seqAlone
	epochCounter // a token counted up from the stored one, without a sequence
)

// show returns the fence that a reader sees: parts that the rule ignores look as expected.
func (r storeRule) show(p *proc, f state.Fence) state.Fence {
	switch {
	case r == seqAlone:
		f.Token = p.shown.Token
	case r != tokenAndSeq && f.Token == p.shown.Token:
		f.Seq = p.shown.Seq
	}
	return f
}

// claim makes a checkpoint fit in the parts that the rule ignores.
func (r storeRule) claim(w *world, p *proc, c *state.Checkpoint) *state.Checkpoint {
	f, err := w.storeOf(p).Probe(inMemory, 0)
	if err != nil || r == tokenAndSeq {
		return c
	}
	if r == seqAlone && f.Seq == c.Fence.Seq || r != seqAlone && f.Token == c.Fence.Token {
		p.shown.Seq = c.Fence.Seq + 1
		fits := *c
		fits.Fence = f
		return &fits
	}
	return c
}

var _ state.Store = (*memstore.Store)(nil)
