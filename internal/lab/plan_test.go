package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

func TestCombine_WhatDoesNotGoTogetherIsLeftOutWithAReason(t *testing.T) {
	names := func(all []*Combination) (out []string) {
		for _, c := range all {
			out = append(out, string(c.Learner.Policy)+"+"+string(c.Learner.Delay))
		}
		return out
	}
	e := &Experiment{Scenario: "stationary", Items: 10, Horizon: 1000, Runs: 1}
	all, notes, err := Combine(e, &Settings{Policies: []string{"elimination", "ftrl", "elimination"}, Delays: []string{"qpmd", "bold"}})
	require.NoError(t, err)
	require.Equal(t, []string{"elimination+qpmd", "ftrl+bold"}, names(all))
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], "elimination with bold is left out")
	require.Contains(t, notes[0], "it goes with ftrl, osmd")
	require.Contains(t, notes[1], "ftrl with qpmd is left out")

	all, _, err = Combine(e, &Settings{Policies: []string{"greedy", "osmd"}, MaxInstances: []int{0, 4}})
	require.NoError(t, err)
	require.Equal(t, []string{"greedy+direct", "osmd+bold", "osmd+bold"}, names(all), "each with its default")
	require.Nil(t, all[0].instances())
	require.Equal(t, 0, *all[1].instances())
	require.Equal(t, 4, *all[2].instances())

	e.Scenario = "lazy"
	all, notes, err = Combine(e, &Settings{Policies: []string{"ftrl", "greedy"}, Radius: "paper"})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], "ftrl is left out: it needs payoffs within [0,1]")
	require.Equal(t, "radius has no effect here", notes[1])

	_, notes, err = Combine(e, &Settings{Policies: []string{"ftrl"}})
	require.ErrorIs(t, err, ErrNothingToPlay)
	require.Len(t, notes, 1)
	e.Scenario = "stationary"
	_, _, err = Combine(e, &Settings{Policies: []string{"ftrl"}, Delays: []string{"qpmd"}})
	require.ErrorIs(t, err, ErrNothingToPlay)
	require.ErrorContains(t, err, "qpmd does not go with policy ftrl")
}

func TestCombine_FaultsNameTheSetting(t *testing.T) {
	e := &Experiment{Scenario: "stationary", Items: 10, Horizon: 1000, Runs: 1}
	for key, s := range map[string]Settings{
		"policy":     {Policies: []string{"gready"}},
		"delay":      {Delays: []string{"qmpd"}},
		"sigma":      {Sigma: "-1"},
		"delta":      {Delta: "2"},
		"radius":     {Radius: "large"},
		"eta":        {Policies: []string{"ftrl"}, Eta: "0"},
		"loss_index": {Policies: []string{"ftrl"}, LossIndex: "user"},
	} {
		_, _, err := Combine(e, &s)
		var fault *config.SettingError
		require.ErrorAs(t, err, &fault, key)
		require.Equal(t, key, fault.Key)
	}
	_, _, err := Combine(e, &Settings{Sigma: "1, policy: greedy"})
	require.ErrorContains(t, err, "sigma", "a setting is one value")
	for key, e := range map[string]Experiment{
		"scenario":     {Scenario: "x", Items: 1, Horizon: 1, Runs: 1},
		"items":        {Scenario: "lazy", Items: 0, Horizon: 1, Runs: 1},
		"horizon":      {Scenario: "lazy", Items: 1, Horizon: -3, Runs: 1},
		"runs":         {Scenario: "lazy", Items: 1, Horizon: 1, Runs: MaxRuns + 1},
		"partitions":   {Scenario: "lazy", Items: 1, Horizon: 1, Runs: 1, Partitions: -1},
		"share-every":  {Scenario: "lazy", Items: 1, Horizon: 1, Runs: 1, ShareEvery: -1},
		"cores":        {Scenario: "lazy", Items: 1, Horizon: 1, Runs: 1, Cores: -1},
		"payoff-delay": {Scenario: "lazy", Items: MaxItems, Horizon: MaxHorizon, Runs: 1, PayoffDelay: PayoffDelay{Mean: MaxDelay}},
	} {
		var fault *config.SettingError
		require.ErrorAs(t, e.Check(), &fault, key)
		require.Equal(t, key, fault.Key)
	}
}

// Sigma is that of the scenario, windows are known to those that ask, and osmd knows how often an instance is fed.
func TestCombine_DefaultsOfTheLaboratory(t *testing.T) {
	e := &Experiment{Scenario: "lazy", Items: 10, Horizon: 1000, Runs: 1, PayoffDelay: PayoffDelay{Mean: 99}}
	require.Equal(t, 1.0, combine(t, e, Settings{Policies: []string{"elimination"}})[0].Learner.Sigma)
	e.Scenario = "stationary"
	require.Equal(t, 0.5, combine(t, e, Settings{Policies: []string{"elimination"}})[0].Learner.Sigma)
	require.Equal(t, 0.3, combine(t, e, Settings{Policies: []string{"elimination"}, Sigma: "0.3"})[0].Learner.Sigma)
	for instances, fed := range map[int]float64{0: 10, 1: 1000, 7: 143, 100: 10, 5000: 10} {
		l := combine(t, e, Settings{Policies: []string{"osmd"}, MaxInstances: []int{instances}})[0].Learner
		require.InDelta(t, fed, 2/(l.Eta.Value*l.Eta.Value), 1e-9, "%d", instances)
		w, err := l.Windows.Distribution()
		require.NoError(t, err)
		require.Equal(t, 10, w.Max())
	}
	require.Equal(t, config.OrAuto{Auto: true}, combine(t, e, Settings{Policies: []string{"osmd"}, Eta: "doubled"})[0].Learner.Eta)
}
