package contextual

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// TestModel_Parts compares the part of each feature and each node with dense conditioning, and their sum with the candidate's
// estimate.
func TestModel_Parts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := spaceOf(t, rng.IntN(3), rng.IntN(4))
		m := newModel(t, s, rng.IntN(MaxLevels+1))
		m.unit = 1 << 50
		for l := range m.kappa {
			m.kappa[l] = math.Exp(rng.NormFloat64())
		}
		m.recount()
		w := newWorld(m, 1+rng.IntN(9))
		for range rng.IntN(40) {
			w.pay(int32(rng.IntN(len(w.cells))), randomX(rng, s), rng.Int64N(Units+1))
		}
		require.True(t, m.solve(&m.fit))
		d := w.dense(t)
		for range 5 {
			cell, x := int32(rng.IntN(len(w.cells))), randomX(rng, s)
			ofFeatures, ofLevels := m.Parts(path(cell), x)
			require.Len(t, ofFeatures, s.Dim())
			require.Len(t, ofLevels, m.Levels())
			sum := 0.0
			for j, part := range ofFeatures {
				require.InDelta(t, d.mean.AtVec(j)*float64(x[j])/features.One, part, 1e-10)
				sum += part
			}
			for l, part := range ofLevels {
				require.InDelta(t, d.mean.AtVec(d.offset[l]+int(path(cell)[l])), part, 1e-10)
				sum += part
			}
			mean, _ := m.Known(path(cell), x, 0)
			require.InDelta(t, mean, sum, 1e-12)
		}
	})
}

// TestModel_Deviations: the deviation of payoffs by features is counted over the payoffs, and the one by levels is that of the
// fit's variances.
func TestModel_Deviations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := spaceOf(t, 1, 2)
	m := newModel(t, s, 2)
	require.Zero(t, m.OfFeatures(), "there are no payoffs")
	require.Equal(t, 0.5, m.Deviation(-1))
	w := newWorld(m, 8)
	var all [][]int8
	for k := range 200 {
		x := randomX(rng, s)
		all = append(all, x)
		w.pay(int32(k%8), x, Units/2+int64(x[2])*(Units/4)/features.One)
		m.Fit()
	}
	var sum, squares float64
	for _, x := range all {
		var at float64
		for j, k := range x {
			theta, _ := m.Coefficient(j)
			at += theta * float64(k) / features.One
		}
		sum, squares = sum+at, squares+at*at
	}
	mean := sum / float64(len(all))
	require.InDelta(t, math.Sqrt(squares/float64(len(all))-mean*mean), m.OfFeatures(), 1e-9)
	require.InDelta(t, 0.25/math.Sqrt(3), m.OfFeatures(), 0.03, "a quarter times a number from -1 to 1")
	require.Less(t, m.Deviation(-1), 0.15, "little is left")
	for l := range m.Levels() {
		require.InDelta(t, m.Deviation(-1)/math.Sqrt(m.kappa[l]), m.Deviation(l), 1e-12)
	}
}

// TestModel_DeviationsOfForgottenItems: most items are dropped, and their payoffs differed as those of the others do.
func TestModel_DeviationsOfForgottenItems(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	s := spaceOf(t, 1, 2)
	m := newModel(t, s, 0)
	const items, each = 100, 50
	for i := range items {
		n, r, sums := int64(0), int64(0), make([]int64, s.Dim())
		for range each {
			x := randomX(rng, s)
			m.Total.Add(x, Units/2)
			n, r = n+1, r+Units/2
			for j := range x {
				sums[j] += int64(x[j])
			}
		}
		if i == items/10 {
			before := m.Spread(2)
			require.InDelta(t, 1/math.Sqrt(3), before, 0.06)
		}
		if i >= items/10 {
			m.Total.Forget(n, r, sums)
		}
	}
	require.InDelta(t, 1/math.Sqrt(3), m.Spread(2), 0.03)
}
