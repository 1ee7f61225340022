package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// run plays one combination.
func runOne(t testing.TB, e *Experiment, s Settings) *Result {
	t.Helper()
	results, err := Run(context.Background(), e, combine(t, e, s))
	require.NoError(t, err)
	require.Len(t, results, 1)
	return results[0]
}

// below holds the mean of a result's runs, with five standard errors, to its bound. Nothing is left to chance, for the
// seeds are fixed; and with them no mean is nearer to its bound than six standard errors.
func below(t *testing.T, r *Result) {
	t.Helper()
	require.NotNil(t, r.Bound, r.Label())
	t.Logf("%s, %s, %s late: regret %.0f ± %.0f, bound %.0f", r.Label(), r.Scenario, r.PayoffDelay, r.Regret.Mean, *r.Regret.Stderr, *r.Bound)
	require.Less(t, r.Regret.Mean+5**r.Regret.Stderr, *r.Bound, "%s on %s, %s late", r.Label(), r.Scenario, r.PayoffDelay)
}

// Small and large for the horizons of these tests.
var delays = []int64{0, 3, 300}

// Theorem 3.2 with its bound's constant mended, and QPM-D's n·K for late payoffs (appendix C.2). The bound holds with
// probability 1 − δ; δ = 10⁻⁸ makes that of a false alarm.
func TestTheorem32_RegretIsBelowTheBoundAtAnyDelay(t *testing.T) {
	for _, s := range []Scenario{Blocks, Lazy, Mixed, Stationary} {
		for _, k := range delays {
			if s == Blocks && k > 0 {
				continue // nothing is claimed
			}
			for _, radius := range []string{"paper", "subgaussian"} {
				e := &Experiment{Scenario: s, Items: 10, Horizon: 6000, Runs: 4, Seed: 32, Lateness: Lateness{Mean: k}}
				below(t, runOne(t, e, Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Radius: radius, Delta: "1e-8"}))
			}
		}
	}
}

// Theorem 3.1, for utilities that change in each impression; and with δ = 1/t, in expectation.
func TestTheorem31_RegretIsBelowTheBoundAtAnyDelay(t *testing.T) {
	for _, k := range delays {
		for _, delta := range []string{"1e-8", "auto"} {
			e := &Experiment{Scenario: Changing, Items: 10, Horizon: 6000, Runs: 4, Seed: 31, Lateness: Lateness{Mean: k}}
			below(t, runOne(t, e, Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Delta: delta}))
		}
	}
}

// QPM-D costs at most n·K more than no delay (appendix C.2): in the mean over runs, give or take five standard errors.
// The seeds are fixed.
func TestAppendixC2_QPMDsDelayIsAdditive(t *testing.T) {
	const n = 10
	for _, s := range []Scenario{Lazy, Mixed} {
		prompt := &Experiment{Scenario: s, Items: n, Horizon: 6000, Runs: 8, Seed: 33}
		settings := Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Radius: "paper"}
		without := runOne(t, prompt, settings)
		for _, k := range delays[1:] {
			late := *prompt
			late.Lateness.Mean = k
			with := runOne(t, &late, settings)
			more, error2 := with.Regret.Mean-without.Regret.Mean, math.Hypot(*with.Regret.Stderr, *without.Regret.Stderr)
			t.Logf("%s, %d late: %.0f ± %.0f more, allowed %d", s, k, more, error2, n*k)
			require.Less(t, more, float64(n*k)+5*error2)
			require.InDelta(t, *with.Bound-*without.Bound, float64(n*k), 1e-6)
		}
	}
}

// Theorem 4.2 and BOLD's (K+1)·B(T/(K+1)).
func TestTheorem42_RegretIsBelowTheBoundAtAnyDelay(t *testing.T) {
	for _, s := range []Scenario{Stationary, Constrained, Switching, Ranks} {
		index := "item"
		if s == Ranks {
			index = "rank"
		}
		for _, k := range delays {
			for _, settings := range []Settings{{Policies: []string{"osmd"}}, {Policies: []string{"osmd"}, Eta: "doubled"}, {Policies: []string{"ftrl"}}} {
				settings.MaxInstances = []int{0}
				settings.LossIndex = index
				e := &Experiment{Scenario: s, Items: 10, Horizon: 2000, Runs: 8, Seed: 42, Lateness: Lateness{Mean: k}}
				r := runOne(t, e, settings)
				require.EqualValues(t, k+1, r.Instances)
				below(t, r)
			}
		}
	}
}

// Theorem 3.5 is asymptotic, and for consistent algorithms; elimination is one, and as far above as its constant says,
// at any horizon that can be played.
func TestTheorem35_EliminationIsAboveTheLowerBound(t *testing.T) {
	for _, horizon := range []int64{10_000, 50_000} {
		e := &Experiment{Scenario: Blocks, Items: 10, Horizon: horizon, Runs: 4, Seed: 35}
		r := runOne(t, e, Settings{Policies: []string{"elimination"}, Radius: "paper"})
		t.Logf("T = %d: regret %.0f, lower bound %.0f", horizon, r.Regret.Mean, *r.LowerBound)
		require.Greater(t, r.Regret.Mean, *r.LowerBound)
	}
}

func TestBounds_AreTheFormulas(t *testing.T) {
	const n, horizon = 10, 1_000_000
	square := math.Sqrt
	bound := func(e Experiment, s Settings) *float64 {
		e.Items, e.Runs = n, 1
		if e.Horizon == 0 {
			e.Horizon = horizon
		}
		c := combine(t, &e, s)
		require.Len(t, c, 1)
		upper := e.Upper(c[0])
		if upper == nil {
			return nil
		}
		b := upper(float64(e.Horizon))
		return &b
	}
	l := math.Log(4 * n * 1e12 / 0.05)
	paper := Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Radius: "paper"}
	subgaussian := Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}}
	adversarial := func(policy, eta string, instances int) Settings {
		return Settings{Policies: []string{policy}, Eta: eta, MaxInstances: []int{instances}}
	}
	stationary := 9 / 0.06
	// Means of Mixed, in increasing utility, and who they are compared with: the last is undominated, …
	mixed := 1/0.25 + 1/0.4 + 1/0.1 + 1/0.1 + 1/0.2 + 1/0.1 + 1/0.6 + 1/0.2 + 1/0.7
	for k, test := range []struct {
		e    Experiment
		s    Settings
		want float64
	}{
		{Experiment{Scenario: Blocks}, paper, 32 * l * 90},
		{Experiment{Scenario: Blocks}, subgaussian, 64 * l * 90},
		{Experiment{Scenario: Lazy, Lateness: Lateness{Mean: 500}}, paper, 32*l*90 + n*500},
		{Experiment{Scenario: Stationary, Lateness: Lateness{Mean: 7}}, subgaussian, 16*l*stationary + n*7},
		{Experiment{Scenario: Mixed}, subgaussian, 64 * l * mixed},
		{Experiment{Scenario: Stationary, Horizon: 10_000}, adversarial("osmd", "", 0), 2 * square(2*n*10_000)},
		{Experiment{Scenario: Stationary, Horizon: 10_000}, adversarial("osmd", "doubled", 5), 2 * square(2*n*10_000) * math.Sqrt2 / (math.Sqrt2 - 1)},
		{Experiment{Scenario: Switching, Horizon: 10_000, Lateness: Lateness{Mean: 99}}, adversarial("osmd", "", 0), 100 * 2 * square(2*n*100)},
		{Experiment{Scenario: Constrained, Horizon: 10_000, Lateness: Lateness{Mean: 99}}, adversarial("ftrl", "", 100), 100 * 4 * square(n*100)},
		{Experiment{Scenario: Stationary, Horizon: 10_000}, adversarial("ftrl", "1", 1), 4 * square(n*10_000)},
	} {
		got := bound(test.e, test.s)
		require.NotNil(t, got, "%d", k)
		require.InEpsilon(t, test.want, *got, 1e-12, "%d: %s", k, test.e.Scenario)
	}
	narrow := subgaussian
	narrow.Sigma = "0.9"
	for k, test := range []struct {
		e Experiment
		s Settings
	}{
		{Experiment{Scenario: Blocks, Lateness: Lateness{Mean: 1}}, paper},             // windows in blocks, and late
		{Experiment{Scenario: Lazy, Lateness: Lateness{Mean: 5, Random: true}}, paper}, // any delay may come
		{Experiment{Scenario: Lazy}, narrow},                                           // σ below that of the payoffs
		{Experiment{Scenario: Constrained}, subgaussian},                               // means that change
		{Experiment{Scenario: Catalog}, paper},
		{Experiment{Scenario: Lazy}, Settings{Policies: []string{"greedy"}}},
		{Experiment{Scenario: Stationary, Lateness: Lateness{Mean: 5}}, adversarial("ftrl", "", 5)}, // too few instances
		{Experiment{Scenario: Stationary}, adversarial("ftrl", "0.5", 0)},
		{Experiment{Scenario: Stationary}, adversarial("osmd", "0.5", 0)},
		{Experiment{Scenario: Ranks}, adversarial("ftrl", "", 0)}, // losses of items, where they belong to ranks
		{Experiment{Scenario: Catalog}, adversarial("ftrl", "", 0)},
	} {
		require.Nil(t, bound(test.e, test.s), "%d: %s", k, test.e.Scenario)
	}
	e := Experiment{Scenario: Blocks, Items: n, Horizon: horizon}
	lower, ok := e.Lower()
	require.True(t, ok)
	require.InDelta(t, 2487, lower*math.Log(horizon), 0.5)
	e.Scenario = Lazy
	_, ok = e.Lower()
	require.False(t, ok)
}

// The sums over gaps are those of the theorems' sets S and D_s, built as they are defined.
func TestInverseGaps(t *testing.T) {
	const seed = 12
	rng := rand.New(rand.NewPCG(seed, 1))
	for trial := range 500 {
		n := 1 + rng.IntN(9)
		means := make([]float64, n)
		for i := range means {
			if means[i] = rng.Float64(); trial%2 == 0 {
				means[i] = float64(rng.IntN(4)) // with ties
			}
		}
		dominators := func(j int) (all []int) {
			for i := j + 1; i < n; i++ {
				if means[i] > means[j] {
					all = append(all, i)
				}
			}
			return all
		}
		var want float64
		var s []int // undominated, in increasing utility, hence in falling mean or alike
		for j := range means {
			d := dominators(j)
			if len(d) == 0 {
				s = append(s, j)
				continue
			}
			best := math.Inf(-1)
			for _, i := range d {
				best = max(best, means[i])
			}
			want += 1 / (best - means[j])
		}
		for k := 1; k < len(s); k++ {
			if gap := means[s[k-1]] - means[s[k]]; gap > 0 {
				want += 1 / gap
			}
		}
		require.InDelta(t, want, inverseGaps(means), 1e-9*want, fmt.Sprintf("seed %d, %v", seed, means))
	}
	require.InDelta(t, 4+2.5, inverseNeighbours([]float64{.9, .5, .25, .5}), 1e-12)
}
