//go:build !race

package lab

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy"
)

// TestUtilities_RegretAfterTheBurnInIsThatOfGivenOnes: once a learner has found the order, its loss is that of one that is given
// it, within four standard errors of the difference. (The seeds are fixed: there are no false alarms.) The order is found long
// before the end. The burn-in's payoffs give a head start, which is small here.
func TestUtilities_RegretAfterTheBurnInIsThatOfGivenOnes(t *testing.T) {
	for _, c := range []struct {
		scenario Scenario
		policy   string
		late     int64
	}{{"lazy", "elimination", 0}, {"lazy", "elimination", 100}, {"stationary", "ftrl", 100}, {"switching", "ftrl", 0}, {"mixed", "utility", 0}} {
		e := &Experiment{Scenario: c.scenario, Items: 8, Horizon: 20_000, PayoffDelay: PayoffDelay{Mean: c.late}, Runs: 16, Seed: 2}
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{c.policy}, Utilities: []string{"given", "sorted"}}))
		require.NoError(t, err)
		given, sorted := results[0], results[1]
		require.Nil(t, given.BurnIn)
		b := sorted.BurnIn
		require.Zero(t, b.Unfinished)
		require.Less(t, b.Last, 1000.0)
		require.Greater(t, b.Impressions.Mean, 7.0, "fewer cannot certify 8 items")
		require.InDelta(t, sorted.Regret.Mean, b.During.Mean+b.After.Mean, 1e-6)
		noise := math.Hypot(*given.Regret.Stderr, *b.After.Stderr)
		// The burn-in's impressions are excluded here; given utilities have some loss in them too.
		require.InDelta(t, given.Regret.Mean, b.After.Mean, 4*noise+given.Regret.Mean*b.Last/float64(e.Horizon), "%v: %v", c, b)
	}
}

// TestUtilities_SocialUsersAgreeInTheEnd: users who learn from each other select by the true order once the learner takes
// it for certain.
func TestUtilities_SocialUsersAgreeInTheEnd(t *testing.T) {
	e := &Experiment{Scenario: "stationary", Items: 5, Horizon: 20_000, Runs: 8, Seed: 1}
	results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{"ftrl"}, Utilities: []string{"social", "given"}}))
	require.NoError(t, err)
	social, given := results[0], results[1]
	require.Zero(t, social.BurnIn.Unfinished)
	require.Less(t, social.BurnIn.Last, 8000.0)
	require.InDelta(t, given.Regret.Mean, social.BurnIn.After.Mean, 4*math.Hypot(*given.Regret.Stderr, *social.BurnIn.After.Stderr)+
		given.Regret.Mean*social.BurnIn.Last/float64(e.Horizon))
}

func TestUtilities_WhatCannotBeFoundIsLeftOut(t *testing.T) {
	for _, s := range []Scenario{"changing", "ranks"} {
		e := &Experiment{Scenario: s, Items: 5, Horizon: 10, Runs: 1}
		_, notes, err := Combine(e, &Settings{Policies: []string{"utility"}, Utilities: []string{"sorted"}})
		require.ErrorIs(t, err, ErrNothingToPlay)
		require.Contains(t, notes[0], "order of its own")
	}
	e := &Experiment{Scenario: "lazy", Items: 5, Horizon: 10, Runs: 1}
	_, _, err := Combine(e, &Settings{Policies: []string{"utility"}, Utilities: []string{"mixed"}})
	var setting *config.SettingError
	require.ErrorAs(t, err, &setting)
	require.Equal(t, "utilities", setting.Key)
}

// TestVeil_HidesTheOrder: a learner sees a permutation that is another in each run, and selections are mapped back.
func TestVeil_HidesTheOrder(t *testing.T) {
	e := &Experiment{Scenario: "catalog", Items: 60, Horizon: 50, Runs: 2, Seed: 1}
	var first []policy.Item
	for run := range 2 {
		v := newVeil(e, config.Sorted, run)
		w, err := NewWorld(e, run)
		require.NoError(t, err)
		for range 20 {
			w.Next()
			v.hide(w.candidates)
			require.IsIncreasing(t, v.seen)
			for k, at := range v.positions {
				require.Equal(t, v.seen[k], v.labels[w.candidates[at]])
			}
		}
		require.NotEqual(t, first, v.labels)
		first = v.labels
	}
	require.Nil(t, newVeil(e, config.Given, 0))
}

func TestPlot_MarksTheEndOfTheBurnIn(t *testing.T) {
	e := &Experiment{Scenario: "lazy", Items: 4, Horizon: 500, Runs: 2, Seed: 1}
	draw := func(utilities string) string {
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{"utility"}, Utilities: []string{utilities}}))
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, Plot(&b, "svg", results))
		return b.String()
	}
	require.Contains(t, draw("sorted"), "dot: end of burn-in")
	require.NotContains(t, draw("given"), "burn-in")
}
