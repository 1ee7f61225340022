//go:build !race

package evaluate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/policy"
)

// TestLog_Values: targets' estimated values are their true ones, with users who go by utility and with some who take anything.
// Bounds are 5.5 standard errors of a normal law, and seeds fixed. By chance one of the twelve values is beyond them in less than
// one draw of seeds in a million.
func TestLog_Values(t *testing.T) {
	const impressions = 8000
	for _, noise := range []float64{0, 0.1} {
		for _, settings := range [][]config.Setting{
			{{"payoffs", "stochastic"}, {"policy", "egreedy"}},
			{{"payoffs", "stochastic"}, {"policy", "moss"}},
		} {
			w, log := played(t, population(3), noise, impressions, append(settings, config.Setting{"payoff_horizon", "48h"})...)
			opt := unit()
			truth, rows := map[string]float64{}, 0.0
			counts := func(k int32) bool {
				return log.Outcomes[k].How == joinedlog.Paid || log.Outcomes[k].How == joinedlog.Unpaid
			}
			opt.Decided = func(target string, k int32, order []int32) {
				if counts(k) {
					truth[target] += w.Worth(int(k), order)
				}
			}
			for k := range log.Outcomes {
				if counts(int32(k)) {
					rows++
				}
			}
			r, err := Log(context.Background(), log, &w.Learner, targets(t, w, "utility", "greedy", "moss,prior=none", Logging), opt)
			require.NoError(t, err)
			require.InDelta(t, noise, r.Windows.Noise, 0.03)
			require.Positive(t, r.Log.Immature)
			require.InDelta(t, impressions, r.Log.Judged+r.Log.Immature+r.Log.Unselected, 1, "the ranking of the first minute may be left out")
			for _, got := range r.Targets {
				if got.Target == Logging {
					require.InDelta(t, *r.Log.Logged, got.DR.Value, 1e-9)
					require.Equal(t, [2]float64{1, 1}, [2]float64{got.MeanWeight, got.MaxWeight})
					continue
				}
				truth := truth[got.Target] / rows
				t.Logf("noise %v, %s: %s is worth %.4f, dr %.4f ± %.4f, snips %.4f, sequence [%.3f, %.3f], %.0f effective, %v", noise, w.Learner.Policy, got.Target, truth,
					got.DR.Value, got.DR.Stderr, got.SNIPS.Value, got.Sequence.Lower, got.Sequence.Upper, got.EffectiveSamples, got.Reasons)
				if got.Verdict == Refused {
					require.NotEqual(t, "utility", got.Target)
					continue
				}
				require.InDelta(t, truth, got.DR.Value, 5.5*got.DR.Stderr, got.Target)
				require.True(t, got.Sequence.Lower < truth && truth < got.Sequence.Upper, "%+v", got)
			}
		}
	}
}

// TestLog_Weights: the log's own policy has weight 1 in every row, bit for bit, whatever it is.
func TestLog_Weights(t *testing.T) {
	for _, kind := range policy.Specs {
		payoffs := "stochastic"
		if kind.IsAdversarial() {
			payoffs = "adversarial"
		}
		for _, windows := range []string{"", "{geometric: 0.7}"} {
			c := population(4)
			c.MaxDelay, c.Horizon = 6*time.Hour, 12*time.Hour
			w, log := played(t, c, 0, 1600, config.Setting{"payoffs", payoffs}, config.Setting{"policy", kind.Name},
				config.Setting{"payoff_horizon", "48h"}, config.Setting{"windows", windows}, config.Setting{"on_expiry", "{default: 0}"})
			r, err := Log(context.Background(), log, &w.Learner, targets(t, w, Logging), unit())
			require.NoError(t, err)
			require.Zero(t, r.Check.LoggingMaxDeviation, kind.Name)
			require.Equal(t, OK, r.Targets[0].Verdict, "%s: %v", kind.Name, r.Targets[0].Reasons)
			require.Equal(t, 1.0, r.Targets[0].MeanWeight)
		}
	}
}
