//go:build !race

package lab

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/theoremtest"
)

// Small and large for the horizons of these tests.
var delays = []int64{0, 3, 300}

// learns checks a result against its bound, and against the loss without learning. In these worlds the bounds of Theorems 3.1 and
// 3.2 exceed the greatest possible loss up to hundreds of thousands of impressions. The seeds are fixed. Over 12 others, with the
// horizons and runs below, the means stayed ten of their standard deviations from the share of the loss without learning. With five
// standard errors added they stayed six from a bound. False alarms are rarer than one in 10⁸.
func learns(t testing.TB, e *Experiment, s Settings, i instead) error {
	r := playInstead(t, e, s, i)
	return cmp.Or(belowBound(t, r), belowNonLearners(t, r, leastLost(t, *e, s)))
}

// fixedUtilities are the checks of Theorem 3.2 with its bound's constant mended, and QPM-D's n·K for late payoffs (appendix
// C.2). The bound holds with probability 1 − δ; δ = 10⁻⁸ makes that of a false alarm.
func fixedUtilities() (checks []check) {
	for _, c := range []struct {
		scenario Scenario
		items    int
	}{{"blocks", 10}, {"lazy", 10}, {"mixed", 10}, {"mixed", 20}, {"stationary", 10}} { // two of 20 have each mean
		s := c.scenario
		for _, k := range delays {
			horizon := int64(30_000)
			switch {
			case s == "blocks" && k > 0:
				continue // nothing is claimed
			case s == "blocks":
				horizon = 150_000
			case k == 300, c.items == 20:
				horizon = 60_000
			}
			for _, radius := range []string{"paper", "subgaussian"} {
				checks = append(checks, check{World: fmt.Sprintf("%s, %d items, %d late, %s", s, c.items, k, radius), Run: func(t testing.TB, i instead) error {
					e := &Experiment{Scenario: s, Items: c.items, Horizon: horizon, Runs: 2, Seed: 32, PayoffDelay: PayoffDelay{Mean: k}}
					return learns(t, e, Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Radius: radius, Delta: "1e-8"}, i)
				}})
			}
		}
	}
	return checks
}

func TestTheorem32_RegretIsBelowTheBoundAtAnyDelay(t *testing.T) {
	theoremtest.Holds(t, fixedUtilities(), itself)
}

// changingUtilities are the checks of Theorem 3.1, for utilities that change in each impression; and with δ = 1/t, in
// expectation.
func changingUtilities() (checks []check) {
	for _, k := range delays {
		for _, delta := range []string{"1e-8", "auto"} {
			checks = append(checks, check{World: fmt.Sprintf("%d late, δ = %s", k, delta), Run: func(t testing.TB, i instead) error {
				e := &Experiment{Scenario: "changing", Items: 10, Horizon: 30_000, Runs: 2, Seed: 31, PayoffDelay: PayoffDelay{Mean: k}}
				return learns(t, e, Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Delta: delta}, i)
			}})
		}
	}
	return checks
}

func TestTheorem31_RegretIsBelowTheBoundAtAnyDelay(t *testing.T) {
	theoremtest.Holds(t, changingUtilities(), itself)
}

// additive are the checks that QPM-D costs at most n·K more than no delay (appendix C.2): in the mean over runs, within five
// standard errors. And it learns.
func additive() (checks []check) {
	const n = 10
	settings := Settings{Policies: []string{"elimination"}, Delays: []string{"qpmd"}, Radius: "paper"}
	for _, s := range []Scenario{"lazy", "mixed"} {
		for _, k := range delays[1:] {
			checks = append(checks, check{World: fmt.Sprintf("%s, %d late", s, k), Run: func(t testing.TB, i instead) error {
				prompt := &Experiment{Scenario: s, Items: n, Horizon: 20_000, Runs: 8, Seed: 33}
				late := *prompt
				late.PayoffDelay.Mean = k
				without, with := playInstead(t, prompt, settings, i), playInstead(t, &late, settings, i)
				require.InDelta(t, *with.Bound-*without.Bound, float64(n*k), 1e-6)
				more, stderr := with.Regret.Mean-without.Regret.Mean, math.Hypot(*with.Regret.Stderr, *without.Regret.Stderr)
				t.Logf("%s, %d late: %.0f ± %.0f more, allowed %d", s, k, more, stderr, n*k)
				if !(more < float64(n*k)+5*stderr) {
					return fmt.Errorf("%.0f ± %.0f more", more, stderr)
				}
				least := min(leastLost(t, *prompt, settings), leastLost(t, late, settings))
				return cmp.Or(belowNonLearners(t, without, least), belowNonLearners(t, with, least))
			}})
		}
	}
	return checks
}

func TestAppendixC2_QPMDsDelayIsAdditive(t *testing.T) { theoremtest.Holds(t, additive(), itself) }

// adversarial are the checks of Theorem 4.2 and BOLD's (K+1)·B(T/(K+1)).
func adversarial() (checks []check) {
	for _, s := range []Scenario{"stationary", "constrained", "switching", "ranks"} {
		index := "item"
		if s == "ranks" {
			index = "rank"
		}
		for _, k := range delays {
			for _, settings := range []Settings{{Policies: []string{"osmd"}}, {Policies: []string{"osmd"}, Eta: "doubled"}, {Policies: []string{"ftrl"}}} {
				settings.MaxInstances = []int{0}
				settings.LossIndex = index
				e := Experiment{Scenario: s, Items: 4, Horizon: 8000, Runs: 4, Seed: 42, PayoffDelay: PayoffDelay{Mean: k}}
				switch {
				case s == "switching" || k == 300:
					e.Items, e.Horizon, e.Runs = 10, 2000, 32
				case k == 3:
					e.Horizon = 16_000
				}
				c := check{World: fmt.Sprintf("%s %s on %s, %d late", settings.Policies[0], settings.Eta, s, k), Run: func(t testing.TB, i instead) error {
					return learns(t, &e, settings, i)
				}}
				if k == 300 {
					c.Blind = "each of 301 instances has six payoffs, of which nobody learns; it is for the bound"
					c.Run = func(t testing.TB, i instead) error { return belowBound(t, playInstead(t, &e, settings, i)) }
				}
				checks = append(checks, c)
			}
		}
	}
	return checks
}

func TestTheorem42_RegretIsBelowTheBoundAtAnyDelay(t *testing.T) {
	theoremtest.Holds(t, adversarial(), itself)
}

// lowerBound is the check of Theorem 3.5, which is asymptotic, and for consistent algorithms. elimination is one, and its regret
// exceeds the bound by its constant at any horizon that can be played. It is consistent: per impression, it loses less than 0.75
// times as much with ten times the impressions.
func lowerBound() []check {
	return []check{{World: "blocks", Run: func(t testing.TB, i instead) error {
		perImpression := math.Inf(1)
		for _, horizon := range []int64{10_000, 100_000} {
			e := &Experiment{Scenario: "blocks", Items: 10, Horizon: horizon, Runs: 4, Seed: 35}
			r := playInstead(t, e, Settings{Policies: []string{"elimination"}, Radius: "paper"}, i)
			t.Logf("T = %d: regret %.0f, lower bound %.0f", horizon, r.Regret.Mean, *r.LowerBound)
			if !(r.Regret.Mean > *r.LowerBound) {
				return fmt.Errorf("T = %d: a regret of %.0f, lower bound %.0f", horizon, r.Regret.Mean, *r.LowerBound)
			}
			if err := below(t, r, r.Regret.Mean, learnt*perImpression*float64(horizon), "0.75 times as much per impression"); err != nil {
				return err
			}
			perImpression = r.Regret.Mean / float64(horizon)
		}
		return nil
	}}}
}

func TestTheorem35_EliminationIsAboveTheLowerBound(t *testing.T) {
	theoremtest.Holds(t, lowerBound(), itself)
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
		{Experiment{Scenario: "blocks"}, paper, 32 * l * 90},
		{Experiment{Scenario: "blocks"}, subgaussian, 64 * l * 90},
		{Experiment{Scenario: "lazy", PayoffDelay: PayoffDelay{Mean: 500}}, paper, 32*l*90 + n*500},
		{Experiment{Scenario: "stationary", PayoffDelay: PayoffDelay{Mean: 7}}, subgaussian, 16*l*stationary + n*7},
		{Experiment{Scenario: "mixed"}, subgaussian, 64 * l * mixed},
		{Experiment{Scenario: "stationary", Horizon: 10_000}, adversarial("osmd", "", 0), 2 * square(2*n*10_000)},
		{Experiment{Scenario: "stationary", Horizon: 10_000}, adversarial("osmd", "doubled", 5), 2 * square(2*n*10_000) * math.Sqrt2 / (math.Sqrt2 - 1)},
		{Experiment{Scenario: "switching", Horizon: 10_000, PayoffDelay: PayoffDelay{Mean: 99}}, adversarial("osmd", "", 0), 100 * 2 * square(2*n*100)},
		{Experiment{Scenario: "constrained", Horizon: 10_000, PayoffDelay: PayoffDelay{Mean: 99}}, adversarial("ftrl", "", 100), 100 * 4 * square(n*100)},
		{Experiment{Scenario: "stationary", Horizon: 10_000}, adversarial("ftrl", "1", 1), 4 * square(n*10_000)},
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
		{Experiment{Scenario: "blocks", PayoffDelay: PayoffDelay{Mean: 1}}, paper},             // windows in blocks, and late
		{Experiment{Scenario: "lazy", PayoffDelay: PayoffDelay{Mean: 5, Random: true}}, paper}, // any delay may come
		{Experiment{Scenario: "lazy"}, narrow},                                                 // σ below that of the payoffs
		{Experiment{Scenario: "constrained"}, subgaussian},                                     // means that change
		{Experiment{Scenario: "catalog"}, paper},
		{Experiment{Scenario: "lazy"}, Settings{Policies: []string{"greedy"}}},
		{Experiment{Scenario: "stationary", PayoffDelay: PayoffDelay{Mean: 5}}, adversarial("ftrl", "", 5)}, // too few instances
		{Experiment{Scenario: "stationary"}, adversarial("ftrl", "0.5", 0)},
		{Experiment{Scenario: "stationary"}, adversarial("osmd", "0.5", 0)},
		{Experiment{Scenario: "ranks"}, adversarial("ftrl", "", 0)}, // losses of items, where they belong to ranks
		{Experiment{Scenario: "catalog"}, adversarial("ftrl", "", 0)},
		{Experiment{Scenario: "blocks", Partitions: 8}, paper}, // each learns from a part of the impressions
		{Experiment{Scenario: "stationary", Partitions: 8}, adversarial("ftrl", "", 0)},
	} {
		require.Nil(t, bound(test.e, test.s), "%d: %s", k, test.e.Scenario)
	}
	e := Experiment{Scenario: "blocks", Items: n, Horizon: horizon}
	lower, ok := e.Lower()
	require.True(t, ok)
	require.InDelta(t, 2487, lower*math.Log(horizon), 0.5)
	e.Tastes = 1
	_, ok = e.Lower()
	require.False(t, ok)
	e.Tastes = 0
	e.Scenario = "lazy"
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
		for k := range s { // the next better one
			for m := k - 1; m >= 0; m-- {
				if gap := means[s[m]] - means[s[k]]; gap > 0 {
					want += 1 / gap
					break
				}
			}
		}
		require.InDelta(t, want, inverseGaps(means), 1e-9*want, fmt.Sprintf("seed %d, %v", seed, means))
	}
	require.InDelta(t, 4+2.5+2.5, inverseNeighbours([]float64{.9, .5, .25, .5}), 1e-12)
}
