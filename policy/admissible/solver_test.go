package admissible

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
)

func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 4))
}

// randomLosses draws losses of several shapes, among them such as tighten every cap, and equal ones.
func randomLosses(rng *rand.Rand, n int) []float64 {
	g := make([]float64, n)
	scale := math.Pow(10, 4*rng.Float64()-1)
	shape := rng.IntN(5)
	for i := range g {
		x := float64(i) / float64(n)
		switch shape {
		case 0:
			g[i] = rng.NormFloat64()
		case 1:
			g[i] = x + 0.1*rng.NormFloat64()
		case 2:
			g[i] = -x + 0.1*rng.NormFloat64()
		case 3:
			g[i] = float64(rng.IntN(3))
		case 4:
			g[i] = rng.ExpFloat64() * rng.ExpFloat64() * rng.ExpFloat64()
		}
		g[i] *= scale
	}
	return g
}

// The gradient of the objective at the solution admits no better ranking: for a convex function and the convex hull of
// the rankings' selection probabilities, that is optimality. The best of all n! is found one by one.
func TestSolver_FirstOrderOptimalOverAllRankings(t *testing.T) {
	rng := newRand(t, 41)
	var s Solver
	for trial := range 400 {
		n := 1 + trial%6
		q := randomWindows(rng, n)
		g := randomLosses(rng, n)
		eta := math.Pow(10, 3*rng.Float64()-2)
		p := make([]float64, n)
		s.Solve(p, g, q, eta)
		require.NoError(t, admissibletest.Contains(p, q, 1e-14))

		gradient := make([]float64, n) // times η; where no window leads, there is no direction either
		size := 1.0
		var here float64
		for i := range p {
			if p[i] > 0 {
				gradient[i] = eta*g[i] - 1/math.Sqrt(p[i])
			}
			here += gradient[i] * p[i]
			size = max(size, math.Abs(gradient[i])*p[i], math.Abs(eta*g[i]))
		}
		least := math.Inf(1)
		permutations(n, func(order []int32) {
			var there float64
			for w := 1; w <= n; w++ {
				there += q[w-1] * gradient[selected(order, w)]
			}
			least = min(least, there)
		})
		require.InDelta(t, least, here, 1e-11*size, "trial %d: q %v, g %v, η %v, p %v", trial, q, g, eta, p)
		for i := range gradient {
			gradient[i] = -gradient[i]
		}
		require.InDelta(t, -least, Best(gradient, q), 1e-11*size)
	}
}

func TestSolver_AgreesWithPooling(t *testing.T) {
	rng := newRand(t, 42)
	var s Solver
	var worst, worstAbs float64
	compare := func(n int) {
		q := randomWindows(rng, n)
		g := randomLosses(rng, n)
		eta := math.Pow(10, 3*rng.Float64()-2)
		p := make([]float64, n)
		s.Solve(p, g, q, eta)
		slow := pooling(g, q, eta)
		for i := range p {
			worstAbs = max(worstAbs, math.Abs(p[i]-slow[i]))
			if slow[i] > 0 {
				worst = max(worst, math.Abs(p[i]/slow[i]-1))
			}
			require.InDelta(t, slow[i], p[i], 1e-13*slow[i]+1e-15, "n %d, item %d, η %v\nq %v\ng %v", n, i, eta, q, g)
		}
		require.NoError(t, admissibletest.Contains(p, q, 1e-13))
	}
	for trial := range 2000 {
		compare(1 + trial%40)
	}
	for _, n := range []int{100, 100, 100, 100, 200, 200, 500, 500, 1000, 1000, 1000} {
		compare(n)
	}
	t.Logf("largest difference: %.2g, relative %.2g", worstAbs, worst)
}

// checkSolution checks a result against Solve's guarantees for any input.
func checkSolution(t require.TestingT, p, q []float64) {
	require.NoError(t, admissibletest.Contains(p, q, 1e-12))
	for i, v := range p {
		if v == 0 { // only an item that no window can select
			var reach float64
			for _, w := range q[:i+1] {
				reach += w
			}
			require.Less(t, reach, 1e-280, "item %d", i)
			continue
		}
		require.False(t, math.IsInf(1/v, 0))
	}
}

func TestSolver_Extremes(t *testing.T) {
	values := []float64{0, 1, -1, 1e-300, 1e15, -1e15, 1e149, 1e308, -1e308, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, math.MaxFloat64}
	chances := []float64{0, 0, 1, 0.5, 1e-3, 1e-17, 1e-100, 1e-308, 5e-324}
	steps := []float64{0, -1, math.NaN(), 5e-324, 1e-200, 1e-9, 1, 1e9, 1e200, math.Inf(1)}
	var s Solver
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "n")
		weights := rapid.SliceOfN(rapid.SampledFrom(chances), n, n).Draw(t, "q")
		weights[rapid.IntRange(0, n-1).Draw(t, "sure")] = 1
		q := normalise(weights)
		g := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(values), rapid.Float64()), n, n).Draw(t, "g")
		p := make([]float64, n)
		s.Solve(p, g, q, rapid.SampledFrom(steps).Draw(t, "η"))
		checkSolution(t, p, q)
	})
}

func FuzzSolver(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0, 5}, 1.0, 1.0, 2.0)
	f.Add([]byte{0, 0, 255, 7}, 1e-9, 1e300, -1e300)
	f.Add([]byte{9}, math.Inf(1), math.NaN(), math.Inf(-1))
	f.Fuzz(func(t *testing.T, shape []byte, eta, x, y float64) {
		n := len(shape)
		if n == 0 || n > 300 {
			return
		}
		q, g := make([]float64, n), make([]float64, n)
		for k, b := range shape {
			q[k] = float64(b & 15)
			switch b >> 4 & 3 {
			case 0:
				g[k] = x
			case 1:
				g[k] = y
			case 2:
				g[k] = x * float64(k)
			case 3:
				g[k] = -y * float64(b)
			}
		}
		q[n-1]++
		p := make([]float64, n)
		new(Solver).Solve(p, g, normalise(q), eta)
		checkSolution(t, p, q)
	})
}

func TestSolver_OneCandidate(t *testing.T) {
	p := []float64{7}
	new(Solver).Solve(p, []float64{3}, []float64{1}, 1)
	require.Equal(t, []float64{1}, p)
}

// With nothing learned, the solution is uniform just where uniform selection is admissible.
func TestSolver_UniformWithoutLosses(t *testing.T) {
	rng := newRand(t, 43)
	var s Solver
	for trial := range 500 {
		n := 1 + trial%30
		q := randomWindows(rng, n)
		p := make([]float64, n)
		s.Solve(p, make([]float64, n), q, 1)
		even := slices.Max(p)-slices.Min(p) < 1e-12
		require.Equal(t, UniformAdmissible(q), even, "q %v, p %v", q, p)

		explored := make([]float64, n)
		require.Equal(t, even, s.Explore(explored, q))
		require.InDeltaSlice(t, p, explored, 1e-14)
	}
}

// A loss added to all candidates, or losses and η scaled against each other, change nothing; nor do earlier uses of the solver, to
// the bit.
func TestSolver_Invariances(t *testing.T) {
	rng := newRand(t, 44)
	var used Solver
	for trial := range 300 {
		n := 1 + trial%50
		q, g := randomWindows(rng, n), randomLosses(rng, n)
		p, other := make([]float64, n), make([]float64, n)
		new(Solver).Solve(p, g, q, 0.5)
		used.Solve(other, g, q, 0.5)
		require.Equal(t, p, other)

		copy(other, g)
		used.Solve(other, other, q, 0.5)
		require.Equal(t, p, other, "in place")

		moved := slices.Clone(g)
		for i := range moved {
			moved[i] = moved[i]/2 + 10
		}
		used.Solve(other, moved, q, 1)
		for i := range p {
			require.InDelta(t, p[i], other[i], 1e-9*p[i]+1e-14)
		}
	}
}

// workload is a typical state of a learner: geometric windows, losses of size √(nT) about a trend.
type workload struct {
	name  string
	q     func(n int) *Windows
	trend float64
	noise float64
}

var workloads = []workload{
	{"typical", func(int) *Windows { return must(Geometric(0.7, 100)) }, 0, 30},
	{"with utility", func(int) *Windows { return must(Geometric(0.7, 100)) }, -10000, 300},
	{"against utility", func(int) *Windows { return must(Geometric(0.7, 100)) }, 10000, 300},
	{"against utility, uniform windows", func(n int) *Windows { return must(Geometric(1, n)) }, 10000, 1},
	{"zipf", func(n int) *Windows { return must(Zipf(1, n)) }, 10000, 300},
}

func must(w *Windows, err error) *Windows {
	if err != nil {
		panic(err)
	}
	return w
}

func (w workload) make(n int) (g, q []float64) {
	rng := rand.New(rand.NewPCG(9, uint64(n)))
	g = make([]float64, n)
	for i := range g {
		g[i] = w.trend*float64(i)/float64(n) + w.noise*rng.NormFloat64()
	}
	return g, w.q(n).Fold(make([]float64, n))
}

// Doubling the candidates about doubles the work. The passes over them stay few, for typical learners and for difficult shapes. On
// those a solver that splits off one candidate at a time would make as many passes as there are candidates.
func TestSolver_GrowthIsLinear(t *testing.T) {
	var s Solver
	passes := func(g, q []float64, eta float64) float64 {
		s.passes = 0
		s.Solve(make([]float64, len(g)), g, q, eta)
		return float64(s.passes) / float64(len(g))
	}
	for _, w := range workloads {
		for _, n := range []int{20, 100, 1000, 10000} {
			g, q := w.make(n)
			count := passes(g, q, 0.05)
			t.Logf("%s, n = %d: %.1f passes", w.name, n, count)
			require.Less(t, count, 30.0, "%s, n = %d", w.name, n)
		}
	}
	worst := 0.0
	for _, ratio := range []float64{0.7, 0.9, 0.99, 1} { // without bisection: hundreds of passes
		for _, trend := range []float64{1e3, 1e4, 1e5, 1e6, 1e8} {
			const n = 1000
			g := make([]float64, n)
			for i := range g {
				g[i] = trend * float64(i) / n
			}
			worst = max(worst, passes(g, must(Geometric(ratio, n)).Fold(make([]float64, n)), 1))
		}
	}
	t.Logf("lines, n = 1000: at most %.1f passes", worst)
	require.Less(t, worst, 60.0)
	rng := newRand(t, 45)
	worst = 0
	for range 300 {
		const n = 2000
		q, g := randomWindows(rng, n), randomLosses(rng, n)
		sign, power := float64(2*rng.IntN(2)-1), math.Pow(10, 2*rng.Float64()-1)
		for i := range g {
			g[i] = 0.01*g[i] + 1000*sign*math.Pow(float64(i+1)/n, power)
		}
		worst = max(worst, passes(g, q, math.Pow(10, 5*rng.Float64()-3)))
	}
	t.Logf("random shapes, n = 2000: at most %.1f passes", worst)
	require.Less(t, worst, 200.0)
}

func BenchmarkSolver(b *testing.B) {
	for _, w := range workloads {
		for _, n := range []int{20, 100, 1000} {
			b.Run(w.name+"/n="+strconv.Itoa(n), func(b *testing.B) {
				g, q := w.make(n)
				p, dst := make([]float64, n), make([]int32, n)
				var s Solver
				var draw Sampler
				s.Solve(p, g, q, 0.05)
				draw.Sample(p, q, 0.5, dst)
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					g[k%n] += 0.01
					s.Solve(p, g, q, 0.05)
					draw.Sample(p, q, float64(k&1023)/1024, dst)
				}
			})
		}
	}
}
