package stream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// followEvery is the interval at which other partitions' statistics are read. A
// payoff's lesson reaches other partitions within this and one checkpoint interval, unless rounds take longer.
const followEvery = 250 * time.Millisecond

// keepUp is the longest time without a look at known sources while others are read whole, which takes seconds with
// many items. A delta stream reaches back over a few hundred checkpoints, at up to ten a second; a reader that
// comes later must read the whole again. Without this a worker with many partitions and items would do so for ever.
const keepUp = 5 * time.Second

// follower pools statistics: it reads the fields that the owners of all partitions publish at their checkpoints,
// and feeds them to the worker's PooledState. Sums are absolute, so repeated or late ones do no harm. A source that cannot be read keeps its last sums.
//
// It is one goroutine per generation, which owns its fields and the reader; others wait for Redis on its behalf.
type follower struct {
	store      state.Follower
	partitions int32
	pooled     *pooledState
	log        *slog.Logger

	at     map[int32]state.Fence // by source: position in its delta stream
	failed map[int32]error       // sources that could not be read in this round
	waits  *waits
	since  time.Time     // origin of the times of waits
	round  []publication // read, and not fed to the PooledState yet
	size   int           // of round
	looked time.Time     // last look at all known sources
}

type publication struct {
	source int32
	all    []partition.Published
	at     state.Fence
}

func newFollower(w *Worker, partitions int, log *slog.Logger) *follower {
	return &follower{store: w.opt.Follower, partitions: int32(partitions), pooled: w.pooled, log: log,
		at: w.pooled.of.Epoch().At, failed: map[int32]error{}, waits: w.waits, since: w.start}
}

func (f *follower) run(ctx context.Context) {
	if f.store == nil || f.partitions < 2 {
		return
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			began := time.Now()
			f.once(ctx)
			next.Reset(pauseAfter(time.Since(began)))
		case <-ctx.Done():
			return
		}
	}
}

// pauseAfter returns the time between a round and the next one. A round has its costs for all partitions, so on a busy machine rounds take a
// third of the time. But sources must be looked at again within keepUp: a round that reads many whole is followed at once.
func pauseAfter(took time.Duration) time.Duration {
	return max(followEvery-took, min(2*took, keepUp-took))
}

func (f *follower) once(ctx context.Context) {
	clear(f.failed)
	f.look(ctx)
	for source := range f.partitions {
		if _, known := f.at[source]; known {
			continue
		}
		f.noteFailed(ctx, source, f.sendSums(ctx, source))
		if time.Since(f.looked) >= keepUp {
			f.look(ctx)
		}
	}
	f.sayFailed()
	f.flush()
}

// sourcesAtOnce is the number of sources that are asked at the same time. On a busy machine each answer waits for its turn.
const sourcesAtOnce = 8

// look feeds the deltas that known sources have published since the last look. Later ones are for the next look: a source may publish as
// fast as it is read. A source without a continuation is known no longer.
func (f *follower) look(ctx context.Context) {
	f.looked = time.Now()
	for sources := range slices.Chunk(slices.Sorted(maps.Keys(f.at)), sourcesAtOnce) {
		var answers [sourcesAtOnce]struct {
			deltas []state.Delta
			err    error
		}
		var asked sync.WaitGroup
		for k, source := range sources {
			after := f.at[source]
			asked.Go(func() {
				asking, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				answers[k].deltas, answers[k].err = f.store.Deltas(asking, source, after)
			})
		}
		asked.Wait()
		for k, source := range sources {
			err := answers[k].err
			if errors.Is(err, state.ErrGap) || errors.Is(err, state.ErrNoState) {
				delete(f.at, source)
			}
			f.noteFailed(ctx, source, err)
			f.sendDeltas(source, answers[k].deltas)
		}
	}
}

func (f *follower) noteFailed(ctx context.Context, source int32, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, state.ErrGap) || errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) {
		return // the next turn makes up for it
	}
	f.failed[source] = err
}

// sayFailed logs the sources that could not be read in this round, one line per cause.
func (f *follower) sayFailed() {
	now := time.Since(f.since)
	seen := map[waitKey][]int32{}
	for _, source := range slices.Sorted(maps.Keys(f.failed)) {
		key := keyOf(followerWaits, "", f.failed[source])
		seen[key] = append(seen[key], source)
	}
	for _, sources := range seen {
		f.waits.note(now, followerWaits, "", sources, f.failed[sources[0]])
	}
}

func (f *follower) sendDeltas(source int32, deltas []state.Delta) {
	for _, d := range deltas {
		sums := f.read(source, d.Fields)
		f.at[source] = d.Fence
		f.round = append(f.round, publication{source, sums, d.Fence})
		if f.size += len(sums); f.size >= roundAtMost {
			f.flush()
		}
	}
}

// sendSums feeds a source's whole to the PooledState.
func (f *follower) sendSums(ctx context.Context, source int32) error {
	asking, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	at, fields, err := f.store.Sums(asking, source, f.pooled.reader.Hashes())
	if err != nil {
		return err
	}
	f.resync(source, f.read(source, fields), at)
	f.at[source] = at
	return nil
}

// flush feeds the read publications to the PooledState.
func (f *follower) flush() {
	if len(f.round) == 0 {
		return
	}
	f.pooled.update(func(k *partition.PooledState) {
		for i := range f.round {
			t := &f.round[i]
			k.Update(t.source, t.all)
			k.Reached(t.source, t.at)
		}
	})
	clear(f.round)
	f.round, f.size = f.round[:0], 0
}

// resync feeds a source's whole to the PooledState, in parts, so that no loop waits long.
func (f *follower) resync(source int32, all []partition.Published, at state.Fence) {
	f.flush() // earlier deltas must come first
	if len(all) <= publishedAtOnce {
		f.pooled.update(func(k *partition.PooledState) {
			k.BeginResync(source, at)
			k.Update(source, all)
			k.Whole(source, at)
		})
		return
	}
	f.pooled.update(func(k *partition.PooledState) { k.BeginResync(source, at) })
	for part := range slices.Chunk(all, publishedAtOnce) {
		f.pooled.update(func(k *partition.PooledState) { k.Update(source, part) })
	}
	f.pooled.update(func(k *partition.PooledState) { k.Whole(source, at) })
}

// read parses published fields once for all. Unreadable ones are ignored: their writer may run another version.
func (f *follower) read(source int32, fields []state.Field) []partition.Published {
	return f.pooled.reader.Read(source, fields, func(err error) {
		f.log.Debug("ignoring a field that another partition published", "source", source, "error", err)
	})
}

// Both bound a batch, and so the time for which it keeps loops from their partitions: a few ms, and some 40 ms. Most
// rounds are one batch, since each batch begins an epoch, in which each partition looks at all its fresh items.
const (
	publishedAtOnce = partition.PublishedAtOnce // of a source that is read whole
	roundAtMost     = 8 * publishedAtOnce
)
