package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// combine makes combinations that must exist.
func combine(t testing.TB, e *Experiment, s Settings) []*Combination {
	t.Helper()
	all, _, err := Combine(e, &s)
	require.NoError(t, err)
	return all
}

// The same seed gives the same document on any number of cores, seconds apart, and another seed another.
func TestRun_SameSeedSameDocument(t *testing.T) {
	document := func(cores int, seed uint64) string {
		e := &Experiment{Scenario: "stationary", Items: 5, Horizon: 3000, PayoffDelay: PayoffDelay{Mean: 40, Random: true}, Runs: 9, Seed: seed, Cores: cores}
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{"elimination", "greedy", "ftrl"}}))
		require.NoError(t, err)
		for _, r := range results {
			require.Positive(t, r.Seconds)
			r.Seconds = 0
		}
		text, err := json.Marshal(results)
		require.NoError(t, err)
		return string(text)
	}
	one := document(1, 1)
	require.Equal(t, one, document(4, 1))
	require.Equal(t, one, document(0, 1))
	require.NotEqual(t, one, document(4, 2))
}

// Users are the same whoever ranks for them, and others in each run and with each seed.
func TestRun_SameUsersForAll(t *testing.T) {
	e := &Experiment{Scenario: "lazy", Items: 4, Horizon: 500, Runs: 3, Seed: 1}
	play := func(policies ...string) []*Result {
		results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: policies}))
		require.NoError(t, err)
		return results
	}
	both := play("utility", "greedy")
	require.Equal(t, play("greedy")[0].Regret, both[1].Regret)
	require.NotZero(t, *both[1].Regret.SD, "all runs are alike")
	e.Runs = 1
	first := play("greedy")[0].Regret.Mean
	require.Nil(t, play("greedy")[0].Regret.Stderr)
	e.Seed = 2
	require.NotEqual(t, first, play("greedy")[0].Regret.Mean)
}

// A ranking by utility has everybody select his favourite, whose regret is known.
func TestRun_RegretOfUtilityIsKnown(t *testing.T) {
	e := &Experiment{Scenario: "blocks", Items: 10, Horizon: 1000, Runs: 2, Seed: 1}
	results, err := Run(context.Background(), e, combine(t, e, Settings{Policies: []string{"utility"}}))
	require.NoError(t, err)
	require.InDelta(t, 100*(0.9+0.8+0.7+0.6+0.5+0.4+0.3+0.2+0.1), results[0].Regret.Mean, 1e-9)
	require.InDelta(t, 0, *results[0].Regret.SD, 1e-9)
	curve := results[0].Curve
	require.EqualValues(t, 1, curve[0].T)
	require.InDelta(t, 0.9, curve[0].Regret, 1e-12)
	require.EqualValues(t, 1000, curve[len(curve)-1].T)
	require.Equal(t, results[0].Regret.Mean, curve[len(curve)-1].Regret)
}

func TestRun_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Experiment{Scenario: "lazy", Items: 10, Horizon: MaxHorizon, Runs: 4, Seed: 1, Cores: 2}
	e.Progress = func(done, total int64) {
		require.EqualValues(t, 4*MaxHorizon, total)
		cancel()
	}
	_, err := Run(ctx, e, combine(t, e, Settings{}))
	require.ErrorIs(t, err, context.Canceled)
}

func TestGrid(t *testing.T) {
	require.Equal(t, []int64{1}, Grid(1))
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8}, Grid(8))
	grid := Grid(1_000_000)
	require.True(t, slices.IsSorted(grid))
	require.Len(t, slices.Compact(slices.Clone(grid)), len(grid))
	require.EqualValues(t, 1_000_000, grid[len(grid)-1])
	require.Less(t, len(grid), 160)
}

// Delays have the distribution P(k) = (1/(1+M))·(M/(1+M))^k: of 200,000, each count up to 9 and the mean are within 6
// standard deviations (11 times 2·10⁻⁹).
func TestLateness_Geometric(t *testing.T) {
	const seed, draws, m = 10, 200_000, 3
	late := PayoffDelay{Mean: m, Random: true}.drawn(newStream(seed, 0, forDelays))
	counts := map[int64]float64{}
	var sum float64
	for range draws {
		k := late.draw(1 << 40)
		counts[k]++
		sum += float64(k)
	}
	for k := range int64(10) {
		p := 1.0 / (1 + m) * math.Pow(float64(m)/(1+m), float64(k))
		require.InDelta(t, p*draws, counts[k], 6*math.Sqrt(p*(1-p)*draws), "k = %d, seed %d", k, seed)
	}
	require.InDelta(t, m, sum/draws, 6*math.Sqrt(m*(1+m)/float64(draws)))
	require.EqualValues(t, 2, func() (most int64) {
		for range 1000 {
			most = max(most, late.draw(2))
		}
		return most
	}(), "cut off")
}

func TestParsePayoffDelay(t *testing.T) {
	for text, want := range map[string]PayoffDelay{
		"0": {}, "1000": {Mean: 1000}, "geometric:5": {Mean: 5, Random: true}, "geometric:0": {},
	} {
		got, err := ParsePayoffDelay(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "-1", "1.5", "geometric:", "geometric:x", "poisson:3", "10000001", "9e9"} {
		_, err := ParsePayoffDelay(text)
		require.ErrorContains(t, err, "geometric", text)
	}
	text, err := json.Marshal([]PayoffDelay{{Mean: 7}, {Mean: 7, Random: true}})
	require.NoError(t, err)
	require.Equal(t, `[7,"geometric:7"]`, string(text))
	require.Equal(t, "geometric:7", fmt.Sprint(PayoffDelay{Mean: 7, Random: true}))
}
