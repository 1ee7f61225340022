package admissible

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
)

// randomRates draws rates of one of several shapes.
func randomRates(rng *rand.Rand, n int) []float64 {
	rates := make([]float64, n)
	shape := rng.IntN(4)
	for i := range rates {
		switch shape {
		case 0:
			rates[i] = rng.Float64() + 0.01
		case 1:
			rates[i] = math.Pow(10, -3*rng.Float64())
		case 2:
			rates[i] = 0.02 + float64(rng.IntN(2))
		case 3:
			rates[i] = 1 / math.Sqrt(1+float64(i))
		}
	}
	return rates
}

// squared are the rates' squares.
func squared(rates []float64) []float64 {
	squares := make([]float64, len(rates))
	for i, r := range rates {
		squares[i] = r * r
	}
	return squares
}

// With one rate for all, SolveEach is Solve.
func TestSolveEach_EqualRatesAreOneRate(t *testing.T) {
	rng := newRand(t, 51)
	var s Solver
	for trial := range 2000 {
		n := 1 + trial%60
		q, g := randomWindows(rng, n), randomLosses(rng, n)
		rate := math.Exp2(float64(rng.IntN(12) - 6)) // whose inverse is exact
		p, each := make([]float64, n), make([]float64, n)
		s.Solve(p, g, q, 1/rate)
		s.SolveEach(each, g, q, slices.Repeat([]float64{rate * rate}, n))
		require.InDeltaSlice(t, p, each, 1e-13)
	}
}

func TestSolveEach_AgreesWithPooling(t *testing.T) {
	rng := newRand(t, 52)
	var s Solver
	for trial := range 2000 {
		n := 1 + trial%40
		if trial%500 == 499 {
			n = 500
		}
		q, g, rates := randomWindows(rng, n), randomLosses(rng, n), randomRates(rng, n)
		p := make([]float64, n)
		s.SolveEach(p, g, q, squared(rates))
		slow := poolingEach(g, q, rates, 1)
		for i := range p {
			require.InDelta(t, slow[i], p[i], 1e-10*slow[i]+1e-15, "n %d, item %d\nq %v\ng %v\nrates %v", n, i, q, g, rates)
		}
		require.NoError(t, admissibletest.Contains(p, q, 1e-13))
	}
}

// The gradient of the objective at the solution admits no better ranking, of all that there are.
func TestSolveEach_FirstOrderOptimalOverAllRankings(t *testing.T) {
	rng := newRand(t, 53)
	var s Solver
	for trial := range 300 {
		n := 1 + trial%6
		q, g, rates := randomWindows(rng, n), randomLosses(rng, n), randomRates(rng, n)
		q[0] += 1e-3 // all can be selected
		normalise(q)
		p, gradient := make([]float64, n), make([]float64, n)
		s.SolveEach(p, g, q, squared(rates))
		at, size := 0.0, 1.0
		for i := range p {
			gradient[i] = g[i] - rates[i]/math.Sqrt(p[i])
			at += p[i] * gradient[i]
			size = max(size, math.Abs(gradient[i]))
		}
		combinations(q, func(order []int32, other []float64) {
			require.GreaterOrEqual(t, dot(gradient, other), at-1e-9*size, "ranking %v", order)
		})
	}
}

// No probability lies below the stated bound, whichever block of the solution its item is in. With the least mass of any block, the
// bound holds without knowing the blocks.
func TestSolveEach_ProbabilitiesHaveAFloor(t *testing.T) {
	rng := newRand(t, 54)
	var s Solver
	for trial := range 2000 {
		n := 2 + trial%30
		windows, err := Geometric(0.5+0.5*rng.Float64(), n)
		require.NoError(t, err)
		q := windows.Fold(make([]float64, n))
		g, rates := randomLosses(rng, n), randomRates(rng, n)
		p := make([]float64, n)
		s.SolveEach(p, g, q, squared(rates))
		first, sum, mass := 0, 0.0, 0.0
		for i := range p {
			sum += p[i]
			mass += q[i]
			if i+1 < n && sum < mass*(1-1e-12) {
				continue
			}
			least, most := slices.Min(g[first:i+1]), slices.Max(rates[first:i+1])
			for k := first; k <= i; k++ {
				bound := rates[k] / (g[k] - least + math.Sqrt(float64(i+1-first)/mass)*most)
				require.GreaterOrEqual(t, p[k], bound*bound*(1-1e-9), "item %d of the block %d to %d", k, first, i)
			}
			first, sum, mass = i+1, 0, 0
		}
	}
}

// Losses and rates that are scaled by a power of two change nothing, to the bit.
func TestSolveEach_DoesNotKnowUnits(t *testing.T) {
	rng := newRand(t, 55)
	var s Solver
	for trial := range 500 {
		n := 1 + trial%50
		q, g, rates := randomWindows(rng, n), randomLosses(rng, n), randomRates(rng, n)
		p, scaled := make([]float64, n), make([]float64, n)
		s.SolveEach(p, g, q, squared(rates))
		factor := math.Exp2(float64(rng.IntN(40) - 20))
		for i := range g {
			g[i] *= factor
			rates[i] *= factor
		}
		s.SolveEach(scaled, g, q, squared(rates))
		require.Equal(t, p, scaled)
	}
}

func TestSolveEach_Extremes(t *testing.T) {
	rng := newRand(t, 56)
	values := []float64{0, -1, 1, 1e-320, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1e-9, 1e-12}
	var s Solver
	for trial := range 3000 {
		n := 1 + trial%20
		q, g, rates := randomWindows(rng, n), make([]float64, n), make([]float64, n)
		for i := range g {
			g[i], rates[i] = values[rng.IntN(len(values))], values[rng.IntN(len(values))]
		}
		p := make([]float64, n)
		s.SolveEach(p, g, q, squared(rates))
		checkSolution(t, p, q)
	}
}

func TestSolveEach_GrowthIsLinear(t *testing.T) {
	rng := newRand(t, 57)
	var s Solver
	worst := 0.0
	for range 300 {
		const n = 2000
		q, g, rates := randomWindows(rng, n), randomLosses(rng, n), randomRates(rng, n)
		sign, power := float64(2*rng.IntN(2)-1), math.Pow(10, 2*rng.Float64()-1)
		for i := range g {
			g[i] = 0.01*g[i] + 1000*sign*math.Pow(float64(i+1)/n, power)
		}
		s.passes = 0
		s.SolveEach(make([]float64, n), g, q, squared(rates))
		worst = max(worst, float64(s.passes)/n)
	}
	t.Logf("random shapes, n = 2000: at most %.1f passes", worst)
	require.Less(t, worst, 200.0)
}

// Scores, as of a learner whose items have been selected unequally often.
func BenchmarkSolveEach(b *testing.B) {
	for _, n := range []int{20, 1000} {
		b.Run("n="+strconv.Itoa(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(9, uint64(n)))
			g, squares := make([]float64, n), make([]float64, n)
			for i := range g {
				g[i] = rng.Float64() / 2
				squares[i] = 0.0625 / (100 + 2000*rng.Float64())
			}
			q := must(Geometric(0.7, 100)).Fold(make([]float64, n))
			p := make([]float64, n)
			var s Solver
			s.SolveEach(p, g, q, squares)
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				g[k%n] += 1e-6
				s.SolveEach(p, g, q, squares)
			}
		})
	}
}
