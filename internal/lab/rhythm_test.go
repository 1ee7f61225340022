package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Where items have their quarter of the day, a learner that looks at the clock earns nearly what the best ranking does, and one that does not
// far less. Each bound is eight standard errors or more away from the mean of the runs, whose seed is fixed: by chance a
// bound is missed with a probability below 1e-6.
func TestRhythm_LearnersOfTheClock(t *testing.T) {
	share := func(clock ...string) (share, se float64) {
		e := &Experiment{Scenario: Daypart, Items: Daypart.DefaultItems(), Horizon: 40_000, Lateness: Daypart.DefaultLateness(), Runs: 8, Seed: 11}
		all, _, err := Combine(e, &Settings{Clock: clock})
		require.NoError(t, err)
		results, err := Run(t.Context(), e, all)
		require.NoError(t, err)
		r := results[0]
		share, se = r.Payoff/r.Best, *r.DynamicRegret.Stderr/float64(e.Horizon)/r.Best
		t.Logf("clock %v: %.4f ± %.4f of the best", clock, share, se)
		return share, se
	}
	with, se := share("hour", "weekday")
	require.Greater(t, with-8*se, 0.75)
	without, se := share()
	require.Less(t, without+8*se, 0.65)
}

// Where interest in items fades, a learner that looks at their age earns far more than one that does not. Bounds as above.
func TestNews_LearnersOfAge(t *testing.T) {
	share := func(age bool) (share, se float64) {
		e := &Experiment{Scenario: News, Items: News.DefaultItems(), Horizon: 12_000, Lateness: News.DefaultLateness(), Runs: 4, Seed: 11}
		all, _, err := Combine(e, &Settings{Age: age})
		require.NoError(t, err)
		results, err := Run(t.Context(), e, all)
		require.NoError(t, err)
		r := results[0]
		share, se = r.Payoff/r.Best, *r.DynamicRegret.Stderr/float64(e.Horizon)/r.Best
		t.Logf("age %v: %.4f ± %.4f of the best", age, share, se)
		return share, se
	}
	with, se := share(true)
	require.Greater(t, with-8*se, 0.65)
	without, se := share(false)
	require.Less(t, without+8*se, 0.6)
}
