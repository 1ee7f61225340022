package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// disturbed lets users use the pipeline, while a worker is killed and Redis rolled back. Another worker is killed later;
// rebuild then deletes the state in Redis, and rebuilds it. It returns the stored account, and the number of records sent.
func (w *world) disturbed(t *testing.T, users platform.Users, impressions, unanswered int, rebuild bool) (map[string]int64, platform.Progress) {
	t.Helper()
	points, reached := map[int]chan struct{}{}, map[int]chan struct{}{}
	for _, percent := range []int{30, 50, 70} {
		reached[percent] = make(chan struct{})
		points[impressions*percent/100] = reached[percent]
	}
	b, err := app.NewBroker(w.access)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	p := platform.New(platform.Options{Brokers: w.access.Kafka.Brokers, Transport: w.transport(t), Topics: app.TopicNames(w.cfg), Log: b,
		From: make([]int64, 1), Impressions: impressions, Unanswered: unanswered, Progress: func(p platform.Progress) {
			for n, c := range points {
				if p.Rankings >= n {
					close(c)
					delete(points, n)
				}
			}
		}}, users)
	done := make(chan error, 1)
	var sent platform.Progress
	go func() {
		var err error
		sent, err = p.Run(t.Context())
		done <- err
		close(done)
	}()
	start := func() *running { return w.startAt(t, p.Clock) }
	first := start()
	w.reach(t, reached[30], done)
	first.stop(t)
	old := w.copyStore(t, w.group+":0")
	second := start()
	w.reach(t, reached[50], done)
	second.kill(t)
	w.rollBack(t, old)
	third := start()
	w.reach(t, reached[70], done)
	third.kill(t)
	if rebuild {
		w.lose(t)
		tool, err := admin.New(w.cfg, admin.Options{Now: func() time.Time { return time.UnixMilli(p.Clock()) }})
		require.NoError(t, err)
		_, err = tool.Rebuild(t.Context(), admin.RebuildQuery{})
		require.NoError(t, errors.Join(err, tool.Close()))
	}
	last := start()
	require.NoError(t, <-done)
	got := w.await(t, sent)
	last.stop(t)
	return got, sent
}

// startAt starts a worker with a clock of its own.
func (w *world) startAt(t *testing.T, now func() event.Millis) *running {
	t.Helper()
	w.now = now
	defer func() { w.now = nil }()
	return w.startWith(t, w.cfg)
}

// kill ends a worker where it is: nothing is finished, and nothing saved.
func (r *running) kill(t *testing.T) {
	t.Helper()
	_ = r.Kill(t)
}

// rollBack replaces the partition's keys in Redis by a copy.
func (w *world) rollBack(t *testing.T, copied map[string]storedKey) {
	t.Helper()
	keys, err := w.redis.Keys(t.Context(), "{"+w.group+":0}:*").Result()
	require.NoError(t, err)
	require.NoError(t, w.redis.Del(t.Context(), keys...).Err())
	putBack(t, w.redis, copied)
}
