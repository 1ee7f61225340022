package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// The quantile is that of another implementation, and where numbers become small in the tails, of its inverse.
func TestNormal_IsTheQuantile(t *testing.T) {
	check := func(t require.TestingT, u uint64) {
		x := normal(u)
		p := (float64(u>>12) + 0.5) * 0x1p-52
		require.InDelta(t, distuv.UnitNormal.Quantile(p), x, 1e-7*(1+math.Abs(x)), "%x", u)
		if x < 0 {
			require.InEpsilon(t, p, 0.5*math.Erfc(-x/math.Sqrt2), 1e-12, "%x", u)
		}
		require.Equal(t, -x, normal(^u), "symmetric")
		require.LessOrEqual(t, math.Abs(x), 8.3)
		require.LessOrEqual(t, x, normalAtMost[u>>cellShift])
	}
	for cell := range uint64(1 << cellBits) {
		check(t, cell<<cellShift)
		check(t, (cell+1)<<cellShift-1)
		if cell > 0 {
			require.Less(t, normalAtMost[cell-1], normalAtMost[cell])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64().Draw(t, "u")
		check(t, u)
		check(t, u>>rapid.IntRange(0, 63).Draw(t, "shift")) // the tails
	})
}

// Draws are fixed for ever: rankings in the log were made with them.
func TestNormal_StaysAsItIs(t *testing.T) {
	for u, want := range map[uint64]float64{
		0: -8.209536151601387, 1 << 63: 2.7829164246717676e-16, 0xc000000000000000: 0.6744897501960819,
		0xf000000000000000: 1.5341205443525465, 0x0123456789abcdef: -2.6162982036439675,
	} {
		require.InDelta(t, want, normal(u), 1e-12*math.Abs(want), "%x", u)
	}
}

// 100,000 draws against the normal distribution (Kolmogorov and Smirnov): the distance exceeds 2.7/√n with a probability
// of 2·exp(−2·2.7²) < 10⁻⁶.
func TestThompson_DrawsAreNormal(t *testing.T) {
	const draws = 100_000
	sample := make([]float64, draws)
	for k := range sample {
		sample[k] = normal(DecisionKey(1, 2, "draws", 3, int64(k/10)).Uint64(normals + uint64(k%10)))
	}
	slices.Sort(sample)
	var distance float64
	for k, x := range sample {
		p := distuv.UnitNormal.CDF(x)
		distance = max(distance, math.Abs(p-float64(k)/draws), math.Abs(p-float64(k+1)/draws))
	}
	t.Logf("distance %.5f", distance)
	require.Less(t, distance, 2.7/math.Sqrt(draws))
}

// Of two items the first leads as often as a draw of its posterior is the larger one: P = Φ((m_1−m_2)/√(v_1+v_2)). In
// 40,000 decisions the share has a standard deviation of at most 0.0025; six of them are exceeded with a probability
// below 10⁻⁸.
func TestThompson_LeadsAsOftenAsItIsBest(t *testing.T) {
	belief := Belief{Sigma: 0.4, Prior: FixedPrior, Mean: 0.6, SD: 0.2} // κ = 4
	in := Input{Items: seq(2), Table: tableOf(sumsOf(4, 0.4), sumsOf(12, 0.55))}
	await(in.Table, []Evidence{{Open: 8}, {}})
	p := thompson(t, belief)
	leads := 0
	for k := range int64(40_000) {
		in.Key = DecisionKey(1, 1, "posterior", 0, k)
		order := rank(p, &in)
		require.Equal(t, order, rank(p, &in), "the same decision again")
		if order[0] == 0 {
			leads++
		}
	}
	m := [2]float64{(4*0.4 + 4*0.6) / 8, (12*0.55 + 4*0.6) / 16}
	v := [2]float64{0.16 / 16, 0.16 / 16}
	want := distuv.UnitNormal.CDF((m[0] - m[1]) / math.Sqrt(v[0]+v[1]))
	t.Logf("%.4f, expected %.4f", float64(leads)/40_000, want)
	require.InDelta(t, want, float64(leads)/40_000, 6*0.0025)
}
