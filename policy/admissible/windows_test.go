package admissible

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWindows_BadInputIsAnError(t *testing.T) {
	for what, q := range map[string][]float64{
		"it is empty":                   {},
		"window 2 has probability -0.1": {1.1, -0.1},
		"window 1 has probability NaN":  {math.NaN(), 1},
		"window 2 has probability +Inf": {1, math.Inf(1)},
		"it sums to 0.99":               {0.33, 0.33, 0.33},
		"it sums to 0 ":                 {0, 0},
		"65537 windows are more":        make([]float64, MaxWindow+1),
	} {
		_, err := NewWindows(q)
		require.ErrorIs(t, err, ErrWindows)
		require.ErrorContains(t, err, what)
	}
	for _, ratio := range []float64{0, -1, 1.01, math.NaN(), math.Inf(1)} {
		_, err := Geometric(ratio, 10)
		require.ErrorIs(t, err, ErrWindows)
	}
	for _, s := range []float64{-0.1, math.NaN(), math.Inf(1)} {
		_, err := Zipf(s, 10)
		require.ErrorIs(t, err, ErrWindows)
	}
	for _, longest := range []int{-1, 0, MaxWindow + 1} {
		_, err := Geometric(0.5, longest)
		require.ErrorIs(t, err, ErrWindows)
		_, err = Zipf(1, longest)
		require.ErrorIs(t, err, ErrWindows)
	}
}

func TestWindows_Shapes(t *testing.T) {
	require.InDeltaSlice(t, []float64{4. / 7, 2. / 7, 1. / 7}, must(Geometric(0.5, 3)).Fold(make([]float64, 3)), 1e-15)
	require.InDeltaSlice(t, []float64{6. / 11, 3. / 11, 2. / 11}, must(Zipf(1, 3)).Fold(make([]float64, 3)), 1e-15)
	require.Equal(t, 1, must(Zipf(1e300, 50)).Max(), "windows that have come to zero are no windows")

	given := []float64{0.25, 0.25, 0.5 + 5e-7, 0}
	w, err := NewWindows(given)
	require.NoError(t, err)
	require.Equal(t, 3, w.Max())
	given[0] = 7
	folded := w.Fold(make([]float64, 3))
	require.InDelta(t, 0.25, folded[0], 1e-6)
	require.InDelta(t, 1, folded[0]+folded[1]+folded[2], 1e-15, "scaled to one")
}

// A list shorter than the windows sees its tail folded onto the last, a longer one gets zeros; both sum to one.
func TestWindows_Fold(t *testing.T) {
	w := must(NewWindows([]float64{0.5, 0, 0.25, 0.25}))
	for n, want := range map[int][]float64{
		1: {1}, 2: {0.5, 0.5}, 3: {0.5, 0, 0.5}, 4: {0.5, 0, 0.25, 0.25}, 6: {0.5, 0, 0.25, 0.25, 0, 0},
	} {
		dirty := make([]float64, n)
		for k := range dirty {
			dirty[k] = math.NaN()
		}
		require.Equal(t, want, w.Fold(dirty))
	}
	require.Equal(t, []float64{0.5, 0.5, 1}, Prefix([]float64{0.5, 0, 0.5}, make([]float64, 3)))
	for longest := 1; longest < 300; longest++ { // a single candidate is selected with probability 1, also by rounded windows
		require.Equal(t, []float64{1}, must(Geometric(0.7, longest)).Fold(make([]float64, 1)))
	}
	for n := 1; n < 300; n++ {
		sum := 0.0
		for _, v := range must(Geometric(0.7, 100)).Fold(make([]float64, n)) {
			sum += v
		}
		require.InDelta(t, 1, sum, 1e-15)
	}
}

// The least length is the least that is admissible, by looking at them all.
func TestWindows_UniformFromIsTheFirstAdmissible(t *testing.T) {
	rng := newRand(t, 91)
	found := 0
	for range 2000 {
		q := randomWindows(rng, 1+rng.IntN(12))
		w := must(NewWindows(q))
		longest := 1 + rng.IntN(60)
		want := 0
		for n := 2; n <= longest && want == 0; n++ {
			if UniformAdmissible(w.Fold(make([]float64, n))) {
				want = n
			}
		}
		require.Equal(t, want, w.UniformFrom(longest), "q %v, up to %d", q, longest)
		if want > 0 {
			found++
		}
	}
	require.Greater(t, found, 200)
	require.Zero(t, must(NewWindows([]float64{0, 1})).UniformFrom(100_000), "nobody looks at one candidate only")
	require.Zero(t, must(NewWindows([]float64{1})).UniformFrom(1))
	require.Equal(t, 2, must(NewWindows([]float64{0.5, 0.25, 0.25})).UniformFrom(9), "equality counts")
	require.Equal(t, 100_000, must(NewWindows([]float64{1e-5, 1 - 1e-5})).UniformFrom(200_000))
}
