package stream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// followEvery is how often the other partitions' statistics are asked for. What a payoff teaches one partition reaches
// the others within this and one checkpoint interval.
const followEvery = 250 * time.Millisecond

// follower pools statistics: it reads what the owners of all partitions publish at their checkpoints, wherever they
// run, and hands each loop the sums of the partitions that are not its own. Sums are absolute, so that one that comes
// twice, or an older one before a newer, does no harm. A partition that cannot be reached leaves its last sums in place.
//
// It is one goroutine per generation; it owns its fields.
type follower struct {
	store      state.Follower
	partitions int32
	loops      map[int32]*loop
	log        *slog.Logger

	at     map[int32]state.Fence      // by source: how far its deltas were read
	served map[int32]map[int32]uint64 // by source and loop: the load of the loop's machine that has had the whole
	failed map[int32]bool             // sources whose last try failed, so that a failure is logged once
	reader *partition.PublishedReader
}

func newFollower(w *Worker, partitions int, loops map[int32]*loop, log *slog.Logger) *follower {
	return &follower{store: w.opt.Follower, partitions: int32(partitions), loops: loops, log: log,
		at: map[int32]state.Fence{}, served: map[int32]map[int32]uint64{}, failed: map[int32]bool{},
		reader: partition.NewPublishedReader(w.opt.Machine.Learners, w.opt.Machine.Names)}
}

// run follows until ctx is done.
func (f *follower) run(ctx context.Context) {
	if f.store == nil || f.partitions < 2 {
		return
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		for source := range f.partitions {
			f.follow(ctx, source)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow brings the loops up to date with one source.
func (f *follower) follow(ctx context.Context, source int32) {
	err := f.sendDeltas(ctx, source)
	if err == nil || errors.Is(err, state.ErrGap) || errors.Is(err, state.ErrNoState) {
		if err != nil {
			delete(f.at, source) // read the whole next time
		} else {
			f.failed[source] = false
		}
		err = f.sendSums(ctx, source)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, state.ErrNoState) && !errors.Is(err, state.ErrIncomplete) {
		if !f.failed[source] {
			f.log.Warn("another partition's statistics cannot be followed; its last ones stay", "source", source, "error", err)
		}
		f.failed[source] = true
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
				if l.p != source && !l.offer(ctx, source, sums) {
					delete(f.served[source], l.p) // it has a gap: the whole again, should it still be there
				}
			}
			at = d.Fence
			f.at[source] = at
		}
	}
}

// sendSums hands all sums of a source to those loops whose machines have not had them yet.
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
	if len(due) == 0 {
		return nil
	}
	loads := make([]uint64, len(due))
	for i, l := range due {
		loads[i] = l.loads.Load()
	}
	asking, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	at, fields, err := f.store.Sums(asking, source, f.reader.Hashes())
	if err != nil {
		return err
	}
	if !known {
		f.at[source] = at
	}
	all := f.read(source, fields)
	telling := f.reader.Informative(all)
	for i, l := range due {
		sums := all
		if served[l.p] != loads[i] {
			sums = telling
		}
		if l.offer(ctx, source, sums) {
			served[l.p] = loads[i]
		}
	}
	return nil
}

// read takes published fields apart, once for all loops. What cannot be read is passed over: its writer may be newer
// than we are.
func (f *follower) read(source int32, fields []state.Field) []partition.Published {
	return f.reader.Read(source, fields, func(err error) {
		f.log.Debug("passing over what another partition published", "source", source, "error", err)
	})
}

// publishedBatch is what one source has published, for one loop. It is shared with other loops.
type publishedBatch struct {
	source int32
	all    []partition.Published
}

// publishedAtOnce bounds a batch, so that taking one in never keeps a loop from its partition for long.
const publishedAtOnce = 2000

// offer hands the loop what was published, waiting while it has other to take in; false when the loop has ended.
func (l *loop) offer(ctx context.Context, source int32, all []partition.Published) bool {
	for len(all) > 0 {
		n := min(len(all), publishedAtOnce)
		select {
		case l.sources <- publishedBatch{source, all[:n]}:
			all = all[n:]
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
		l.task.SetSource(b.source, &b.all[i])
	}
}
