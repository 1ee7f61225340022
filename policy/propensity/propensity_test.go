package propensity

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// permutations calls f with each order of 0..n-1.
func permutations(n int, f func([]int32)) {
	order := make([]int32, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			f(order)
			return
		}
		for r := range int32(n) {
			if !slices.Contains(order, r) {
				order = append(order, r)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

// TestOf_Enumerated holds the formula against users: each window, and whether the user goes by utility or takes anything in it.
func TestOf_Enumerated(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for n := 1; n <= 6; n++ {
		q := make([]float64, n)
		sum := 0.0
		for w := range q {
			q[w] = rng.Float64()
			sum += q[w]
		}
		for w := range q {
			q[w] /= sum
		}
		for _, noise := range []float64{0, 0.1, 0.7, 1} {
			permutations(n, func(order []int32) {
				want := make([]float64, n)
				for w := 1; w <= n; w++ {
					best := 0
					for k := range w {
						if order[k] > order[best] {
							best = k
						}
						want[k] += noise * q[w-1] / float64(w)
					}
					want[best] += (1 - noise) * q[w-1]
				}
				got := Of([]float64{7}, order, q, noise)
				require.Equal(t, 7.0, got[0])
				total := 0.0
				for k, p := range got[1:] {
					require.InDelta(t, want[k], p, 1e-12, "order %v, noise %v", order, noise)
					total += p
					if noise == 0 {
						require.Equal(t, Leads(order, k), p > 0)
					}
				}
				require.InDelta(t, 1, total, 1e-12)
			})
		}
	}
}

// user draws a selection from a ranking.
func user(rng *rand.Rand, order []int32, q []float64, noise float64) (at int) {
	w, x := 1, rng.Float64()
	for x -= q[0]; x > 0 && w < len(q); x -= q[w-1] {
		w++
	}
	w = min(w, len(order))
	if rng.Float64() < noise {
		return rng.IntN(w)
	}
	for k := range w {
		if order[k] > order[at] {
			at = k
		}
	}
	return at
}

// shown counts the selections of so many users of rankings in random orders, of lists of several lengths.
func shown(seed uint64, users int, q []float64, noise float64) *Selections {
	rng := rand.New(rand.NewPCG(seed, 5))
	s := &Selections{}
	for range users {
		n := 4 + rng.IntN(9)
		order := make([]int32, n)
		for k, r := range rng.Perm(n) {
			order[k] = int32(r)
		}
		s.Add(order, user(rng, order, q, noise))
	}
	return s
}

// TestSelections_Estimate: windows and noise are found again. With so many users, the estimates of noise differ from run to run by
// some 0.004, and of a window's share by some 0.006. The bounds are five of these and more, and the seeds fixed. By chance one of
// the figures is beyond them in less than one draw of seeds in a million.
func TestSelections_Estimate(t *testing.T) {
	q := []float64{0.35, 0.25, 0.15, 0.1, 0.05, 0.05, 0.05}
	for _, noise := range []float64{0, 0.02, 0.1, 0.3} {
		s := shown(uint64(1000*noise)+1, 40_000, q, noise)
		n, blocked := s.Total()
		require.EqualValues(t, 40_000, n)
		require.Equal(t, noise == 0, blocked == 0)
		got, found := s.Estimate(len(q), 2000)
		t.Logf("noise %v: found %.4f, windows %.3f", noise, found, got)
		if noise == 0 {
			require.Zero(t, found)
		}
		require.InDelta(t, noise, found, 0.025)
		for w := range q {
			require.InDelta(t, q[w], got[w], 0.035, "window %d", w+1)
		}
	}
}

// TestSelections_Likelihood: each pass explains the selections no worse than the one before, and the last best of all around it.
func TestSelections_Likelihood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := []float64{0.4, 0.3, 0.2, 0.1}
		s := shown(rapid.Uint64().Draw(t, "seed"), 300, q, rapid.Float64Range(0, 0.9).Draw(t, "noise"))
		before := -1e18
		for passes := 1; passes < 40; passes *= 2 {
			est, noise := s.Estimate(len(q), passes)
			now := s.explained(est, noise)
			require.GreaterOrEqual(t, now, before-1e-9)
			before = now
		}
		q, noise := s.Estimate(len(q), 20_000)
		best := s.explained(q, noise)
		for w := range q {
			for _, by := range []float64{1.01, 0.99} {
				near, sum := slices.Clone(q), 1+(by-1)*q[w]
				near[w] *= by
				for k := range near {
					near[k] /= sum
				}
				require.GreaterOrEqual(t, best, s.explained(near, noise)-1e-6)
				require.GreaterOrEqual(t, best, s.explained(q, min(1, noise*by))-1e-6)
			}
		}
	})
}

func TestSelections_Nothing(t *testing.T) {
	q, noise := (&Selections{}).Estimate(5, 100)
	require.Len(t, q, 5)
	require.Zero(t, noise)
}

func BenchmarkOf(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	order := make([]int32, 20)
	q := make([]float64, 20)
	for k, r := range rng.Perm(20) {
		order[k], q[k] = int32(r), 0.05
	}
	dst := make([]float64, 0, 20)
	b.ReportAllocs()
	for b.Loop() {
		dst = Of(dst[:0], order, q, 0.01)
	}
}

// explained is the log likelihood of the selections plus the log of the prior.
func (s *Selections) explained(q []float64, noise float64) (sum float64) {
	for c, count := range s.counts {
		sum += float64(count) * math.Log(s.likely(c, q, noise))
	}
	prior := make([]float64, len(q))
	policy.PriorWindows(prior)
	for w := range q {
		sum += policy.PriorWeight * prior[w] * math.Log(q[w])
	}
	return sum
}

// likely is how likely a cell is, from its definition.
func (s *Selections) likely(c seen, q []float64, noise float64) (p float64) {
	for w := 1; w <= len(q); w++ {
		looked := min(w, int(c.n))
		if looked < int(c.low) {
			continue
		}
		p += noise * q[w-1] / float64(looked)
		if c.high > 0 && (looked <= int(c.high)) {
			p += (1 - noise) * q[w-1]
		}
	}
	return p
}
