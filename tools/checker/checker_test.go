package checker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

const feed = "  feed: {payoffs: stochastic, policy: elimination}"

// TestHealthyWorkerBreaksNoLaw: while it works, through a drain and a crash, and after.
func TestHealthyWorkerBreaksNoLaw(t *testing.T) {
	t.Parallel()
	testenv.Each(t, healthyWorkerBreaksNoLaw)
}

func healthyWorkerBreaksNoLaw(t *testing.T, env testenv.Env) {
	w := newWorld(t, env, 2, feed, "")
	const impressions = 3000
	third, twoThirds := make(chan struct{}), make(chan struct{})
	points := map[int]chan struct{}{impressions / 3: third, impressions * 2 / 3: twoThirds}
	first := w.start(t, nil)
	done := w.play(t, impressions, 7, func(p platform.Progress) {
		for n, c := range points {
			if p.Rankings >= n {
				close(c)
				delete(points, n)
			}
		}
	})
	<-third
	requireClean(t, w.check(t))
	first.stop(t)
	second := w.start(t, nil)
	<-twoThirds
	requireClean(t, w.check(t))
	second.crash(t)
	requireClean(t, w.check(t))
	last := w.start(t, nil)
	require.NoError(t, <-done)
	requireClean(t, w.check(t))
	last.stop(t)
	r := w.check(t)
	requireClean(t, r)
	require.Equal(t, int64(impressions), r.Partitions[0].Read[0]+r.Partitions[1].Read[0])
	var b strings.Builder
	require.NoError(t, r.Print(&b))
	t.Log("\n" + b.String())
}
