package policy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The mirror map two items at a time is the mirror map.
func TestMirror_IsTheMirrorMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, LeastPropensity,
			LeastPropensity / 2, 1e-300, 1e-30, 1 + 0x1p-40})), 1, 9).Draw(t, "p")
		eta := rapid.SampledFrom([]float64{1, math.Sqrt2, 1e-3, 1e-9}).Draw(t, "eta")
		g, whole := make([]float64, len(p)), true
		for k := range g {
			g[k] = math.NaN() // nothing of it may be left
		}
		got := mirror(g, p, eta)
		for k, x := range p {
			if x < LeastPropensity {
				whole = false
				require.True(t, math.IsInf(g[k], 1))
				continue
			}
			require.InEpsilon(t, 1/(eta*math.Sqrt(x)), g[k], 1e-14)
		}
		require.Equal(t, whole, got)
	})
}

// Two neighbours of the smallest probability have finite values, though the product of theirs and a small η is none that
// can be divided by.
func TestMirror_OfTheSmallestProbabilities(t *testing.T) {
	for _, eta := range []float64{1, 1e-3, 1e-9} {
		g := make([]float64, 2)
		require.True(t, mirror(g, []float64{LeastPropensity, LeastPropensity}, eta))
		for _, x := range g {
			require.InEpsilon(t, 0x1p511/eta, x, 1e-14)
		}
	}
}

// A point is inside where no prefix exceeds its cap, and the whole does not fall short.
func TestInside_LooksAtEveryPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 13).Draw(t, "n")
		p, q := make([]float64, n), make([]float64, n)
		for k := range p { // multiples of 1/64: sums are exact, and nothing is near the tolerance
			q[k] = float64(rapid.IntRange(0, 4).Draw(t, "q")) / 64
			p[k] = q[k]
		}
		for range rapid.IntRange(0, 3).Draw(t, "moves") {
			from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
			p[from] -= 1. / 64
			p[to] += 1. / 64
		}
		if rapid.Bool().Draw(t, "short") {
			p[n-1] -= 1. / 64
		}
		want, sum, cap := true, 0.0, 0.0
		for k := range p {
			sum, cap = sum+p[k], cap+q[k]
			want = want && sum <= cap
		}
		require.Equal(t, want && sum == cap, inside(p, q))
	})
}

// A step of OSMD is the step that is written down one item at a time, whether or not items are left out.
func TestOSMD_StepsAsWrittenDown(t *testing.T) {
	const tolerance = 1e-12
	rng := rand.New(rand.NewPCG(1, 2))
	o := &OSMD{eta: math.Sqrt(2.0 / 500)}
	for _, n := range []int{1, 2, 3, 7, 50, 333} {
		q := make([]float64, n)
		left := 1.0
		for k := range q {
			q[k] = left * 0.3
			left -= q[k]
		}
		q[n-1] += left
		if n > 3 { // no window ends at the first: its probability is 0, and it is left out
			q[1], q[0] = q[1]+q[0], 0
		}
		items := make([]int32, n)
		for k := range items {
			items[k] = int32(k)
		}
		ws, slow := &AdversarialWorkspace{}, &AdversarialWorkspace{}
		var v Vector
		p, want := make([]float64, n), make([]float64, n)
		for range 300 {
			o.Point(&v, items, q, p, ws)
			selected := rng.IntN(n)
			if p[selected] < LeastPropensity {
				continue
			}
			payoff := rng.Float64()
			estimate, ok := Loss(payoff, p[selected])
			require.True(t, ok)
			slow.g = sized(slow.g, n)
			for k, x := range p {
				slow.g[k] = math.Inf(1)
				if x >= LeastPropensity {
					slow.g[k] = 1 / (o.Eta(v.rounds) * math.Sqrt(x))
				}
			}
			slow.g[selected] += estimate
			o.solve(want, q, o.Eta(v.rounds), false, slow)
			require.True(t, o.Feed(&v, items, selected, payoff, p[selected], q, ws))
			o.Point(&v, items, q, p, ws)
			for k := range p {
				require.InDelta(t, want[k], p[k], tolerance)
			}
		}
	}
}
