//go:build !race

package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// shareOfBest plays runs of a scenario, and returns which share of the best payoff learners earn, with its standard error.
func shareOfBest(t *testing.T, s Scenario, horizon int64, runs int, settings *Settings) (share, se float64) {
	e := &Experiment{Scenario: s, Items: s.DefaultItems(), Horizon: horizon, PayoffDelay: s.DefaultPayoffDelay(), Runs: runs, Seed: 11}
	all, _, err := Combine(e, settings)
	require.NoError(t, err)
	results, err := Run(t.Context(), e, all)
	require.NoError(t, err)
	r := results[0]
	share, se = r.Payoff/r.Best, *r.DynamicRegret.Stderr/float64(e.Horizon)/r.Best
	t.Logf("clock %v, age %v: %.4f ± %.4f of the best", settings.Clock, settings.Age, share, se)
	return share, se
}

// Where items have their quarter of the day, a learner that looks at the clock earns nearly the payoff of the best ranking, and one without
// it far less. Each bound is eight standard errors or more away from the mean of the runs, whose seed is fixed: by chance a
// bound is missed with a probability below 1e-6.
func TestRhythm_LearnersOfTheClock(t *testing.T) {
	with, se := shareOfBest(t, "daypart", 40_000, 4, &Settings{Clock: []string{"hour", "weekday"}})
	require.Greater(t, with-8*se, 0.75)
	without, se := shareOfBest(t, "daypart", 40_000, 4, &Settings{})
	require.Less(t, without+8*se, 0.65)
}

// Where interest in items fades, a learner that looks at their age earns far more than one that does not. Bounds as above.
func TestNews_LearnersOfAge(t *testing.T) {
	with, se := shareOfBest(t, "news", 12_000, 4, &Settings{Age: true})
	require.Greater(t, with-8*se, 0.65)
	without, se := shareOfBest(t, "news", 12_000, 4, &Settings{})
	require.Less(t, without+8*se, 0.6)
}
