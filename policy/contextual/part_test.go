package contextual

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A part has, to the last bit, the estimates of a whole that was given its cells. After these are taken back, it is as if they had
// never been there.
func TestModel_APartIsAWholeWithMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := spaceOf(t, rng.IntN(3), rng.IntN(4))
		levels := 1 + rng.IntN(MaxLevels)
		const cells = 24
		w := newWorld(newModel(t, s, levels), cells)
		for range rng.IntN(60) {
			w.pay(int32(rng.IntN(cells)), randomX(rng, s), rng.Int64N(Units+1))
		}
		w.model.Learn()
		w.model.Refit()
		alone := newModel(t, s, levels)
		alone.Total.Plus(w.model.Total)
		for i := range int32(cells) {
			(&world{model: alone, cells: w.cells}).set(i)
		}
		require.NoError(t, alone.Load(w.model.Append(nil)))
		part := newModel(t, s, levels)
		part.Share(w.model)
		alike := func() {
			for i := range int32(cells) {
				x := randomX(rng, s)
				mean, weight := part.Known(path(i), x, 2)
				wantMean, wantWeight := alone.Known(path(i), x, 2)
				require.Equal(t, []float64{wantMean, wantWeight}, []float64{mean, weight})
				for l := range levels {
					require.Equal(t, alone.Holds(l, path(i)[l]), part.Holds(l, path(i)[l]))
				}
			}
		}
		for range 2 {
			for range rng.IntN(30) {
				i := int32(rng.IntN(cells))
				var c cellSums
				if rng.IntN(3) > 0 {
					c = cellSums{n: 1 + rng.Int64N(4), r: rng.Int64N(Units), s: make([]int64, part.dim)}
				}
				silent := Silent{W: float64(rng.IntN(2)) / 4, X: make([]float64, part.dim)}
				for _, m := range []*Model{alone, part} {
					m.Set(path(i), float64(c.n)+silent.W, float64(c.r)/Units, c.s, silent)
				}
				alike()
			}
			for i := range int32(cells) { // a part drops its own
				part.Drop(path(i))
				(&world{model: alone, cells: w.cells}).set(i)
			}
			alike()
			part.Refresh()
			alike()
			for l := range levels {
				require.Empty(t, part.touched[l])
			}
		}
	})
}

// The whole's variances depend on its current sums alone: inconsistent sums give none, and earlier ones are dropped.
func TestModel_AWholeHasNoPast(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	s := spaceOf(t, 1, 2)
	w := newWorld(newModel(t, s, 2), 8)
	for range 200 {
		x := randomX(rng, s)
		w.pay(int32(rng.IntN(8)), x, Units/2+int64(x[2])*(Units/4)/127)
	}
	m := w.model
	require.True(t, m.Due())
	learn := func() string {
		m.Learn()
		m.Refit()
		return string(m.AppendVariances(nil))
	}
	good := learn()
	require.False(t, m.Due())
	require.Less(t, m.Deviation(-1), 0.2)
	theta, _ := m.Coefficient(2)
	all := *m.Total
	m.Total = NewLinear(m.dim) // the cells are of payoffs that are not in it
	m.Total.N = all.N
	learn()
	require.Equal(t, 0.5, m.Deviation(-1))
	value, _ := m.Coefficient(2)
	require.Equal(t, m.theta0[2], value)
	m.Total = &all
	require.Equal(t, good, learn())
	value, _ = m.Coefficient(2)
	require.Equal(t, theta, value)

	taken := newWorld(newModel(t, s, 2), 8)
	taken.cells = w.cells
	for i := range int32(8) {
		taken.set(i)
	}
	taken.model.Total.Plus(&all)
	require.NoError(t, taken.model.TakeVariances([]byte(good)))
	taken.model.Refit()
	value, _ = taken.model.Coefficient(2)
	require.Equal(t, theta, value)
	for _, bad := range []string{"", "1", good + " 1", "x" + good, good[:len(good)-1] + "x", "1 0 1 1 1 1 1 1 1"} {
		require.ErrorIs(t, taken.model.TakeVariances([]byte(bad)), errFit, bad)
	}
}

// Nodes may have other numbers, as those of a process have in a replay: by marks that are the same, the same is learned.
func TestModel_SamplesByMarks(t *testing.T) {
	s := spaceOf(t, 0, 1)
	const items = 3 * sampled
	learned := func(number func(i int32) int32, mark func(number int32) uint64) string {
		rng := rand.New(rand.NewPCG(8, 1))
		m := newModel(t, s, 1)
		m.MarkBy(func(_ int, n int32) uint64 { return mark(n) })
		for i := range int32(items) {
			x, r := randomX(rng, s), rng.Int64N(Units+1)
			m.Total.Add(x, r)
			sums := make([]int64, len(x))
			for j, k := range x {
				sums[j] = int64(k)
			}
			m.Set(Path{number(i)}, 1, float64(r)/Units, sums, Silent{})
		}
		m.Learn()
		return string(m.AppendVariances(nil))
	}
	same := func(i int32) int32 { return i }
	turned := func(i int32) int32 { return items - 1 - i }
	own := func(i int32) uint64 { return uint64(i) }
	want := learned(same, own)
	require.Equal(t, want, learned(turned, func(n int32) uint64 { return uint64(turned(n)) }))
	require.NotEqual(t, want, learned(turned, own), "else nothing is left out")
}
