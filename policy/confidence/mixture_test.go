package confidence

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/integrate/quad"
	"pgregory.net/rapid"
)

// TestStored holds bounds to those of testdata/bounds.txt. There the mixture was integrated as it is defined, over λ, with 40 decimals
// by mpmath's quad, and solved for the bound by its findroot.
func TestStored(t *testing.T) {
	f, err := os.Open("testdata/bounds.txt")
	require.NoError(t, err)
	defer f.Close()
	tried := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var alpha, c, v0, v, want float64
		_, err := fmt.Sscan(lines.Text(), &alpha, &c, &v0, &v, &want)
		require.NoError(t, err)
		require.InEpsilon(t, want, New(alpha, c, v0).Bound(v), 1e-11, lines.Text())
		tried++
	}
	require.Equal(t, 108, tried)
}

// TestMixture_HoldsOnOneSide: terms that are bounded from below, mostly 0 and seldom 20, exceed their means by the bound at some look in at
// most α/2 of runs. More than 30 of 400 do with a probability below 1e-7. They fall below their means by more than it in a quarter of the runs.
func TestMixture_HoldsOnOneSide(t *testing.T) {
	const p = 0.05
	m := New(0.05, 1, 1000)
	above, below := counts(func(seed uint64) (over, under bool) {
		random, s, v := rand.New(rand.NewPCG(seed, 17)), 0.0, 0.0
		for range 1000 {
			x := 0.0
			if random.Float64() < p {
				x = 1 / p
			}
			s, v = s+x-1, v+x*x
			bound := m.Bound(v)
			over, under = over || s >= bound, under || -s >= bound
		}
		return over, under
	})
	require.LessOrEqual(t, above, 30)
	require.Greater(t, below, 30)
}

// logMixture is ln M(s,v) by the definition. It integrates exp(λs − ψ(λ)v) over λ with a density proportional to u^(a−1)·e^(−a·u)
// for u = 1 − cλ within (0, 1]. With u = e^−y it is the integral over y ≥ 0 of exp(−a·y − a·e^−y + λs − ψ(λ)v), over the same
// without s and v.
func logMixture(s, v, c, rho float64) float64 {
	a := rho / (c * c)
	integral := func(s, v float64) float64 {
		exponent := func(y float64) float64 {
			lambda := -math.Expm1(-y) / c
			return -a*y - a*math.Exp(-y) + lambda*s - (y-c*lambda)/(c*c)*v
		}
		b, x := a+v/(c*c), a+v/(c*c)+s/c
		peak := math.Max(0, math.Log(x/b))
		top, width := exponent(peak), 1/math.Sqrt(b)
		f := func(y float64) float64 { return math.Exp(exponent(y) - top) }
		sum, from := 0.0, math.Max(0, peak-12*width)
		for _, to := range []float64{peak, peak + width, peak + 4*width, peak + 12*width, peak + 40*width + 1/b, peak + 40*width + 60/b} {
			for step := range 8 {
				l := (to - from) / 8
				sum += quad.Fixed(f, from+float64(step)*l, from+float64(step+1)*l, 40, nil, 0)
			}
			from = to
		}
		return math.Log(sum) + top
	}
	return integral(s, v) - integral(0, 0)
}

func TestSolvesTheMixture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alpha := math.Pow(10, rapid.Float64Range(-4, -0.1).Draw(t, "log alpha"))
		c := math.Pow(10, rapid.Float64Range(0, 3).Draw(t, "log c"))
		v0 := c * c * math.Pow(10, rapid.Float64Range(-1, 4).Draw(t, "log v0/c²"))
		v := math.Pow(10, rapid.Float64Range(-1, 9).Draw(t, "log v"))
		m := New(alpha, c, v0)
		require.InDelta(t, math.Log(2/alpha), logMixture(m.Bound(v), v, c, m.rho), 1e-6*max(1, 1e-8*v))
	})
}

func TestRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alpha := rapid.Float64Range(1e-6, 0.9).Draw(t, "alpha")
		c := rapid.Float64Range(0.5, 1000).Draw(t, "c")
		v0 := c * c * math.Pow(10, rapid.Float64Range(-3, 5).Draw(t, "log v0/c²"))
		v := math.Pow(10, rapid.Float64Range(-3, 9).Draw(t, "log v"))
		m := New(alpha, c, v0)
		at := m.Bound(v)
		require.False(t, math.IsNaN(at) || math.IsInf(at, 0))
		require.Positive(t, m.Bound(0))
		if v > 1e-6*v0 {
			require.Greater(t, m.Bound(v*1.001), at, "in v")
		} else { // it rises by less than rounding
			require.Greater(t, m.Bound(v*1.001), at*(1-1e-12), "in v")
		}
		require.Greater(t, New(alpha*0.99, c, v0).Bound(0), 0.0)
		// A bound for fewer errors is wider where it uses the same mixture.
		stricter := m
		stricter.goal += math.Log(1 / 0.99)
		require.Greater(t, stricter.Bound(v), at, "in 1/alpha")
		require.Greater(t, at, math.Sqrt(2*v*math.Log(2/alpha)), "no bound for all times is below the one for a single λ's best time")
		require.Equal(t, m.Bound(0), m.Bound(-1), "rounding may make a sum of squares negative")
	})
}

func TestRefuses(t *testing.T) {
	for _, x := range [][3]float64{{0, 1, 1}, {1, 1, 1}, {0.05, 0, 1}, {0.05, 1, 0}, {math.NaN(), 1, 1}, {0.05, math.Inf(1), 1}, {0.05, 1, math.NaN()}} {
		require.Panics(t, func() { New(x[0], x[1], x[2]) }, x)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	m := New(0.05, 10, 5555)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Bound(1e5) }))
}

func TestRemainders(t *testing.T) {
	// Where one way of evaluation takes over from the other both say the same.
	require.InEpsilon(t, logRemainder(0.1), 0.1-math.Log1p(0.1), 1e-13)
	l, _ := math.Lgamma(16)
	require.InDelta(t, stirling(16), l-15.5*math.Log(16)+16-logSqrtTwoPi, 1e-13)
}

func BenchmarkBound(b *testing.B) {
	for _, c := range []struct{ c, v float64 }{{1, 1e3}, {2, 1e6}, {10, 1e5}, {10, 1e9}, {100, 1e7}, {1000, 1e4}} {
		b.Run(fmt.Sprintf("c=%g/v=%g", c.c, c.v), func(b *testing.B) {
			m := New(0.05, c.c, 555*c.c)
			b.ReportAllocs()
			for b.Loop() {
				m.Bound(c.v)
			}
		})
	}
}
