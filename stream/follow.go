package stream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// followEvery is how often the other partitions' statistics are asked for. What a payoff teaches one partition reaches
// the others within this and one checkpoint interval.
const followEvery = 250 * time.Millisecond

// keepUp is after how long those sources that are known are looked at again while others are read whole, which takes seconds where there
// are many items: a stream reaches back over a few hundred checkpoints, ten of them a second at the most, and whoever comes later has to
// read the whole again. Were it not for this, a worker that begins with many partitions and items would do so for ever.
const keepUp = 5 * time.Second

// follower pools statistics: it reads what the owners of all partitions publish at their checkpoints, wherever they
// run, and tells it to the worker's knowledge; and, for learners that do not share that, hands each loop what the partitions that are not
// its own have published. Sums are absolute, so that one that comes
// twice, or an older one before a newer, does no harm. A partition that cannot be reached leaves its last sums in place.
//
// It is one goroutine per generation; it owns its fields, and the knowledge's reader.
type follower struct {
	store      state.Follower
	partitions int32
	loops      map[int32]*loop // of learners that do not share; empty where all do
	knowledge  *knowledge
	log        *slog.Logger

	at     map[int32]state.Fence      // by source: how far its deltas were read
	served map[int32]map[int32]uint64 // by source and loop: the load of the loop's machine that has had the whole
	failed map[int32]error            // of this round: sources that could not be read
	waits  *waits
	since  time.Time     // when waits' time began
	round  []publication // read, and not told to the knowledge yet
	size   int           // of round
	now    func() time.Time
	looked time.Time // when all sources that are known were looked at last
}

// publication is what a source has published up to a checkpoint.
type publication struct {
	source int32
	all    []partition.Published
	at     state.Fence
}

func newFollower(w *Worker, partitions int, loops map[int32]*loop, log *slog.Logger) *follower {
	f := &follower{store: w.opt.Follower, partitions: int32(partitions), knowledge: w.knowledge, log: log,
		at: w.knowledge.of.Epoch().At, served: map[int32]map[int32]uint64{}, failed: map[int32]error{}, waits: w.waits, since: w.start, now: time.Now}
	if w.knowledge.of.Others() {
		f.loops = loops
	}
	return f
}

// run follows until ctx is done.
func (f *follower) run(ctx context.Context) {
	if f.store == nil || f.partitions < 2 {
		return
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		f.once(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// once looks at all sources, and tells what there is.
func (f *follower) once(ctx context.Context) {
	f.looked = f.now()
	clear(f.failed)
	for source := range f.partitions {
		f.follow(ctx, source)
		if f.now().Sub(f.looked) >= keepUp {
			f.looked = f.now()
			for known := range f.partitions {
				f.noteFailed(ctx, known, f.sendDeltas(ctx, known))
			}
		}
	}
	f.sayFailed()
	f.tell()
}

// follow reads on in what one source publishes.
func (f *follower) follow(ctx context.Context, source int32) {
	err := f.sendDeltas(ctx, source)
	if err == nil || errors.Is(err, state.ErrGap) || errors.Is(err, state.ErrNoState) {
		if err != nil {
			delete(f.at, source) // read the whole next time
		}
		err = f.sendSums(ctx, source)
	}
	f.noteFailed(ctx, source, err)
}

// noteFailed notes that a source could not be read.
func (f *follower) noteFailed(ctx context.Context, source int32, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, state.ErrGap) || errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) {
		return // which is made up for at the next turn
	}
	f.failed[source] = err
}

// sayFailed says which sources could not be read in this round, in one line for all that have failed alike.
func (f *follower) sayFailed() {
	now := f.now().Sub(f.since)
	seen := map[waitKey][]int32{}
	for _, source := range slices.Sorted(maps.Keys(f.failed)) {
		key := keyOf(followerWaits, "", f.failed[source])
		seen[key] = append(seen[key], source)
	}
	for _, sources := range seen {
		f.waits.note(now, followerWaits, "", sources, f.failed[sources[0]])
	}
}

// sendDeltas hands out what was published since the last time.
func (f *follower) sendDeltas(ctx context.Context, source int32) error {
	at, ok := f.at[source]
	if !ok {
		return nil
	}
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		deltas, err := f.store.Deltas(asking, source, at)
		cancel()
		if err != nil || len(deltas) == 0 {
			return err
		}
		for _, d := range deltas {
			sums := f.read(source, d.Fields)
			for _, l := range f.loops {
				if l.p != source && !l.offer(ctx, sums, partition.ImportDelta, source, d.Fence) {
					delete(f.served[source], l.p) // it has a gap: the whole again, should it still be there
				}
			}
			at = d.Fence
			f.at[source] = at
			f.round = append(f.round, publication{source, sums, at})
			if f.size += len(sums); f.size >= publishedAtOnce {
				f.tell()
			}
		}
	}
}

// sendSums hands all sums of a source to the knowledge, where it is not known whole, and to those loops whose machines have not had them yet.
func (f *follower) sendSums(ctx context.Context, source int32) error {
	if f.served[source] == nil {
		f.served[source] = map[int32]uint64{}
	}
	served := f.served[source]
	_, known := f.at[source]
	var due []*loop
	for p, l := range f.loops {
		if load := l.loads.Load(); p != source && load > 0 && (!known || served[p] != load) {
			due = append(due, l)
		}
	}
	if known && len(due) == 0 {
		return nil
	}
	loads := make([]uint64, len(due))
	for i, l := range due {
		loads[i] = l.loads.Load()
	}
	asking, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	at, fields, err := f.store.Sums(asking, source, f.knowledge.reader.Hashes())
	if err != nil {
		return err
	}
	all := f.read(source, fields)
	if !known {
		f.resync(source, all, at)
		f.at[source] = at
	}
	telling := f.knowledge.reader.Informative(all)
	for i, l := range due {
		sums, mode := all, partition.ImportAll
		if served[l.p] != loads[i] {
			sums, mode = telling, partition.ImportInformative
		}
		if l.offer(ctx, sums, mode, source, at) {
			served[l.p] = loads[i]
		}
	}
	return nil
}

// tell tells the knowledge what has been read since the last time.
func (f *follower) tell() {
	if len(f.round) == 0 {
		return
	}
	f.knowledge.tell(func(k *partition.PooledState) {
		for i := range f.round {
			t := &f.round[i]
			k.Tell(t.source, t.all)
			k.Reached(t.source, t.at)
		}
	})
	clear(f.round)
	f.round, f.size = f.round[:0], 0
}

// resync tells the knowledge all that a source has published, in parts, so that no loop waits for long.
func (f *follower) resync(source int32, all []partition.Published, at state.Fence) {
	f.tell() // what was read before must not come behind it
	if len(all) <= publishedAtOnce {
		f.knowledge.tell(func(k *partition.PooledState) {
			k.BeginResync(source, at)
			k.Tell(source, all)
			k.Whole(source, at)
		})
		return
	}
	f.knowledge.tell(func(k *partition.PooledState) { k.BeginResync(source, at) })
	for part := range slices.Chunk(all, publishedAtOnce) {
		f.knowledge.tell(func(k *partition.PooledState) { k.Tell(source, part) })
	}
	f.knowledge.tell(func(k *partition.PooledState) { k.Whole(source, at) })
}

// read takes published fields apart, once for all. What cannot be read is passed over: its writer may be newer
// than we are.
func (f *follower) read(source int32, fields []state.Field) []partition.Published {
	return f.knowledge.reader.Read(source, fields, func(err error) {
		f.log.Debug("passing over what another partition published", "source", source, "error", err)
	})
}

// publishedBatch is what one source has published, for one loop. It is shared with other loops.
type publishedBatch struct {
	of  partition.Import
	all []partition.Published
}

// publishedAtOnce bounds a batch, so that taking one in never keeps a loop from its partition for long.
const publishedAtOnce = partition.PublishedAtOnce

// offer hands the loop what was published, all of it as of a checkpoint or what that has changed, waiting while the loop has other to
// take in; false when the loop has ended. Of a change of nothing that learners pool it is told, too: so that changes follow each other.
func (l *loop) offer(ctx context.Context, all []partition.Published, mode partition.ImportMode, source int32, at state.Fence) bool {
	of := partition.Import{Source: source, Mode: mode, Writer: partition.WriterOf(at.Token), Seq: at.Seq}
	for !of.Last {
		n := min(len(all), publishedAtOnce)
		of.Last = n == len(all)
		select {
		case l.sources <- publishedBatch{of, all[:n]}:
			all = all[n:]
			of.Part++
		case <-l.ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// takePublished hands the task a batch.
func (l *loop) takePublished(b publishedBatch) {
	for i := range b.all {
		l.task.SetSource(b.of.Source, &b.all[i])
	}
	l.task.Imported(b.of)
}
