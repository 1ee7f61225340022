package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestEvaluate_JoinsAsTheWorkerDoes: the joined log has as many selections, payoffs
// and ends as the worker's account, and the log's policy earned the users' payoffs.
func TestEvaluate_JoinsAsTheWorkerDoes(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		const impressions = 3000
		w := newWorld(t, env, 3, "policy: moss")
		w.played(t, impressions, 1)
		counts := w.counts(t)

		b, err := app.NewBroker(w.access)
		require.NoError(t, err)
		defer b.Close()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		l := &w.cfg.Learners[0]
		q := &joinedlog.Query{Learner: l, Group: w.group, HasSelections: true, Parking: w.cfg.Join.ParkingTime}
		sources, err := joinedlog.OpenTopics(ctx, b, q)
		require.NoError(t, err)
		log, err := joinedlog.Read(ctx, sources, q)
		require.NoError(t, err)
		defer log.Close()
		got, times := map[joinedlog.Kind]int64{}, []event.Millis{}
		require.NoError(t, log.Play(func(e *joinedlog.Event) error {
			if got[e.Kind]++; e.Kind == joinedlog.Decided {
				times = append(times, e.Time)
			}
			return nil
		}))
		require.EqualValues(t, impressions, got[joinedlog.Decided])
		require.Equal(t, counts["selections.joined"], got[joinedlog.WasSelected])
		require.Equal(t, counts["payoffs.applied"], got[joinedlog.WasPaid])
		require.Equal(t, counts["impressions.unselected"], got[joinedlog.NotSelected])
		require.Equal(t, counts["impressions.defaulted"]+counts["impressions.expired"], got[joinedlog.NeverPaid])

		logging, err := evaluate.ParseTarget(evaluate.Logging, l, w.cfg)
		require.NoError(t, err)
		kept := filepath.Join(t.TempDir(), "learned.jsonl")
		f, err := os.Create(kept)
		require.NoError(t, err)
		tool, err := admin.New(w.cfg, admin.Options{})
		require.NoError(t, err)
		defer tool.Close()
		_, err = tool.Export(ctx, l.Name, f)
		require.NoError(t, errors.Join(err, f.Close()))
		frozen, err := evaluate.ParseTarget("state:"+kept, l, w.cfg)
		require.NoError(t, err)
		greedy, err := evaluate.ParseTarget("greedy", l, w.cfg)
		require.NoError(t, err)
		leads := map[string]map[int32]int{} // by target and item: how often it was shown first, lately
		opt := &evaluate.Options{Units: l.PayoffRange, Decided: func(target string, row int32, order []int32) {
			if row < impressions-500 {
				return
			}
			if leads[target] == nil {
				leads[target] = map[int32]int{}
			}
			leads[target][order[0]]++
		}}
		r, err := evaluate.Log(ctx, log, l, []*evaluate.Target{logging, frozen, greedy}, opt)
		require.NoError(t, err)
		require.Len(t, leads, 2)
		for target, ranks := range leads { // neither ranks by utility, whose first has the highest rank
			require.Greater(t, len(ranks), 3, target)
		}
		require.Zero(t, r.Check.LoggingMaxDeviation)

		// Between two times there are the impressions of these.
		slices.Sort(times)
		part := *q
		part.From, part.To = times[impressions/4], times[impressions/2]
		within := 0
		for _, at := range times {
			if at >= part.From && at < part.To {
				within++
			}
		}
		require.Positive(t, within)
		sources, err = joinedlog.OpenTopics(ctx, b, &part)
		require.NoError(t, err)
		some, err := joinedlog.Read(ctx, sources, &part)
		require.NoError(t, err)
		defer some.Close()
		require.Equal(t, within, len(some.Outcomes))
	})
}
