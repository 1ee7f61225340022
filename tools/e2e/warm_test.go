package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestState_WarmBeginsALearner: a group that has never run begins with past selections, in all partitions; so does a learner that is added.
// The account names them, the checker's laws hold, a replay from a base makes the rankings again, and a rebuild does not know them.
func TestState_WarmBeginsALearner(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, "policy: moss")
		w := makeWorld(t, 3, s, s, os.LookupEnv)
		const totals = "item,selections,payoffs\na,500,50\nb,500,450\n" // users like a better, and b pays more
		tool := w.stateTool(t)
		r, err := tool.Warm(t.Context(), "totals.csv", strings.NewReader(totals), admin.WarmQuery{Weight: 0.2})
		require.NoError(t, err)
		require.Equal(t, admin.WarmReport{Learner: "feed", Selections: 1000, Items: 2, Payoffs: 200}, *r)
		kept := w.exported(t)
		seen := w.inspect(t, tool, admin.InspectQuery{Partition: -1})
		require.EqualValues(t, 200, seen.Learners[0].Payoffs)
		require.EqualValues(t, 200, seen.Learners[0].Warmed)
		require.Equal(t, "1000 selections of 2 items in totals.csv, weight 0.2", seen.Partitions[0].History[0].Detail)
		_, err = tool.Warm(t.Context(), "totals.csv", strings.NewReader(totals), admin.WarmQuery{Weight: 0.2})
		require.ErrorIs(t, err, admin.ErrNotEmpty)

		worker := w.start(t)
		worker.awaitReady(t)
		_, err = tool.Warm(t.Context(), "totals.csv", strings.NewReader(totals), admin.WarmQuery{Weight: 1})
		require.ErrorIs(t, err, admin.ErrLive)
		const impressions = 30
		w.publish(t, w.impressions("new", impressions)...)
		w.publish(t, w.payoff("new-1", "a", 1), w.payoff("new-2", "b", 1))
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == impressions }, deadline, 20*time.Millisecond)
		worker.stop(t)
		rank := func(name string, all int64) {
			t.Helper()
			worker := w.start(t)
			worker.awaitReady(t)
			w.publish(t, w.impressions(name, impressions)...)
			require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == all }, deadline, 20*time.Millisecond)
			worker.stop(t)
		}
		for p := range w.partitions {
			for _, rec := range w.rankings(t, p) {
				var ranking event.Ranking
				require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&ranking, rec.Value))
				require.Equal(t, "b", string(ranking.Items[0]), "in all partitions it is known what pays")
			}
		}
		require.EqualValues(t, 200, w.counts(t)["payoffs.warmed"])
		w.lawful(t)
		w.replayed(t, impressions, impressions) // topics do not know the past selections
		warmed := filepath.Join(t.TempDir(), "base")
		_, err = tool.TakeBase(t.Context(), warmed)
		require.NoError(t, err)
		rank("more", 2*impressions)
		again, same := w.replayFrom(t, warmed)
		require.EqualValues(t, impressions, again)
		require.Equal(t, again, same)

		s.learner = "policy: moss\n    default: true\n  later:\n    payoffs: stochastic\n    policy: moss\n    drift: 0.1"
		w.cfg, _ = testworker.Load(t, s.text(w.group), os.LookupEnv)
		log := `{"flat":1,"candidates":["a","b"]}` + strings.Repeat("\n"+`{"time":"2026-10-01T00:00:00Z","action":"a","propensity":1,"payoff":0.5}`, 10)
		tool = w.stateTool(t)
		_, err = tool.Warm(t.Context(), "log", strings.NewReader(log), admin.WarmQuery{Learner: "later", Weight: 1})
		require.NoError(t, err)
		rank("last", 3*impressions)
		require.EqualValues(t, 10, w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[1].Warmed)
		w.lawful(t)
		require.NoError(t, w.redis.HIncrBy(t.Context(), "{"+w.group+":0}:meta", "account.payoffs.warmed", 1).Err())
		require.NotEmpty(t, w.violations(t), "a warmed payoff more")
		require.NoError(t, w.redis.HIncrBy(t.Context(), "{"+w.group+":0}:meta", "account.payoffs.warmed", -1).Err())

		w.lose(t)
		_, err = tool.Rebuild(t.Context(), admin.RebuildQuery{})
		require.NoError(t, err)
		lost := w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0]
		require.Zero(t, lost.Warmed)
		require.Less(t, lost.Payoffs, int64(200))
		_, err = tool.Import(t.Context(), bytes.NewReader(kept), admin.ImportQuery{Learner: "feed"})
		require.NoError(t, err)
		require.Equal(t, lost.Payoffs+200, w.inspect(t, tool, admin.InspectQuery{Partition: -1}).Learners[0].Payoffs)
		w.lawful(t)
	})
}
