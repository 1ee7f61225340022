package confidence

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestNormal_SolvesTheMixture integrates the mixture over the prior by definition. For a mean estimated with information 1/v and a normal
// prior of variance s², its likelihood ratio at the bound is 1/α.
func TestNormal_SolvesTheMixture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alpha := rapid.Float64Range(0.001, 0.5).Draw(t, "alpha")
		n := NewNormal(alpha, math.Exp(rapid.Float64Range(-5, 5).Draw(t, "log v0")))
		v := math.Exp(rapid.Float64Range(-5, 5).Draw(t, "log v"))
		d, sum := n.Radius(v), 0.0
		// The integrand exp(θd/v − θ²/2v)·φ(θ/s) is normal around d·s²/(s²+v); within ten deviations, by 2,000 midpoints.
		sd := math.Sqrt(1 / (1/v + 1/n.s2))
		middle := d * n.s2 / (n.s2 + v)
		for k := range 2000 {
			theta := middle + sd*(float64(k)-999.5)/100
			sum += math.Exp(theta*d/v-theta*theta/(2*v)-theta*theta/(2*n.s2)) / math.Sqrt(2*math.Pi*n.s2) * sd / 100
		}
		require.InEpsilon(t, 1/alpha, sum, 1e-6)
		require.Greater(t, n.Radius(v*1.01), d)
	})
	require.Zero(t, NewNormal(0.05, 1).Radius(0))
	require.Panics(t, func() { NewNormal(0.05, 0) })
	require.Panics(t, func() { NewNormal(1, 1) })
}

// counts plays 400 runs, and counts those of which the first, and the second, is true.
func counts(play func(seed uint64) (first, second bool)) (firsts, seconds int) {
	for seed := range uint64(400) {
		first, second := play(seed)
		if first {
			firsts++
		}
		if second {
			seconds++
		}
	}
	return firsts, seconds
}

// TestNormal_HoldsAtEveryLook: a random walk of 3,000 normal steps leaves the bound in few of 400 runs. More than 44 of them would do so once in
// a million times, as TestMostWrong of package experiment shows. 1.96 standard errors do not hold.
func TestNormal_HoldsAtEveryLook(t *testing.T) {
	bound := NewNormal(0.05, 1./1000)
	wrong, naive := counts(func(seed uint64) (out, left bool) {
		r, sum := rand.New(rand.NewPCG(seed, 7)), 0.0
		for n := 1.0; n <= 3000; n++ {
			sum += r.NormFloat64()
			out = out || math.Abs(sum)/n > bound.Radius(1/n)
			left = left || math.Abs(sum)/n > 1.96/math.Sqrt(n)
		}
		return out, left
	})
	require.LessOrEqual(t, wrong, 44)
	require.Greater(t, naive, 44)
}

// TestNormal_IsTightestAtV0: relative to a standard error the radius is least within 10 % of v0, for α = 0.05.
func TestNormal_IsTightestAtV0(t *testing.T) {
	n := NewNormal(0.05, 3)
	at := func(v float64) float64 { return n.Radius(v) / math.Sqrt(v) }
	require.Less(t, at(3), at(2.7))
	require.Less(t, at(3), at(3.3))
}
