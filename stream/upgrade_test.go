package stream

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestUpgradeWaitsForLowerVersions: with a version 2 that is made up, nothing changes while a worker of version 1 is alive. Then all
// partitions are upgraded that an upgrade leads on from, and only these.
func TestUpgradeWaitsForLowerVersions(t *testing.T) {
	ctx, now := t.Context(), time.Unix(1e9, 0)
	store := memstore.New(rand.Text)
	store.SetClock(func() time.Time { return now })
	layouts := map[int32]int{0: 1, 1: 2, 3: task.StateUnfinished, 4: -1, 5: 3, 6: 1} // nothing is stored of partition 2
	for p, layout := range layouts {
		_, err := store.Acquire(ctx, p, 1, false, &state.Meta{Layout: layout})
		require.NoError(t, err)
	}
	stored := func() map[int32]int {
		found := map[int32]int{}
		for p := range layouts {
			m, _, err := store.View(ctx, p, nil)
			require.NoError(t, err)
			found[p] = m.Layout
		}
		return found
	}
	u := state.Upgrades{1: {Hashes: func([]state.Field) ([]string, error) { return nil, nil }}}
	opt := &Options{Store: store, Registry: store, Logger: slog.New(slog.DiscardHandler)}

	_, err := store.Announce(ctx, state.WorkerInfo{ID: "own", Layout: 2})
	require.NoError(t, err)
	_, err = store.Announce(ctx, state.WorkerInfo{ID: "lower", Version: "v0.1.0", Layout: 1})
	require.NoError(t, err)
	require.ErrorContains(t, upgrade(ctx, opt, u, 2, 7), "once all workers of a lower version have stopped: stop worker lower (v0.1.0)")
	require.Equal(t, layouts, stored())

	require.NoError(t, store.Withdraw(ctx, "lower"))
	opt.Store = &unfitStore{store, errRefused}
	require.ErrorIs(t, upgrade(ctx, opt, u, 2, 7), errRefused)
	require.Equal(t, layouts, stored())

	opt.Store = store
	require.NoError(t, upgrade(ctx, opt, u, 2, 7))
	require.Equal(t, map[int32]int{0: 2, 1: 2, 3: task.StateUnfinished, 4: -1, 5: 3, 6: 2}, stored())
	require.NoError(t, upgrade(ctx, opt, u, 2, 7))

	require.NoError(t, upgrade(ctx, &Options{Store: store, Logger: opt.Logger}, upgrades, task.StateLayout, 2), "nothing is upgraded to version 1")
}

// TestStateHalfWayIsRefused, and a version that nobody upgrades.
func TestStateHalfWayIsRefused(t *testing.T) {
	require.NoError(t, task.CheckLayout(&state.Meta{Layout: task.StateLayout}))
	require.ErrorContains(t, task.CheckLayout(&state.Meta{Layout: -2}), "half-way to version 2, and this worker reads 1: start a worker of version 2")
	require.ErrorContains(t, task.CheckLayout(&state.Meta{Layout: 2}), "state rebuild --replace --yes")
	require.ErrorContains(t, task.CheckLayout(&state.Meta{Layout: task.StateUnfinished}), "state reshard")
}
