package faults

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A series of n samples whose warm-up is steep, and which then grows by so much a sample.
func series(n int, grows float64, noise func(i int) float64) (all []int64) {
	for i := range n {
		x := 1e8 + grows*float64(i)
		if i < n/warmUp {
			x *= float64(i) / float64(n/warmUp)
		}
		all = append(all, int64(x+noise(i)))
	}
	return all
}

func TestGrowth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	collected := func(i int) float64 { return 3e7 * float64(i%17) / 17 } // as garbage does
	for name, c := range map[string]struct {
		all    []int64
		passes bool
	}{
		"level":                               {series(3600, 0, func(int) float64 { return 0 }), true},
		"level, with garbage":                 {series(3600, 0, collected), true},
		"level, with noise":                   {series(3600, 0, func(int) float64 { return rng.NormFloat64() * 5e6 }), true},
		"level, with peaks at its end":        {series(3600, 0, func(i int) float64 { return map[bool]float64{true: 5e8}[i > 3590] }), true},
		"level, but for a quarter of an hour": {series(3600, 0, func(i int) float64 { return map[bool]float64{true: 5e8}[i > 2000 && i < 2600] }), true},
		"falls":                               {series(3600, -1e4, collected), true},
		"10% an hour, with garbage":           {series(3600, 1e7/2700, collected), false},
		"10% an hour, with noise":             {series(3600, 1e7/2700, func(int) float64 { return rng.NormFloat64() * 5e6 }), false},
		"by half in an hour":                  {series(3600, 5e7/2700, collected), false},
		"few samples, growing":                {series(fewestSamples, 1e7, func(int) float64 { return 0 }), false},
		"none":                                {nil, true},
	} {
		require.Equal(t, c.passes, growth(c.all) <= mostGrowth, "%s: %v", name, growth(c.all))
	}
}

// A straight line's growth is its own. Values added to up to two blocks do not turn level into growing.
func TestGrowth_IsTheLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(200, 2000).Draw(t, "n")
		grows := rapid.Float64Range(0, 2e4).Draw(t, "grows")
		all := series(n, grows, func(int) float64 { return 0 })
		rest := float64(n - n/warmUp)
		want := grows * rest / (1e8 + grows*(float64(n)-rest/2))
		require.InDelta(t, want, growth(all), 0.01+0.05*want)

		from := n/warmUp + rapid.IntRange(0, n/2).Draw(t, "from")
		level := series(n, 0, func(i int) float64 {
			return map[bool]float64{true: 1e9}[i >= from && i < from+n/16]
		})
		require.Less(t, math.Abs(growth(level)), mostGrowth)
	})
}

func TestLevels(t *testing.T) {
	var flat, growing []sample
	for i := range int64(400) {
		flat = append(flat, sample{workers: []int64{1 << 27, 1<<27 + 1}, redis: 1 << 26, read: i, lag: 5})
		growing = append(growing, sample{workers: []int64{1 << 27, 1<<27 + i<<20}, redis: 1 << 26, read: i, lag: 5})
	}
	met := func(samples []sample, moves, restarts int) (missed []string) {
		for _, m := range levels(samples, nil, moves, restarts) {
			if !m.Met {
				missed = append(missed, m.What)
			}
		}
		return missed
	}
	require.Empty(t, met(flat, 3, 0))
	require.Equal(t, []string{"memory of worker 1 after the warm-up"}, met(growing, 3, 0))
	require.Equal(t, []string{"partitions moved to another worker and back", "workers started again"}, met(flat, 0, 1))
	require.Equal(t, []string{"samples"}, met(flat[:fewestSamples-1], 3, 0))
}
