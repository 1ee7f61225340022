//go:build !race

package lab

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

func paysOff(t *testing.T, policy string, n Numbers, runs int) (PaysOff, []*Result) {
	t.Helper()
	l, _, err := config.ReadLearner("feed", true, []config.Setting{{"payoffs", "stochastic"}, {"policy", policy}, {"payoff_horizon", "7d"}})
	require.NoError(t, err)
	e, combinations, err := n.Experiment(&l, runs, 5)
	require.NoError(t, err)
	results, err := Run(context.Background(), e, combinations)
	require.NoError(t, err)
	return n.PaysOff(results[0], results[1]), results
}

// TestNumbers_DaysUntilItPays: days are fewer with more impressions, conversions and sooner payoffs; utility never beats itself.
func TestNumbers_DaysUntilItPays(t *testing.T) {
	n := Numbers{Conversion: 0.2, Delay: 12 * time.Hour, PerDay: 200, Candidates: 20, Days: 60}
	p, results := paysOff(t, "moss", n, 10)
	require.NotNil(t, p.InMost)
	require.LessOrEqual(t, *p.InHalf, *p.InMost)
	require.Greater(t, p.Gain, 10.0)
	require.Len(t, results[0].Curve, n.Days)
	require.Greater(t, results[1].Curve[*p.InMost-1].Regret, results[0].Curve[*p.InMost-1].Regret)
	faster := n
	faster.PerDay, faster.Days = 2000, 20
	q, _ := paysOff(t, "moss", faster, 10)
	require.NotNil(t, q.InMost)
	require.Less(t, *q.InMost, *p.InMost)
	rare := n
	rare.Conversion, rare.Days = 0.001, 3
	q, _ = paysOff(t, "moss", rare, 8)
	require.Nil(t, q.InMost, "a conversion in ten days teaches nothing in three")
	q, _ = paysOff(t, "utility", n, 2)
	require.Nil(t, q.InHalf)
	require.Zero(t, q.Gain)
	for _, format := range []string{"svg", "png"} {
		var picture bytes.Buffer
		require.NoError(t, Plot(&picture, format, results))
		require.Greater(t, picture.Len(), 1000)
	}
}

// Conversions come at the given rate and mean delay; other selections are never paid.
func TestNumbers_World(t *testing.T) {
	n := Numbers{Conversion: 0.03, Delay: 48 * time.Hour, PerDay: 1000, Candidates: 10, Days: 300}
	l := config.DefaultLearner("feed", config.Stochastic)
	l.PayoffHorizon = 60 * 24 * time.Hour
	e, _, err := n.Experiment(&l, 1, 9)
	require.NoError(t, err)
	w, err := NewWorld(e, 0)
	require.NoError(t, err)
	var paid, late, mean float64
	const looks = 200_000
	for range looks {
		w.Next()
		r := w.Reply(0)
		mean += w.mean(0)
		if r.Paid {
			require.Equal(t, 1.0, r.Payoff)
			paid, late = paid+1, late+float64(r.Late)
		} else {
			require.Equal(t, e.PayoffHorizon, r.Late)
		}
	}
	require.InDelta(t, mean/looks, paid/looks, 0.003)
	require.InEpsilon(t, 2000, late/paid, 0.1)
	require.EqualValues(t, 86_400, w.clock.at(1))
	for _, m := range w.means[0] {
		require.InDelta(t, 0.03, m, 0.024)
	}
	e.Numbers = nil
	require.Error(t, e.Check())
}
