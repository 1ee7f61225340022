package admin

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestImport_TwoLearnersOfOneExport: each is added once to a learner that joins them.
func TestImport_TwoLearnersOfOneExport(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [\"127.0.0.1:1\"]}\nredis: {url: \"redis://127.0.0.1:1/0\"}\nlearners: {feed: {}}\n"), nil)
	require.NoError(t, err)
	machine, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	tool := &Tool{cfg: cfg, machine: machine, store: memstore.New(rand.Text), now: time.Now}
	_, err = tool.store.Acquire(t.Context(), 0, 0, true, &state.Meta{Layout: task.StateLayout, Partitions: 1, Inputs: make([]state.Position, event.Inputs)})
	require.NoError(t, err)
	add := func(learner string) error {
		share := []section{{learner: learner, fingerprint: cfg.Learners[0].Fingerprint()}}
		_, err := tool.importPartition(t.Context(), 0, "feed", share, &exportLine{ID: "7", Group: "g"}, false)
		return err
	}
	require.NoError(t, add("north"))
	require.NoError(t, add("south"))
	require.ErrorIs(t, add("north"), ErrImported)
	require.ErrorIs(t, add("south"), ErrImported)
}
