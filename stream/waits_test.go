package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// refusing is a state.Follower that is refused.
type refusing struct{}

func (refusing) Sums(_ context.Context, p int32, _ []string) (state.Fence, []state.Field, error) {
	return state.Fence{}, nil, fmt.Errorf("partition %d in Redis: %w", p, errRefused)
}

func (refusing) Deltas(context.Context, int32, state.Fence) ([]state.Delta, error) {
	return nil, errRefused
}

// TestWaits_OneLineEveryHalfMinute: sources of one follower fail alike for four minutes, four rounds a second. All of them are in one
// line, which comes again every 30 s, and so is the end.
func TestWaits_OneLineEveryHalfMinute(t *testing.T) { synctest.Test(t, oneLineEveryHalfMinute) }

func oneLineEveryHalfMinute(t *testing.T) {
	var log strings.Builder
	start := time.Now()
	w := newWaits(slog.New(slog.NewTextHandler(&log, nil)))
	const sources, lasts = 6, 4 * time.Minute
	f := &follower{partitions: sources, store: refusing{}, at: map[int32]state.Fence{}, failed: map[int32]error{},
		waits: w, since: start, pooled: newPooledState(&partition.Config{Names: newSharedNames()})}
	for ; time.Since(start) < lasts; time.Sleep(followEvery) { // on the clock of synctest
		f.once(t.Context())
		w.look(time.Since(start))
	}
	require.Equal(t, int(lasts/waitAgain), strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), `sources="[0 1 2 3 4 5]"`)
	log.Reset()
	w.look(time.Since(start) + followerWaits.over)
	require.Equal(t, 1, strings.Count(log.String(), "over: no wait for this any more"))

	// A wait that ends otherwise is not reported as over.
	log.Reset()
	w.note(0, workerUnfit, "", nil, errors.New("no"))
	w.forget(workerUnfit)
	w.look(time.Hour)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
}
