package contextual

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// spaceOf has so many features of users, of items (the first of which is predicted), and a cross of each user's with the first item's.
func spaceOf(t require.TestingT, users, items int) *features.Space {
	d := features.Declaration{}
	for k := range users {
		d.User = append(d.User, features.Feature{Name: "u" + string(rune('a'+k)), Low: -1, High: 1})
	}
	for k := range items {
		f := features.Feature{Name: "i" + string(rune('a'+k)), Low: -1, High: 1}
		if k == 0 {
			f = features.Feature{Name: features.Predicted, High: 1}
		}
		d.Item = append(d.Item, f)
	}
	if items > 0 {
		for _, u := range d.User {
			d.Cross = append(d.Cross, [2]string{u.Name, features.Predicted})
		}
	}
	s, err := features.New(d)
	require.NoError(t, err)
	return s
}

// path has three levels: two cells an item, and four items a category.
func path(cell int32) Path { return Path{cell, cell / 2, cell / 8} }

func newModel(t require.TestingT, s *features.Space, levels int) *Model {
	m, err := New(Config{Space: s, Step: 0.5, Levels: levels, Sigma: 0.5, EstimateSigma: true})
	require.NoError(t, err)
	return m
}

// world is payoffs with all their data, and the model that received them.
type world struct {
	model *Model
	cells []cellSums
}

type cellSums struct {
	n, r    int64
	s       []int64
	payoffs []payoff
	silent  Silent
}

type payoff struct {
	x []int8
	r int64
}

func newWorld(m *Model, cells int) *world {
	w := &world{model: m, cells: make([]cellSums, cells)}
	for i := range w.cells {
		w.cells[i].s = make([]int64, m.dim)
	}
	return w
}

func (w *world) pay(i int32, x []int8, r int64) {
	c := &w.cells[i]
	c.n, c.r = c.n+1, c.r+r
	c.payoffs = append(c.payoffs, payoff{x, r})
	for j, k := range x {
		c.s[j] += int64(k)
	}
	w.model.Total.Add(x, r)
	w.set(i)
}

func (w *world) set(i int32) {
	c := &w.cells[i]
	w.model.Set(path(i), float64(c.n)+c.silent.W, float64(c.r)/Units+c.silent.R, c.s, c.silent)
}

func randomX(rng *rand.Rand, s *features.Space) []int8 {
	steps := make([]int8, len(s.User())+len(s.Item()))
	for k := range steps {
		steps[k] = int8(rng.IntN(255) - 127)
	}
	return s.Vector(nil, steps[:len(s.User())], steps[len(s.User()):])
}

// dense is the posterior of θ and all effects by plain conditioning: precision over σ², and mean.
type dense struct {
	inverse mat.Dense
	mean    *mat.VecDense
	offset  []int // of the effects of each level
}

func (w *world) dense(t require.TestingT) *dense {
	m, d := w.model, &dense{}
	size, last := m.dim, path(int32(len(w.cells)-1))
	for l := range m.config.Levels {
		d.offset = append(d.offset, size)
		size += int(last[l]) + 1
	}
	p, b := mat.NewDense(size, size, nil), mat.NewVecDense(size, nil)
	for j := range size {
		precision := 0.0
		if j < m.dim {
			precision = m.fit.lambda[m.group[j]]
			b.SetVec(j, precision*m.theta0[j])
		} else {
			for l, at := range d.offset {
				if j >= at {
					precision = m.kappa[l]
				}
			}
		}
		p.Set(j, j, precision)
	}
	for i := range w.cells {
		for _, y := range w.cells[i].payoffs {
			u := d.design(m, int32(i), y.x, size)
			p.RankOne(p, 1, u, u)
			b.AddScaledVec(b, float64(y.r)/Units, u)
		}
		if q := w.cells[i].silent; q.W > 0 {
			u := d.design(m, int32(i), nil, size)
			for j, x := range q.X {
				u.SetVec(j, x)
			}
			p.RankOne(p, q.W, u, u)
			b.AddScaledVec(b, q.R, u)
		}
	}
	require.NoError(t, d.inverse.Inverse(p))
	d.mean = mat.NewVecDense(size, nil)
	d.mean.MulVec(&d.inverse, b)
	return d
}

// design is the vector of the effects that sum to the expected payoff of a cell with features x.
func (d *dense) design(m *Model, cell int32, x []int8, size int) *mat.VecDense {
	u := mat.NewVecDense(size, nil)
	for j, k := range x {
		u.SetVec(j, float64(k)/features.One)
	}
	for l, at := range d.offset {
		u.SetVec(at+int(path(cell)[l]), 1)
	}
	return u
}

// TestModel_IsTheGaussianPosterior compares the estimates of candidates, and the effects of all nodes, with dense conditioning.
func TestModel_IsTheGaussianPosterior(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := spaceOf(t, rng.IntN(3), rng.IntN(4))
		m := newModel(t, s, rng.IntN(MaxLevels+1))
		m.unit = 1 << 50 // rounding is tested elsewhere
		for l := range m.kappa {
			m.kappa[l] = math.Exp(rng.NormFloat64())
		}
		for g := range m.fit.lambda {
			m.fit.lambda[g] = math.Exp(rng.NormFloat64())
		}
		m.recount()
		w := newWorld(m, 1+rng.IntN(9))
		for range rng.IntN(40) {
			w.pay(int32(rng.IntN(len(w.cells))), randomX(rng, s), rng.Int64N(Units+1))
		}
		if m.config.Levels > 0 {
			for i := range w.cells {
				if rng.IntN(3) == 0 {
					weight := float64(rng.IntN(5<<20)) / (1 << 20)
					w.cells[i].silent = Silent{W: weight, R: weight / 8, Q: weight / 64, X: make([]float64, m.dim)}
					for j, k := range randomX(rng, s) {
						w.cells[i].silent.X[j] = float64(k) / features.One
					}
					w.set(int32(i))
				}
			}
		}
		require.True(t, m.solve(&m.fit))
		d := w.dense(t)
		for range 5 {
			cell, x := int32(rng.IntN(len(w.cells))), randomX(rng, s)
			u := d.design(m, cell, x, d.mean.Len())
			mean, weight := m.Known(path(cell), x, 0)
			require.InDelta(t, mat.Dot(u, d.mean), mean, 1e-10)
			require.InEpsilon(t, mat.Inner(u, &d.inverse, u), 1/weight, 1e-10)
			still, more := m.Known(path(cell), x, 3)
			require.Equal(t, mean, still, "what is on its way says nothing of the mean")
			if m.config.Levels > 0 {
				require.Greater(t, more, weight, "what is on its way is known already")
				var w float64
				if n := m.levels[0].Get(cell); n != nil {
					w = n.w
				}
				_, all := m.Known(path(cell), x, 1e18)
				require.InEpsilon(t, 1/weight, 1/all+1/(w+m.kappa[0]), 1e-9, "of the cell alone")
			}
		}
		for l, at := range d.offset {
			for number, n := range m.levels[l].All() {
				if *n == nil || (*n).w == 0 {
					continue
				}
				effect, variance := m.effect(l, *n)
				require.InDelta(t, d.mean.AtVec(at+int(number)), effect, 1e-10)
				require.InEpsilon(t, d.inverse.At(at+int(number), at+int(number)), variance, 1e-10)
			}
		}
		for i := range w.cells { // and all that is taken out comes back
			m.Drop(path(int32(i)))
		}
		require.Equal(t, taken{a: make([]Wide, packed(m.dim)), f: make([]Wide, m.dim)}, m.taken)
	})
}
