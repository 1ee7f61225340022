package policy_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

func newRobust(t testing.TB) *policy.Robust {
	r, err := policy.NewRobust(policy.DefaultLookAgain)
	require.NoError(t, err)
	return r
}

// randomRecent draws the evidence of candidates: some without any, some with much, of payoffs within some ranges.
func randomRecent(rng *rand.Rand, n int) []policy.Recent {
	known := make([]policy.Recent, n)
	for i := range known {
		known[i] = policy.Recent{Mean: 3*rng.Float64() - 1, Worth: math.Pow(10, 5*rng.Float64()), Chances: math.Pow(10, 7*rng.Float64())}
		if rng.IntN(5) == 0 {
			known[i] = policy.Recent{}
		}
	}
	return known
}

var spread = policy.Components{Mean: 0.4, Sigma: 0.3, Tau: 0.15}

// The point is the maximiser that is stated, with numbers computed here as they are written.
func TestRobust_PointIsTheMaximiser(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	r := newRobust(t)
	var ws policy.RobustWorkspace
	for trial := range 500 {
		n := 1 + trial%30
		known, q := randomRecent(rng, n), geometric(t, n)
		if trial%2 == 0 { // items that are nearly alike
			for i := range known {
				known[i].Mean = 0.4 + known[i].Mean/100
			}
		}
		scores, p, want := make([]float64, n), make([]float64, n), make([]float64, n)
		r.Point(known, &spread, q, scores, p, &ws)
		losses, squares := make([]float64, n), make([]float64, n)
		for i, k := range known {
			s := (k.Worth*k.Mean + 4*0.4) / (k.Worth + 4)
			require.InDelta(t, s, scores[i], 0.5000001e-6)
			require.InDelta(t, math.Round(scores[i]*1e6), scores[i]*1e6, 1e-6, "six decimals")
			losses[i] = -scores[i]
		}
		differ := slices.Max(scores) - slices.Min(scores)
		for i, k := range known {
			squares[i] = 0.5 * 0.5 * 0.3 * 0.3 / (min(k.Chances, min(1_500_000, max(1500, 300*0.09/(differ*differ)))) + 5)
		}
		(&admissible.Solver{}).SolveEach(want, losses, q, squares)
		require.InDeltaSlice(t, want, p, 1e-12)
		require.NoError(t, admissibletest.Contains(p, q, 1e-12))
	}
}

// With 10 items, windows ∝ 0.7^w, σ = 0.3 and scores that span three payoff ranges, no probability is below 10⁻⁸, however many payoffs
// there were.
func TestRobust_PropensitiesHaveAFloor(t *testing.T) {
	rng := rand.New(rand.NewPCG(62, 1))
	r, q := newRobust(t), geometric(t, 10)
	var ws policy.RobustWorkspace
	scores, p := make([]float64, 10), make([]float64, 10)
	least := 1.0
	for range 20_000 {
		known := make([]policy.Recent, 10)
		for i := range known {
			known[i] = policy.Recent{Mean: 3 * float64(rng.IntN(2)), Worth: 1e6, Chances: 1e15 * float64(rng.IntN(2))}
		}
		r.Point(known, &spread, q, scores, p, &ws)
		for _, x := range p {
			least = min(least, x)
		}
	}
	t.Logf("the least is %.2g", least)
	require.Greater(t, least, 1e-8)
}

// Payoffs that are divided by a power of two, with σ, τ and the prior's mean, lead to the same point, but for scores' decimals.
func TestRobust_DoesNotKnowUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 1))
	r := newRobust(t)
	var ws policy.RobustWorkspace
	for trial := range 300 {
		n := 1 + trial%30
		known, q := randomRecent(rng, n), geometric(t, n)
		for i := range known { // multiples of 2⁻³, which six decimals hold, and so they do divided by 8
			known[i].Mean = math.Round(known[i].Mean*8) / 8
			known[i].Worth = 0
			if rng.IntN(2) == 0 {
				known[i].Worth = 1e12 // next to it, the prior is nothing
			}
		}
		c := policy.Components{Mean: 0.5, Sigma: 0.25, Tau: 0.125}
		scores, p, divided := make([]float64, n), make([]float64, n), make([]float64, n)
		r.Point(known, &c, q, scores, p, &ws)
		for i := range known {
			known[i].Mean /= 8
		}
		r.Point(known, &policy.Components{Mean: 0.5 / 8, Sigma: 0.25 / 8, Tau: 0.125 / 8}, q, scores, divided, &ws)
		require.InDeltaSlice(t, p, divided, 1e-9)
	}
}

// Of two items that are as far behind, the one with fewer recent chances of selection is explored more. After a change that makes
// all evidence from before count little, all are.
func TestRobust_ExploresWhatCouldNotBeSelected(t *testing.T) {
	r, q := newRobust(t), geometric(t, 3)
	var ws policy.RobustWorkspace
	scores, p, changed := make([]float64, 3), make([]float64, 3), make([]float64, 3)
	known := []policy.Recent{{0.2, 100, 1000}, {0.2, 100, 50}, {0.8, 5000, 1000}}
	r.Point(known, &spread, q, scores, p, &ws)
	require.Greater(t, p[1], 5*p[0])
	for i := range known {
		known[i].Chances = 20
	}
	r.Point(known, &spread, q, scores, changed, &ws)
	require.Greater(t, changed[0], 10*p[0])
	require.Less(t, changed[2], p[2])
}

func TestRobust_WithoutPayoffsOrAPriorAllAreAlike(t *testing.T) {
	r := newRobust(t)
	q := []float64{0.25, 0.25, 0.25, 0.25}
	scores, p := make([]float64, 4), make([]float64, 4)
	r.Point(make([]policy.Recent, 4), &policy.Components{Sigma: 0.5, Tau: math.Inf(1)}, q, scores, p, &policy.RobustWorkspace{})
	require.Equal(t, make([]float64, 4), scores)
	require.InDeltaSlice(t, q, p, 1e-12)
}

func TestRobust_BadSettingsAreAnError(t *testing.T) {
	for _, x := range []float64{0, -1, 0.5, math.NaN(), math.Inf(1)} {
		_, err := policy.NewRobust(x)
		require.ErrorIs(t, err, policy.ErrRobust)
	}
}

func BenchmarkRobust(b *testing.B) {
	for _, n := range []int{20, 1000} {
		b.Run("n="+strconv.Itoa(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(64, 1))
			known := make([]policy.Recent, n)
			for i := range known {
				known[i] = policy.Recent{Mean: 0.2 + 0.6*rng.Float64(), Worth: 1000 * rng.Float64(), Chances: 3000 * rng.Float64()}
			}
			w, err := admissible.Geometric(0.7, 100)
			require.NoError(b, err)
			q := w.Fold(make([]float64, n))
			scores, p := make([]float64, n), make([]float64, n)
			r := newRobust(b)
			var ws policy.RobustWorkspace
			r.Point(known, &spread, q, scores, p, &ws)
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				known[k%n].Mean += 1e-6
				r.Point(known, &spread, q, scores, p, &ws)
			}
		})
	}
}
