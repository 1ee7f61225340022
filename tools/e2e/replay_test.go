package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/audit"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/replay"
)

// replayed makes all rankings again. Of those that are not exact there may be so many.
func (w *world) replayed(t *testing.T, rankings, notExact int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	topics, err := audit.Open(ctx, w.access)
	require.NoError(t, err)
	defer topics.Close()
	results, err := topics.Replay(ctx, &replay.Config{})
	require.NoError(t, err)
	var sum replay.Result
	reasons := ""
	for p, r := range results {
		sum.Rankings, sum.Same = sum.Rankings+r.Rankings, sum.Same+r.Same
		for why, n := range r.NotExact {
			reasons += fmt.Sprintf("partition %d, %d rankings: %s\n", p, n.Rankings, why)
		}
		if d := r.First; d != nil {
			t.Errorf("partition %d: %d different, the first at offset %d:\n%s\n%s", p, r.Different, d.Ranking.Offset, d.Ranking.Value, d.Again)
		}
	}
	require.Equal(t, rankings, sum.Rankings)
	require.GreaterOrEqual(t, sum.Same, rankings-notExact, "%s", reasons)
	t.Logf("%d rankings, %d identical\n%s", sum.Rankings, sum.Same, reasons)
}

// TestExplain: an impression's ranking is explained by the statistics at its time, and in its own order.
func TestExplain(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		const impressions = 1000
		w := newWorld(t, env, 2, "policy: moss")
		w.played(t, impressions, 1)
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		topics, err := audit.Open(ctx, w.access)
		require.NoError(t, err)
		defer topics.Close()
		id := ""
		_, err = topics.Replay(ctx, &replay.Config{Made: func(m replay.Made) bool {
			id = m.ID
			return m.Impression == impressions/4
		}})
		require.NoError(t, err)
		x, err := topics.Explain(ctx, id, func(int64) {})
		require.NoError(t, err)
		require.Equal(t, id, x.ID)
		require.True(t, x.Identical, x.NotExact)
		require.LessOrEqual(t, len(x.Sources), 1)
		require.NotEmpty(t, x.Ranking.Rule)
		for k, c := range x.Ranking.Candidates {
			require.Equal(t, x.Items[k], c.Item)
		}
		_, err = topics.Explain(ctx, "nobody's", func(int64) {})
		require.ErrorIs(t, err, audit.ErrNotRanked)
	})
}

// TestReplay_FromABase: rankings are computed from a base taken while a worker ranked; earlier records may
// be gone. The worker records a snapshot of sources within a minute, and the next one as soon as it begins.
func TestReplay_FromABase(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		const impressions = 6000
		w := newWorld(t, env, 3, "policy: moss")
		dir := filepath.Join(t.TempDir(), "base")
		worker := w.start(t)
		p, done := w.play(t, impressions, 1, nil)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] > impressions/4 }, deadline, 10*time.Millisecond)
		taken, err := w.stateTool(t).TakeBase(within(t), dir+"/")
		require.NoError(t, err)
		worker.stop(t)
		worker = w.start(t)
		require.NoError(t, <-done)
		w.await(t, p.sent)
		worker.stop(t)
		require.Len(t, taken.Partitions, 3)
		_, err = w.stateTool(t).TakeBase(within(t), dir)
		require.ErrorContains(t, err, "is there already")

		gone := make([]int64, 3)
		var had int64
		for p, b := range taken.Partitions {
			gone[p] = b.Offsets[event.Impressions]
			had += gone[p]
			require.Positive(t, b.Entries)
		}
		w.forget(t, event.Impressions, gone)
		rankings, same := w.replayFrom(t, dir)
		require.Equal(t, impressions-had, rankings)
		require.Greater(t, same, int64(impressions/4))

		gone[0]++
		w.forget(t, event.Impressions, gone)
		later, err := audit.Open(within(t), w.access)
		require.NoError(t, err)
		defer later.Close()
		require.ErrorContains(t, later.From(dir), "take a newer base")
		require.ErrorIs(t, later.From(t.TempDir()), admin.ErrBase)
	})
}

// TestReplay_BehindAnotherSetting: rankings from before a change and later ones are not exact, for reasons of their own. From a base taken
// after the change, later rankings are exact.
func TestReplay_BehindAnotherSetting(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, "policy: moss")
		rank := func(name string) {
			worker, before := w.start(t), w.counts(t)["impressions.read"]
			w.publish(t, w.impressions(name, 10)...)
			require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == before+10 }, deadline, 10*time.Millisecond)
			worker.stop(t)
		}
		rank("before")
		cfg := *w.cfg
		cfg.Learners = slices.Clone(cfg.Learners)
		cfg.Learners[0].Seed++
		w.cfg, w.access = &cfg, &cfg
		rank("after")
		rank("later")
		topics, err := audit.Open(t.Context(), w.access)
		require.NoError(t, err)
		defer topics.Close()
		results, err := topics.Replay(t.Context(), &replay.Config{})
		require.NoError(t, err)
		rankings := map[string]int64{}
		for why, n := range results[0].NotExact {
			rankings[why[:20]] += n.Rankings
		}
		require.Equal(t, map[string]int64{"the rankings were ma": 10, "the state before was": 20}, rankings, results[0].NotExact)
		dir := filepath.Join(t.TempDir(), "base")
		_, err = w.stateTool(t).TakeBase(within(t), dir)
		require.NoError(t, err)
		rank("last")
		all, same := w.replayFrom(t, dir)
		require.Equal(t, []int64{10, 10}, []int64{all, same})
	})
}

// replayFrom replays a world's log from a base, or from bases, and returns how many rankings there were and how many were identical. None is different.
func (w *world) replayFrom(t *testing.T, dir string) (rankings, same int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	topics, err := audit.Open(ctx, w.access)
	require.NoError(t, err)
	defer topics.Close()
	if dir != "" {
		require.NoError(t, topics.From(dir))
	}
	results, err := topics.Replay(ctx, &replay.Config{})
	require.NoError(t, err)
	for p, r := range results {
		rankings, same = rankings+r.Rankings, same+r.Same
		require.Zero(t, r.Different, "partition %d: %+v", p, r.First)
		t.Logf("partition %d: %d rankings, %d identical, not exact %v", p, r.Rankings, r.Same, r.NotExact)
	}
	return rankings, same
}
