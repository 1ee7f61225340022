package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/memstore"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// world is a simulated Kafka partition, store and group coordinator, in which tasks, the real ones, live and die. One
// goroutine, one random source: a seed is a schedule.
type world struct {
	rng   *rand.Rand
	cfg   Config
	mono  time.Duration
	wall  event.Millis
	store *memstore.Store

	inputs     [event.Inputs][]logged
	rankings   []logged
	letters    [event.Inputs][]logged
	txn        Producer
	txnOpen    bool
	lastTxn    Producer // before the last bump that its owner asked for
	producers  map[producerKey]*producerState
	generation int64
	committed  [event.Inputs]int64

	procs  []*proc
	copies []memstore.Copy
	faults faults
	noise  bool // faults on
	log    []string
}

type logged struct {
	key, value []byte
	timestamp  event.Millis
	marker     bool
	producer   Producer
}

type producerKey struct {
	topic   event.Topic
	letters bool
	id      int64
}

type producerState struct {
	epoch    int16
	next     int32
	lastSeq  int32
	lastN    int
	lastBase int64
}

// proc is one process that holds, or believes it holds, the partition.
type proc struct {
	task   *Task
	gen    int64
	flying []flying
	paused bool
}

type flying struct {
	id    uint64
	do    Effect
	done  bool
	reply any
	err   error
}

// faults are probabilities per scheduling step, and per request.
type faults struct {
	crash, pause, resume, reassign, rollback float64
	fail, lose                               float64
}

func newWorld(seed uint64, cfg Config) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), cfg: cfg, wall: 1_800_000_000_000,
		producers: map[producerKey]*producerState{}, txn: Producer{4000, -1}, committed: [event.Inputs]int64{-1, -1, -1}}
	tokens := 0
	w.store = memstore.New(func() string { tokens++; return fmt.Sprintf("token-%d", tokens) })
	return w
}

func (w *world) now() Now { return Now{w.mono, w.wall} }

func (w *world) pass(d time.Duration) {
	w.mono += d
	w.wall += d.Milliseconds()
}

func (w *world) append(topic event.Topic, key, value []byte) {
	w.inputs[topic] = append(w.inputs[topic], logged{key: key, value: value, timestamp: w.wall})
}

// start begins a generation with a new process as its owner.
func (w *world) start() *proc {
	w.generation++
	p := &proc{task: New(w.cfg), gen: w.generation}
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
	switch w.rng.IntN(3) {
	case 0:
		if !p.paused {
			requests, _ := p.task.Advance(w.now())
			for _, r := range requests {
				p.flying = append(p.flying, flying{id: r.ID, do: r.Do})
			}
			w.bury(p)
		}
	case 1: // the network delivers a request, whatever its sender does
		if k := w.pick(p, false); k >= 0 {
			w.execute(p, k)
		}
	case 2: // and a reply
		if k := w.pick(p, true); k >= 0 && !p.paused {
			f := p.flying[k]
			p.flying = slices.Delete(p.flying, k, k+1)
			p.task.Handle(w.now(), f.id, f.reply, f.err)
		}
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
		if p.flying[i].done == done {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return -1
	}
	return at[w.rng.IntN(len(at))]
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) fault() {
	f := &w.faults
	o := w.owner()
	switch {
	case w.chance(f.crash) && o != nil:
		// The process dies; what it has sent may still arrive, or not.
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
	case w.chance(f.rollback) && len(w.copies) > 0:
		w.store.Restore(w.cfg.Partition, w.copies[w.rng.IntN(len(w.copies))])
	}
	if len(w.procs) > 6 { // zombies do not live for ever
		w.procs = slices.DeleteFunc(w.procs, func(p *proc) bool { return p.gen != w.generation && w.chance(0.3) })
	}
}

var (
	errFailed = errors.New("sim: the request did not arrive")
	errLost   = errors.New("sim: the reply was lost")
)

func (w *world) execute(p *proc, k int) {
	f := &p.flying[k]
	f.done = true
	if w.noise && w.chance(w.faults.fail) {
		f.err = errFailed
		return
	}
	f.reply, f.err = w.effect(p, f.do)
	if w.noise && w.chance(w.faults.lose) {
		f.reply, f.err = nil, errLost
	}
}

func (w *world) effect(p *proc, e Effect) (any, error) {
	ctx, part := context.Background(), w.cfg.Partition
	switch e := e.(type) {
	case Heartbeat:
		if p.gen != w.generation {
			return nil, ErrGenerationOver
		}
		return nil, nil
	case Acquire:
		return w.store.Acquire(ctx, part, max(p.gen, 0), e.Force, e.Fresh)
	case Load:
		return w.store.Load(ctx, part, e.Hashes)
	case LookUp:
		f, v, err := w.store.LookUp(ctx, part, e.IDs)
		return LookedUp{f, v}, err
	case Due:
		f, d, err := w.store.Due(ctx, part, e.UpTo, e.Limit)
		return DueIDs{f, d}, err
	case KnownIDs:
		ids, next, err := w.store.KnownIDs(ctx, part, e.Cursor)
		return Known{ids, next}, err
	case Checkpoint:
		err := w.store.Checkpoint(ctx, part, e.Checkpoint)
		if err == nil && w.chance(0.2) {
			w.copies = append(w.copies, w.store.Copy(part))
		}
		return nil, err
	case Probe:
		return w.store.Probe(ctx, part)
	case InitProducer:
		return w.initProducer(e.Producer)
	case AddPartition:
		if e.Producer != w.txn {
			return nil, ErrFenced
		}
		w.txnOpen = true
		return nil, nil
	case AbortTxn:
		if e.Producer != w.txn {
			return nil, ErrFenced
		}
		w.abort()
		return nil, nil
	case Describe:
		return w.describe(), nil
	case Committed:
		return w.committed[:], nil
	case Fetch:
		return w.fetch(e), nil
	case Produce:
		return w.produce(e)
	case Commit:
		if p.gen == w.generation {
			copy(w.committed[:], e.Offsets)
		}
		return nil, nil
	}
	return nil, fmt.Errorf("%w: %T", ErrUnsupported, e)
}

func (w *world) initProducer(p Producer) (any, error) {
	if p.ID >= 0 && p == w.lastTxn && w.lastTxn.ID == w.txn.ID && !w.txnOpen {
		return w.txn, nil // a repeated request whose reply was lost
	}
	if p.ID >= 0 && p != w.txn {
		return nil, ErrFenced
	}
	if w.txnOpen {
		w.abort()
		return nil, errors.New("sim: concurrent transactions")
	}
	w.lastTxn = Producer{-1, -1}
	if p.ID >= 0 {
		w.lastTxn = w.txn
	}
	w.txn.Epoch++
	return w.txn, nil
}

func (w *world) abort() {
	if !w.txnOpen {
		return
	}
	w.txnOpen = false
	w.rankings = append(w.rankings, logged{marker: true, producer: w.txn, timestamp: w.wall})
	k := producerKey{event.Rankings, false, w.txn.ID}
	w.producers[k] = &producerState{epoch: w.txn.Epoch, lastBase: -1}
}

func (w *world) describe() Description {
	d := Description{ClusterID: "sim", Topics: make([]TopicFacts, event.Topics)}
	for i := range d.Topics {
		d.Topics[i] = TopicFacts{Partitions: 1, LogAppendTime: true, MaxMessageBytes: 1 << 20, DeadLetters: true}
		d.Topics[i].End = int64(len(w.topic(event.Topic(i))))
	}
	return d
}

func (w *world) topic(t event.Topic) []logged {
	if t == event.Rankings {
		return w.rankings
	}
	return w.inputs[t]
}

func (w *world) fetch(f Fetch) []Fetched {
	var all []Fetched
	for _, part := range f.Parts {
		log := w.topic(part.Topic)
		got := Fetched{Topic: part.Topic, Next: part.Offset, High: int64(len(log))}
		if part.Offset > got.High {
			got.Err = ErrOffsetOutOfRange
		}
		for n := 0; got.Next < got.High && n < 1+w.rng.IntN(20); n++ {
			l := log[got.Next]
			if l.marker {
				got.Markers = append(got.Markers, Marker{got.Next, l.producer, true})
			} else {
				got.Records = append(got.Records, partition.Record{Topic: part.Topic, Offset: got.Next,
					Timestamp: l.timestamp, Key: l.key, Value: l.value})
			}
			got.Next++
		}
		got.LastRead = got.Next == got.High
		all = append(all, got)
	}
	return all
}

func (w *world) produce(p Produce) (any, error) {
	k := producerKey{p.Topic, p.DeadLetters, p.Producer.ID}
	s := w.producers[k]
	if s == nil {
		s = &producerState{epoch: p.Producer.Epoch, lastBase: -1}
		w.producers[k] = s
	}
	switch {
	case p.Producer.Epoch < s.epoch:
		return nil, ErrFenced
	case p.Producer.Epoch > s.epoch && p.Sequence != 0:
		return nil, ErrSequence
	case p.Producer.Epoch > s.epoch:
		*s = producerState{epoch: p.Producer.Epoch, lastBase: -1}
	}
	if s.lastBase >= 0 && p.Sequence == s.lastSeq && len(p.Messages) == s.lastN {
		return Produced{s.lastBase}, nil
	}
	if p.Sequence != s.next {
		return nil, ErrSequence
	}
	log := &w.rankings
	if p.DeadLetters {
		log = &w.letters[p.Topic]
	}
	s.lastSeq, s.lastN, s.lastBase = p.Sequence, len(p.Messages), int64(len(*log))
	s.next = advance(s.next, len(p.Messages))
	for _, m := range p.Messages {
		*log = append(*log, logged{key: slices.Clone(m.Key), value: slices.Clone(m.Value), timestamp: w.wall})
	}
	return Produced{s.lastBase}, nil
}

var _ state.Store = (*memstore.Store)(nil)
