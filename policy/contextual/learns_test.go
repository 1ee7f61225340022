package contextual

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// A feature that nobody had for a million payoffs is learned within a hundred of its own. The fit is made as soon as one direction
// is known better, however small its part in the whole.
func TestModel_LearnsAFeatureThatAppearsLate(t *testing.T) {
	s, err := features.New(features.Declaration{Item: []features.Feature{{Name: "old", Low: -1, High: 1}, {Name: "new", Low: -1, High: 1}}})
	require.NoError(t, err)
	m := newModel(t, s, 1)
	rng := rand.New(rand.NewPCG(3, 1))
	const items = 100
	w := newWorld(m, items)
	pay := func(x []int8, set bool) {
		i := int32(rng.IntN(items))
		c := &w.cells[i]
		mean := 0.5 + 0.1*float64(x[1])/127 + 0.2*float64(x[2])/127
		r := int64((mean + 0.1*rng.NormFloat64()) * Units)
		c.n, c.r = c.n+1, c.r+r
		for j, k := range x {
			c.s[j] += int64(k)
		}
		m.Total.Add(x, r)
		if set {
			w.set(i)
		}
	}
	for range 1_000_000 {
		pay([]int8{127, int8(rng.IntN(255) - 127), 0}, false)
	}
	for i := range int32(items) {
		w.set(i)
	}
	require.True(t, m.Fit())
	value, sd := m.Coefficient(2)
	require.InDelta(t, 0, value, 1e-9)
	require.Greater(t, sd, 0.02)
	fits := m.Fits()
	for range 100 {
		pay([]int8{127, int8(rng.IntN(255) - 127), int8(rng.IntN(255) - 127)}, true)
		m.Fit()
	}
	value, sd = m.Coefficient(2)
	require.InDelta(t, 0.2, value, 6*0.02, "some deviations of a hundred payoffs, with what is assumed")
	require.Less(t, sd, 0.03)
	require.Greater(t, m.Fits(), fits+3)
	require.Less(t, m.Fits(), fits+60, "not for each payoff")
	t.Logf("%.3f ± %.3f after %d fits", value, sd, m.Fits()-fits)
}
