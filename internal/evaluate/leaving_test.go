//go:build !race

package evaluate

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/lab"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
)

// left is a log of users who may leave, and who see six items.
func left(t testing.TB, s lab.Scenario, impressions int64, run int, policy string) (*syntheticlog.Leaving, *joinedlog.Log) {
	e := &lab.Experiment{Scenario: s, Items: 6, Horizon: impressions, PayoffDelay: lab.PayoffDelay{Mean: 20}, PayoffHorizon: 200, Runs: 1, Seed: 7}
	w, err := syntheticlog.NewLeaving(e, run, policy == "moss", config.Setting{"payoffs", "stochastic"}, config.Setting{"policy", policy})
	require.NoError(t, err)
	log, err := w.Journal(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return w, log
}

// byUtility ranks six items by utility.
var byUtility = []int32{5, 4, 3, 2, 1, 0}

// leaving counts how often the log is right about which of two rankings earns more.
type leaving struct {
	logs, judged, intervals, covered, clear, right, rightPerSelection, decided, wrong int
	off, squares                                                                      float64
}

// judge evaluates ranking by utility by a log, per impression, and if asked for per selection too.
func (l *leaving) judge(t *testing.T, w *syntheticlog.Leaving, log *joinedlog.Log, perSelection bool) *TargetReport {
	opt := unit()
	opt.PerImpression = true
	r, err := Log(context.Background(), log, &w.Learner, targets(t, &w.World, "utility"), opt)
	require.NoError(t, err)
	got, truth := &r.Targets[0], w.Worth(byUtility)
	if l.logs++; got.Verdict == Refused {
		return got
	}
	l.judged++
	v, d, better := got.PerImpression, &got.Difference, truth > *r.Log.Logged
	l.off, l.squares = l.off+v.Value-truth, l.squares+(v.Value-truth)*(v.Value-truth)
	if v.Lower != nil {
		l.intervals++
		if *v.Lower <= truth && truth <= *v.Upper {
			l.covered++
		}
		if *d.Lower > 0 || *d.Upper < 0 {
			if l.decided++; (*d.Lower > 0) != better {
				l.wrong++
			}
		}
	}
	if math.Abs(truth-*r.Log.Logged) < 0.05 {
		return got
	}
	if l.clear++; (d.Value > 0) == better {
		l.right++
	}
	if perSelection {
		old, err := Log(context.Background(), log, &w.Learner, targets(t, &w.World, "utility"), unit())
		require.NoError(t, err)
		if (old.Targets[0].Difference.Value > 0) == better {
			l.rightPerSelection++
		}
	}
	return got
}

func (l *leaving) log(t *testing.T, of string) {
	n := float64(l.judged)
	t.Logf("%s: %d of %d logs judged, mean error %+.4f, its root mean square %.4f, intervals right %d of %d, sign right %d of %d, certain %d, of these wrong %d",
		of, l.judged, l.logs, l.off/n, math.Sqrt(l.squares/n), l.covered, l.intervals, l.right, l.clear, l.decided, l.wrong)
}

// TestLog_PerImpression: a log shows whether ranking by utility would earn more an impression. This holds for logs of policies that
// maximise payoff per selection, or per impression. Where the two differ by 0.05 or more the sign is right, and where the log is
// certain it is not wrong. Intervals of 95 % hold. Values per selection have the sign wrong in a third of the logs.
//
// Seeds are fixed. With other seeds a bound fails less often than once in 10⁶. Coverage is 97 %, the sign is right in 99 %, and the
// mean error is 0.005 ± 0.003. Half of the logs are enough with narrower bounds. Logs whose intervals hold in 86 % keep these in 3 of
// 100 runs, and the wider bounds with all logs in 24.
func TestLog_PerImpression(t *testing.T) {
	var all, selections leaving
	for _, first := range []int{0, 25} {
		for _, policy := range []string{"egreedy", "moss"} {
			for _, s := range []lab.Scenario{"abandon", "abandon:anti"} {
				var one leaving
				perSelection := policy == "egreedy" && s == "abandon"
				for run := first; run < first+25; run++ {
					w, log := left(t, s, 5000, run, policy)
					one.judge(t, w, log, perSelection)
				}
				one.log(t, string(s)+" by "+policy)
				if all.add(&one); perSelection {
					selections.add(&one)
				}
			}
		}
		all.log(t, "all")
		if first == 0 && all.within(0.93, 0.95, 0.05, 0.012) && 4*selections.rightPerSelection < 3*selections.clear {
			return
		}
	}
	require.Less(t, selections.rightPerSelection, selections.clear*4/5)
	require.True(t, all.within(0.88, 0.9, 0.1, 0.02))
}

// within reports whether nine in ten logs are judged and the mean error is below off. The shares of right intervals and signs must reach
// covered and right, and at most the share wrong of the certain signs may be wrong.
func (l *leaving) within(covered, right, wrong, off float64) bool {
	return l.judged*10 > l.logs*9 && float64(l.covered) >= covered*float64(l.intervals) && float64(l.right) >= right*float64(l.clear) &&
		float64(l.wrong) <= wrong*float64(l.decided) && math.Abs(l.off) < off*float64(l.judged)
}

func (l *leaving) add(o *leaving) {
	l.logs, l.judged, l.intervals, l.covered = l.logs+o.logs, l.judged+o.judged, l.intervals+o.intervals, l.covered+o.covered
	l.clear, l.right, l.decided, l.wrong = l.clear+o.clear, l.right+o.right, l.decided+o.decided, l.wrong+o.wrong
	l.rightPerSelection += o.rightPerSelection
	l.off, l.squares = l.off+o.off, l.squares+o.squares
}

// TestLog_PerImpressionOfTargets: targets with direct maximise payoff per impression, and with qpmd per selection, as the worker's learners do. The log
// shows that the first earn more.
func TestLog_PerImpressionOfTargets(t *testing.T) {
	for _, policy := range []string{"greedy", "klucb", "egreedy"} {
		direct, qpmd := 0.0, 0.0
		for run := range 8 {
			w, log := left(t, "abandon:anti", 5000, run, "egreedy")
			opt := unit()
			opt.PerImpression = true
			r, err := Log(context.Background(), log, &w.Learner, targets(t, &w.World, policy, policy+",delay=qpmd"), opt)
			require.NoError(t, err)
			direct, qpmd = direct+r.Targets[0].PerImpression.Value/8, qpmd+r.Targets[1].PerImpression.Value/8
		}
		t.Logf("%s: %.3f, with qpmd %.3f", policy, direct, qpmd)
		require.Greater(t, direct, qpmd*1.1, policy)
	}
}

// TestLog_PerImpressionRefused: users who go down a list and take the first that they like are not those of the model.
func TestLog_PerImpressionRefused(t *testing.T) {
	for _, s := range []lab.Scenario{"cascade", "cascade:anti"} {
		for run := range 3 {
			w, log := left(t, s, 5000, run, "egreedy")
			var l leaving
			got := l.judge(t, w, log, false)
			require.Equal(t, Refused, got.Verdict)
			require.Contains(t, got.Reasons[len(got.Reasons)-1], "%")
			t.Log(got.Reasons)
		}
	}
}
