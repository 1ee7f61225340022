package stream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// published is a state.Follower with two partitions' published fields.
type published struct {
	mu     sync.Mutex
	deltas map[int32][]state.Delta
	gap    bool // the stream has been lost once
}

func (p *published) Sums(_ context.Context, source int32, _ []string) (state.Fence, []state.Field, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.deltas[source]
	var fields []state.Field
	for _, d := range all {
		fields = append(fields, d.Fields...)
	}
	return state.Fence{Token: "t", Seq: int64(len(all))}, fields, nil
}

func (p *published) Deltas(ctx context.Context, source int32, after state.Fence) ([]state.Delta, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gap {
		p.gap = false
		return nil, state.ErrGap
	}
	return p.deltas[source][after.Seq:], ctx.Err()
}

func (p *published) add(source int32, item string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := int64(len(p.deltas[source]) + 1)
	p.deltas[source] = append(p.deltas[source], state.Delta{Fence: state.Fence{Token: "t", Seq: seq}, Fields: []state.Field{{
		Hash: "feed:items", Field: []byte(item), Value: fmt.Appendf(nil, `{"no":0,"n":%d,"sum":0,"sumsq":0}`, n)}}})
}

// TestFollower_FeedsEachDelta: whatever is published reaches the pooled state, also over a lost stream.
func TestFollower_FeedsEachDelta(t *testing.T) {
	p := &published{deltas: map[int32][]state.Delta{}}
	f := &follower{store: p, pooled: newPooledState(&partition.Config{Names: newSharedNames()}), partitions: 2, log: slog.New(slog.DiscardHandler),
		at: map[int32]state.Fence{}, failed: map[int32]error{}, waits: newWaits(nil)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := 1; n <= 200; n++ {
		p.add(0, "a", n)
		p.add(1, "b", n)
		p.gap = n%50 == 0
		for range 2 { // a lost stream is noticed first, and made up for then at the latest
			f.once(ctx)
		}
		for source := range int32(2) {
			at, known := f.pooled.of.At(source)
			require.True(t, known, "delta %d", n)
			require.EqualValues(t, n, at.Seq)
		}
	}
}

// slow is a state.Follower of many sources that publish all the time, of which each takes a second to be read whole, and whose
// streams reach 25 seconds back.
type slow struct{ wholes int }

const reach = 25 // seconds

func (s *slow) Sums(context.Context, int32, []string) (state.Fence, []state.Field, error) {
	at := state.Fence{Token: "t", Seq: time.Now().Unix()}
	time.Sleep(time.Second) // on the clock of synctest
	s.wholes++
	return at, nil, nil
}

func (s *slow) Deltas(_ context.Context, _ int32, after state.Fence) ([]state.Delta, error) {
	switch now := time.Now().Unix(); {
	case now-after.Seq > reach:
		return nil, state.ErrGap
	case now > after.Seq:
		return []state.Delta{{Fence: state.Fence{Token: "t", Seq: now}}}, nil
	}
	return nil, nil
}

func (s *slow) follower(sources int32) *follower {
	return &follower{store: s, pooled: newPooledState(&partition.Config{Names: newSharedNames()}), partitions: sources,
		log: slog.New(slog.DiscardHandler), at: map[int32]state.Fence{}, failed: map[int32]error{}, waits: newWaits(nil)}
}

// TestFollower_KeepsUp: reading all sources whole may take longer than their streams reach back; each is read whole once, all the same.
func TestFollower_KeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sources = 4 * reach
		s := &slow{}
		f := s.follower(sources)
		ctx, cancel := context.WithTimeout(t.Context(), 20*reach*time.Second)
		defer cancel()
		f.run(ctx)
		require.Equal(t, sources, s.wholes)
		require.Len(t, f.at, sources)
	})
}

// TestFollower_PausesShortly: a busy worker has two thirds of the time for itself, unless a source would have to be read whole again.
func TestFollower_PausesShortly(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: followEvery, 10 * time.Millisecond: 240 * time.Millisecond, 100 * time.Millisecond: 200 * time.Millisecond,
		time.Second: 2 * time.Second, 2 * time.Second: 3 * time.Second, keepUp: 0,
	} {
		require.Equal(t, want, pauseAfter(took), "after %v", took)
	}
	require.Negative(t, pauseAfter(time.Minute))
}

// restless is a state.Follower of sources that have published again whenever one is asked.
type restless struct {
	mu    sync.Mutex
	asked int64
}

func (*restless) Sums(context.Context, int32, []string) (at state.Fence, all []state.Field, err error) {
	return state.Fence{Token: "t"}, nil, nil
}

func (s *restless) Deltas(_ context.Context, _ int32, after state.Fence) ([]state.Delta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return []state.Delta{{Fence: state.Fence{Token: after.Token, Seq: after.Seq + 1}}}, nil
}

// TestFollower_LooksOnceARound: a source that publishes faster than it is read keeps nothing from the PooledState.
func TestFollower_LooksOnceARound(t *testing.T) {
	s := &restless{}
	f := &follower{store: s, pooled: newPooledState(&partition.Config{Names: newSharedNames()}), partitions: 3 * sourcesAtOnce / 2,
		log: slog.New(slog.DiscardHandler), at: map[int32]state.Fence{}, failed: map[int32]error{}, waits: newWaits(nil)}
	for round := range int64(5) {
		f.once(t.Context())
		require.Equal(t, round*int64(f.partitions), s.asked)
		for source := range f.partitions {
			at, known := f.pooled.of.At(source)
			require.True(t, known)
			require.Equal(t, round, at.Seq)
		}
	}
}

// TestFollower_ReadsTheWholeAfterAGap: a partition that is further behind than its stream reaches back is read whole, and followed again.
func TestFollower_ReadsTheWholeAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		f := s.follower(2)
		f.once(t.Context())
		require.Equal(t, 2, s.wholes)
		time.Sleep(2 * reach * time.Second) // on the clock of synctest
		f.once(t.Context())
		require.Equal(t, 4, s.wholes)
	})
}

// TestFollower_SendsOlderDeltasBeforeTheWhole: deltas that were read before a partition was read whole are never sent behind it.
func TestFollower_SendsOlderDeltasBeforeTheWhole(t *testing.T) {
	for _, n := range []int{0, publishedAtOnce + 1} {
		f := &follower{pooled: newPooledState(&partition.Config{Names: newSharedNames()})}
		f.round = []publication{{source: 0, at: state.Fence{Token: "t", Seq: 1}}}
		f.resync(0, make([]partition.Published, n), state.Fence{Token: "t", Seq: 2})
		f.flush()
		at, known := f.pooled.of.At(0)
		require.True(t, known)
		require.EqualValues(t, 2, at.Seq)
	}
}
