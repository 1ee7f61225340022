package stream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// published is a state.Follower that holds what two partitions have published.
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

// TestFollower_HandsOutEachDelta: whatever is published reaches the other partition's loop, also over a lost stream, and
// nothing of its own does.
func TestFollower_HandsOutEachDelta(t *testing.T) {
	p := &published{deltas: map[int32][]state.Delta{}}
	l := &loop{p: 1, sources: make(chan publishedBatch, 4), ended: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
	l.loads.Store(1)
	f := &follower{store: p, reader: partition.NewPublishedReader(nil, newSharedNames()), partitions: 2, loops: map[int32]*loop{1: l},
		log: l.log, at: map[int32]state.Fence{}, served: map[int32]map[int32]uint64{}, failed: map[int32]bool{}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	follow := func() {
		f.follow(ctx, 0)
		f.follow(ctx, 1)
	}
	follow()
	for n := 1; n <= 200; n++ {
		p.add(0, "a", n)
		p.add(1, "b", n) // the loop's own
		p.gap = n%50 == 0
		got := ""
		take := func() {
			for len(l.sources) > 0 {
				b := <-l.sources
				require.Equal(t, int32(0), b.source)
				for _, pub := range b.all {
					got = pub.String()
				}
			}
		}
		follow() // a lost stream is noticed here,
		take()
		follow() // and made up for here at the latest
		take()
		require.Equal(t, fmt.Sprintf(`feed:items "a" {%d 0 0}`, n), got, "delta %d", n)
	}
}
