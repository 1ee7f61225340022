package admin

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// garbling stores a field that no worker can load beside each change.
type garbling struct{ state.AdminStore }

func (g garbling) Checkpoint(ctx context.Context, p int32, c *state.Checkpoint) error {
	c.Changes.Writes = append(c.Changes.Writes, state.Write{Hash: "feed:items", Field: []byte("0"), Value: []byte("garbled")})
	return g.AdminStore.Checkpoint(ctx, p, c)
}

// TestReshard_LoadsBeforeTheMove: a new partition that a worker could not load stays unfinished, so that the old state is not moved away.
func TestReshard_LoadsBeforeTheMove(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [\"127.0.0.1:1\"]}\nredis: {url: \"redis://127.0.0.1:1/0\"}\nlearners: {feed: {payoffs: stochastic}}\n"), nil)
	require.NoError(t, err)
	machine, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	sound := memstore.New(rand.Text)
	for layout, store := range map[int]state.AdminStore{task.StateUnfinished: garbling{sound}, task.StateLayout: sound} {
		staging := &Tool{cfg: cfg, machine: machine, store: store, now: time.Now}
		m, err := staging.emptyMachine(0)
		require.NoError(t, err)
		w, err := newWriter(t.Context(), store, 0, &state.Meta{Layout: task.StateUnfinished, Partitions: 1}, m)
		require.NoError(t, err)
		err = w.finish(t.Context(), &resharding{tool: staging, staging: staging, detail: "from 2 to 1 partitions, begun now"})
		require.Equal(t, layout == task.StateLayout, err == nil, err)
		stored, _, err := store.View(t.Context(), 0, nil)
		require.NoError(t, err)
		require.Equal(t, layout, stored.Layout)
		detail, err := staging.complete(t.Context(), 1)
		require.NoError(t, err, "a repeated command begins again")
		require.Equal(t, layout == task.StateLayout, detail != "")
		require.NoError(t, store.Drop(t.Context(), 0, ""))
	}
}

// TestReshard_RefusesALearnerThatIsGone: without --yes it refuses a stored learner that is not configured, before partitions are added.
func TestReshard_RefusesALearnerThatIsGone(t *testing.T) {
	store := memstore.New(rand.Text)
	of := func(learners string) *Tool {
		cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [\"127.0.0.1:1\"]}\nredis: {url: \"redis://127.0.0.1:1/0\"}\nlearners: {"+learners+"}\n"), nil)
		require.NoError(t, err)
		machine, err := app.MachineConfig(cfg)
		require.NoError(t, err)
		return &Tool{cfg: cfg, machine: machine, store: store, now: time.Now, progress: func(string) {}}
	}
	tool := of("feed: {default: true}, old: {}")
	m, err := tool.emptyMachine(0)
	require.NoError(t, err)
	w, err := newWriter(t.Context(), store, 0, &state.Meta{Layout: task.StateUnfinished, Partitions: 1, TopicNames: tool.machine.TopicNames[:]}, m)
	require.NoError(t, err)
	require.NoError(t, w.flush(t.Context()))
	refused := func(tool *Tool) error {
		return (&resharding{tool: tool, source: tool, from: 1, to: 2}).refused(t.Context())
	}
	require.NoError(t, refused(tool))
	require.ErrorIs(t, refused(of("feed: {}")), partition.ErrTransfer)
}

// TestAlter_RefusesAnInterruptedReshard: its end would undo the change.
func TestAlter_RefusesAnInterruptedReshard(t *testing.T) {
	tool := &Tool{store: memstore.New(rand.Text), now: time.Now}
	for layout, change := range map[int]bool{task.StateUnfinished: false, task.StateLayout: true} {
		_, err := tool.store.Acquire(t.Context(), 0, 0, true, &state.Meta{Layout: layout})
		require.NoError(t, err)
		changed := false
		err = tool.alter(t.Context(), 0, nil, func(*state.Meta, []state.Field) (*alteration, error) {
			changed = true
			return nil, nil
		})
		require.Equal(t, change, err == nil, err)
		require.Equal(t, change, changed)
		require.NoError(t, tool.store.Drop(t.Context(), 0, ""))
	}
}
