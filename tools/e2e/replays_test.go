//go:build !race

package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestUnraced_ReplayMakesAllRankingsAgain: a worker's rankings through a restart are computed again
// from the topics, byte by byte, for learners that share statistics and for those that do not.
func TestUnraced_ReplayMakesAllRankingsAgain(t *testing.T) {
	t.Parallel()
	for _, learner := range []string{"policy: moss", "policy: thompson", "policy: egreedy", "policy: elimination"} {
		t.Run(learner, func(t *testing.T) {
			testenv.One(t, func(t *testing.T, env testenv.Env) {
				const impressions = 3000
				w := newWorld(t, env, 3, learner)
				w.played(t, impressions, 1)
				w.replayed(t, impressions, impressions/10)
			})
		})
	}
}

// TestUnraced_ReplayMakesThoseOfAnExperimentAgain: likewise with arms, by separate and by shared learning, with a shadow.
func TestUnraced_ReplayMakesThoseOfAnExperimentAgain(t *testing.T) {
	t.Parallel()
	const impressions = 2000
	for _, learning := range []string{"separate", "shared, shadow: {dark: 0.3}"} {
		t.Run(learning[:6], func(t *testing.T) {
			w := newWorld(t, testenv.Embedded(t), 3, `policy: moss
    default: true
  other: {payoffs: stochastic, policy: greedy}
  dark: {payoffs: stochastic, policy: thompson}
experiments:
  feed: {arms: {feed: 0.5, other: 0.5}, control: feed, guard: {fallback: feed}, learning: `+learning+"}")
			w.played(t, impressions, 1)
			w.replayed(t, impressions, impressions/10)
		})
	}
}

// TestUnraced_ReplayFromABaseBehindARebuild: Redis goes back while a worker ranks, and is lost and rebuilt later. From the beginning rankings are
// exact until it goes back, and not exact behind. From several bases a replay goes on with that of the rebuilt state. It was taken while
// no worker ran, so nearly all rankings behind it are made again.
func TestUnraced_ReplayFromABaseBehindARebuild(t *testing.T) {
	t.Parallel()
	const impressions = 12_000
	w := newWorld(t, testenv.Real(t), 3, "policy: moss")
	_, done := w.play(t, impressions, 1, nil)
	read := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] > n }, deadline, 5*time.Millisecond)
	}
	bases := t.TempDir()
	base := func(name string) {
		t.Helper()
		_, err := w.stateTool(t).TakeBase(within(t), filepath.Join(bases, name))
		require.NoError(t, err)
	}
	worker := w.start(t)
	read(500)
	worker.stop(t)
	copied := w.copyStore(t, w.group+":[0-9]")
	base("first")
	worker = w.start(t)
	read(1200)
	w.goBack(t, copied)
	read(2000)
	worker.stop(t)
	w.lose(t)
	_, err := w.stateTool(t).Rebuild(within(t), admin.RebuildQuery{})
	require.NoError(t, err)
	base("rebuilt")
	worker = w.start(t)
	require.NoError(t, <-done)
	worker.stop(t)

	rankings, same := w.replayFrom(t, bases)
	require.Greater(t, same, rankings/2)
	_, same = w.replayFrom(t, "")
	require.Greater(t, same, int64(500))
	rankings, same = w.replayFrom(t, filepath.Join(bases, "rebuilt"))
	require.Greater(t, same, rankings*9/10)
}
