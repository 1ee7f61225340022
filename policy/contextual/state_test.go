package contextual

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A model that was loaded from another's stored fit has the same estimates, to the last bit, and fits again when that does.
func TestModel_FitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := spaceOf(t, rng.IntN(3), rng.IntN(4))
		levels := rng.IntN(MaxLevels + 1)
		first := newWorld(newModel(t, s, levels), 1+rng.IntN(9))
		for range rng.IntN(60) {
			first.pay(int32(rng.IntN(len(first.cells))), randomX(rng, s), rng.Int64N(Units+1))
			if rng.IntN(3) == 0 {
				first.model.Fit()
			}
		}
		second := &world{model: newModel(t, s, levels), cells: first.cells}
		second.model.Total.Plus(first.model.Total)
		stored := first.model.Append(nil)
		for i := range second.cells {
			second.set(int32(i))
		}
		require.NoError(t, second.model.Load(stored))
		for range 3 {
			require.Equal(t, first.model.taken, second.model.taken)
			require.Equal(t, string(first.model.Append(nil)), string(second.model.Append(nil)))
			second.model.fit.e = first.model.fit.e // of no use but while fitting
			require.Equal(t, first.model.fit, second.model.fit)
			for i := range first.cells {
				x := randomX(rng, s)
				a, b := first.model.Known(path(int32(i)), x, 1)
				c, d := second.model.Known(path(int32(i)), x, 1)
				require.Equal(t, []float64{a, b}, []float64{c, d})
			}
			require.Equal(t, first.model.Fit(), second.model.Fit())
			x, r := randomX(rng, s), rng.Int64N(Units+1)
			first.pay(0, x, r)
			second.model.Total.Add(x, r)
			second.set(0)
		}
		for _, bad := range []string{"", "1 2", string(stored) + " 1", "x" + string(stored)} {
			require.ErrorIs(t, second.model.Load([]byte(bad)), errFit)
		}
	})
}
