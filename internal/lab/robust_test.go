//go:build !race

package lab

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// Robust learns, where payoffs stay and where they change. Its loss is below 0.6 of the loss of a ranking by utility, and where the
// best item changes below half of moss's.
func TestRobust_Learns(t *testing.T) {
	for _, x := range []struct {
		scenario Scenario
		noise    float64
		changes  bool
	}{{"stationary", 0, false}, {"switching", 0, true}, {"switching", 0.03, true}, {"often", 0, false}, {"catalog", 0, false}} {
		e := &Experiment{Scenario: x.scenario, Items: x.scenario.DefaultItems(), Horizon: 20_000, Runs: 2, Seed: 1, Noise: x.noise,
			PayoffDelay: PayoffDelay{Mean: 100}}
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{"robust", "utility", "moss"}}))
		require.NoError(t, err)
		require.Equal(t, "robust", results[0].Policy)
		robust, utility, moss := results[0].DynamicRegret.Mean, results[1].DynamicRegret.Mean, results[2].DynamicRegret.Mean
		t.Logf("%s, noise %v: %.0f; utility %.0f, moss %.0f", x.scenario, x.noise, robust, utility, moss)
		require.Less(t, robust, 0.6*utility, "%s", x.scenario)
		if x.changes {
			require.Less(t, robust, moss/2, "%s", x.scenario)
		}
	}
}

// Each part of Robust has a world that needs it, and Robust loses less there than it would without. Ceilings are 5.8 standard
// errors or more above the means of 8 or 16 runs with other seeds (of "tails" 4). They are 4 or more of its own below the mean
// without the part. The seed is fixed, so that a failure is a change of the program or of its random numbers. Were means normal,
// fewer than one new seed in 10⁸ would be above. They are skewed where changes are found late, which makes it more than that.
// Learners that ignore payoffs are above all.
func TestRobust_NeedsItsParts(t *testing.T) {
	for part, x := range map[string]struct {
		scenario        Scenario
		horizon         int64
		runs            int
		lives           []time.Duration
		again           float64
		ceiling, itself float64 // itself is the measured value
	}{
		"level":                         {"wave", 20_000, 4, nil, 0, 250, 127},                                              // without 457
		"tails":                         {"often", 20_000, 4, []time.Duration{time.Second, 8 * time.Second}, 0, 5900, 2996}, // without 7,003: payoffs are rarer than any half-life
		"chances since levels change":   {"often", 40_000, 4, nil, 0, 9000, 2800},                                           // without 13,314
		"looking again":                 {"rising", 50_000, 8, nil, 200, 4000, 1106},                                        // without 7,445
		"silence":                       {"conversions", 30_000, 4, nil, 0, 500, 178},                                       // without 1,101
		"MOSS while nothing changes":    {"churn", 15_000, 4, nil, 0, 1200, 880},                                            // without 1,410
		"levels as flights are weighed": {"nightly", 30_000, 1, nil, 0, 2500, 1740},                                         // without 3,916
	} {
		t.Run(part, func(t *testing.T) {
			e := &Experiment{Scenario: x.scenario, Items: x.scenario.DefaultItems(), Horizon: x.horizon, Runs: x.runs, Seed: 9, PayoffDelay: PayoffDelay{Mean: 100}}
			if x.scenario.OwnDelays() {
				e.PayoffDelay = x.scenario.DefaultPayoffDelay()
			}
			settings := Settings{Policies: []string{"robust"}}
			parts := func(l *config.Learner) { l.HalfLives, l.LookAgain = x.lives, x.again }
			lost := playInstead(t, e, settings, itself, parts).DynamicRegret.Mean
			t.Logf("%s: %.0f; about %.0f is expected", part, lost, x.itself)
			require.Less(t, lost, x.ceiling, part)
			e.Runs = 1 // they lose as much in each
			for name, none := range nonLearners {
				require.Greater(t, playInstead(t, e, settings, none, parts).DynamicRegret.Mean, x.ceiling, "%s: %s", part, name)
			}
		})
	}
}

// However users select, no propensity collapses.
func TestRobust_PropensitiesHaveAFloor(t *testing.T) {
	for _, noise := range []float64{0, 0.01, 0.1} {
		e := &Experiment{Scenario: "switching", Items: 10, Horizon: 20_000, Runs: 1, Seed: 1, Noise: noise, PayoffDelay: PayoffDelay{Mean: 100}}
		p, err := newPlayer(e, combine(t, e, Settings{Policies: []string{"robust"}})[0], 0)
		require.NoError(t, err)
		least := 1.0
		for now := range e.Horizon {
			p.impression(now + 1)
			for _, x := range p.d.Propensities {
				least = min(least, x)
			}
		}
		t.Logf("noise %v: the least is %.2g", noise, least)
		require.Greater(t, least, 1e-8)
	}
}

// Propensities are the frequencies of items' selection, where users are as assumed and where they are not. Rare ones (below 1/64)
// are within a factor of 1.5, frequent ones (from 1/4 on) within 3%. If they are no further off, each comparison fails by chance
// with probability below 1e-8: it leaves six standard deviations more. Propensities of users without noise are too small by a
// factor of 10 and more, for rare items.
func TestRobust_PropensitiesAreFrequencies(t *testing.T) {
	for _, scenario := range []Scenario{"stationary", "switching", "noise:20", "tastes", "tastes:8"} {
		e := &Experiment{Scenario: scenario, Items: scenario.DefaultItems(), Horizon: 20_000, Runs: 1, Seed: 3, PayoffDelay: PayoffDelay{Mean: 100}}
		p, err := newPlayer(e, combine(t, e, Settings{Policies: []string{"robust"}})[0], 0)
		require.NoError(t, err)
		var seen, expected struct{ rare, frequent float64 }
		for now := range e.Horizon {
			p.impression(now + 1)
			if now < e.Horizon/4 { // how users select is not known yet
				continue
			}
			for _, x := range p.d.Propensities {
				if x < 1./64 {
					expected.rare += x
				} else if x >= 1./4 {
					expected.frequent += x
				}
			}
			if x := p.fb.Propensity; x < 1./64 {
				seen.rare++
			} else if x >= 1./4 {
				seen.frequent++
			}
		}
		t.Logf("%s: rare %.0f, expected %.1f; frequent %.0f, expected %.1f", scenario, seen.rare, expected.rare, seen.frequent, expected.frequent)
		within := func(seen, expected, factor float64) {
			require.LessOrEqual(t, seen, expected*factor+6*math.Sqrt(expected*factor), "%s", scenario)
			require.GreaterOrEqual(t, seen, expected/factor-6*math.Sqrt(expected/factor), "%s", scenario)
		}
		within(seen.rare, expected.rare, 1.5)
		within(seen.frequent, expected.frequent, 1.03)
	}
}

func TestRobust_IsLeftOutWhereItDoesNotFit(t *testing.T) {
	for want, x := range map[string]struct {
		e Experiment
		s Settings
	}{
		"robust looks at payoffs": {Experiment{Scenario: "stationary"}, Settings{Delays: []string{"qpmd", "direct"}, Policies: []string{"robust"}}},
		"one known distribution":  {Experiment{Scenario: "blocks"}, Settings{Policies: []string{"robust", "moss"}}},
	} {
		x.e.Items, x.e.Horizon, x.e.Runs = 5, 100, 1
		all, notes, err := Combine(&x.e, &x.s)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Contains(t, notes[0], want)
	}
}
