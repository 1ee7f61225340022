//go:build !race

package lab

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// The best item changes once: without drift the old best keeps its estimate for as long again, and a learner that ignores payoffs
// loses more.
func TestDrift_FollowsWhatChanges(t *testing.T) {
	e := defaults("switching", 1)
	e.Horizon, e.Runs, e.PayoffDelay = 30_000, 2, PayoffDelay{Mean: 300}
	lost := func(policy, drift string) float64 {
		return regretOf(t, e, Settings{Policies: []string{policy}, Drifts: []string{drift}}).DynamicRegret.Mean
	}
	drifting := lost("moss", "0.2")
	for name, other := range map[string]float64{"for ever": lost("moss", "0"), "nothing": lost("utility", "0.2")} {
		require.Less(t, 3*drifting, other, name)
	}
}

// regretOf plays a policy.
func regretOf(t *testing.T, e *Experiment, s Settings) *Result {
	t.Helper()
	results, err := Run(context.Background(), e, combine(t, e, s))
	require.NoError(t, err)
	return results[0]
}

// Known at once, delays do not matter: worlds that differ in them alone are the same.
func TestAtOnce_DelaysDoNotMatter(t *testing.T) {
	var first *Result
	for _, s := range []Scenario{"conversions", "conversions-slow", "conversions-fast"} {
		e := defaults(s, 1)
		e.Horizon, e.AtOnce, e.Runs = 5000, true, 2
		r := regretOf(t, e, Settings{Policies: []string{"moss"}})
		if first == nil {
			first = r
		}
		require.Equal(t, first.Regret, r.Regret)
		e.AtOnce = false
		waits := regretOf(t, e, Settings{Policies: []string{"moss"}, Silences: []string{"waits"}})
		require.Greater(t, waits.Regret.Mean, first.Regret.Mean)
	}
}

// A ranking by utility makes every user without noise select his favourite: its regret is that without noise. The noisy users
// select each of the items that they see equally often: 7 standard deviations of 100,000 (10⁻¹⁰).
func TestNoise(t *testing.T) {
	e := defaults("conversions", 1)
	e.Horizon = 3000
	without := regretOf(t, e, Settings{Policies: []string{"utility"}})
	e.Noise = 0.4
	with := regretOf(t, e, Settings{Policies: []string{"utility"}})
	require.Equal(t, without.Regret, with.Regret)
	require.Equal(t, 0.4, with.Noise)

	const draws = 100_000
	n := noise{0.3, newStream(1, 0, forNoise)}
	var counts [4]float64
	for range draws {
		if k, any := n.selects(4); any {
			counts[k]++
		}
	}
	for _, c := range counts {
		require.InDelta(t, 0.075*draws, c, 7*math.Sqrt(0.075*0.925*draws))
	}
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		e.Noise = share
		require.ErrorContains(t, e.Check(), "noise")
	}
}

// A ranking by utility makes every user select the last item, which loses Σ_w P(w)·max_{i≥w} μ_i − μ_n per impression in the mean.
// Given the items, only windows are random: 7 standard errors of 20,000 (3·10⁻¹² each).
func TestDelayModel_RegretOfUtilityIsAsExpected(t *testing.T) {
	for _, s := range []Scenario{"conversions", "instalments", "refunds", "refunds-sum", "revenue", "two"} {
		e := defaults(s, 3)
		e.Horizon = 20_000
		w, err := NewWorld(e, 0)
		require.NoError(t, err)
		means := w.events.means()
		var mean, squares, total float64
		for window := 1; window <= w.n; window++ {
			total += weight(s, window)
		}
		for window := 1; window <= w.n; window++ {
			lost := slices.Max(means[window-1:]) - means[w.n-1]
			mean += weight(s, window) / total * lost
			squares += weight(s, window) / total * lost * lost
		}
		got := regretOf(t, e, Settings{Policies: []string{"utility"}}).Regret.Mean
		require.InDelta(t, 20_000*mean, got, 7*math.Sqrt(20_000*(squares-mean*mean))+1e-9, s)
	}
}

// Without unpaid selections only payoffs of 1 are left, which are all the same.
func TestOnExpiry_DropIsUninformative(t *testing.T) {
	e := defaults("conversions", 1)
	e.Horizon, e.Runs, e.PayoffHorizon = 20_000, 4, 4000
	assumed := regretOf(t, e, Settings{Policies: []string{"moss"}})
	dropped := regretOf(t, e, Settings{Policies: []string{"moss"}, OnExpiry: "drop"})
	require.Less(t, 2*assumed.Regret.Mean, dropped.Regret.Mean)
	require.EqualValues(t, 4000, *assumed.PayoffHorizon)
	require.Zero(t, *assumed.OnExpiry)
	require.Nil(t, dropped.OnExpiry)
	require.Nil(t, assumed.PayoffDelay)

	_, _, err := Combine(e, &Settings{OnExpiry: "2"})
	require.ErrorContains(t, err, "on_expiry", "outside the payoffs' range")
	_, _, err = Combine(e, &Settings{OnExpiry: "0}, sigma: {x: 1"})
	require.ErrorContains(t, err, "on_expiry")
	_, notes, err := Combine(defaults("lazy", 1), &Settings{OnExpiry: "0"})
	require.NoError(t, err)
	require.Contains(t, notes, "on_expiry has no effect here")
	e.PayoffDelay = PayoffDelay{Mean: 1}
	require.ErrorContains(t, e.Check(), "delays of its own")
}

// Against the best at each time, a learner gains nothing by changing with the world. It loses as much as against a fixed ranking or
// more, in the mean over windows.
func TestDynamicRegret(t *testing.T) {
	for _, s := range Scenarios() {
		e := defaults(s, 1)
		e.Horizon = 1500
		r := regretOf(t, e, Settings{Policies: []string{"moss"}})
		require.GreaterOrEqual(t, r.DynamicRegret.Mean, 0.0)
		if !s.AgainstFixed() {
			require.Equal(t, r.Regret, r.DynamicRegret, s)
		}
	}
	e := defaults("switching", 1)
	e.Horizon, e.Runs = 20_000, 4
	r := regretOf(t, e, Settings{Policies: []string{"ftrl"}})
	// The best fixed ranking loses 0.85 or 0.8 in the periods that are not its own.
	require.Greater(t, r.DynamicRegret.Mean, r.Regret.Mean+0.3*20_000*0.3)
}

// All policies play all scenarios, but those for adversarial payoffs where these are normal.
func TestEveryPolicyPlaysEveryScenario(t *testing.T) {
	var names []string
	for _, k := range policy.Specs {
		names = append(names, k.Name)
	}
	for _, s := range Scenarios() {
		e := defaults(s, 1)
		e.Horizon = 100
		all := combine(t, e, Settings{Policies: names})
		results, err := Run(context.Background(), e, all)
		require.NoError(t, err)
		played := map[string]bool{}
		for _, r := range results {
			played[r.Policy] = true
			require.False(t, math.IsNaN(r.Regret.Mean))
		}
		for _, k := range policy.Specs {
			require.Equal(t, fits(e, k.Name), played[k.Name], "%s on %s", k.Name, s)
		}
		require.NotEmpty(t, s.About())
	}
}
