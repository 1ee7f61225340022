package admissible

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
)

// The tests in this file follow the paper's section 4, statement by statement.

// combinations calls f with the selection probabilities of every ranking.
func combinations(q []float64, f func(order []int32, p []float64)) {
	p := make([]float64, len(q))
	permutations(len(q), func(order []int32) {
		clear(p)
		for w := 1; w <= len(q); w++ {
			p[selected(order, w)] += q[w-1]
		}
		f(order, p)
	})
}

// Every ranking's selection probabilities are in the closed form, hence their convex hull is, which is C.
func TestSection42_EveryRankingIsAdmissible(t *testing.T) {
	rng := newRand(t, 1)
	for trial := range 60 {
		q := randomWindows(rng, 1+trial%6)
		combinations(q, func(order []int32, p []float64) {
			require.NoError(t, admissibletest.Contains(p, q, 1e-14), "q %v, ranking %v", q, order)
		})
	}
}

// The closed form has nothing beyond the convex hull of all n! rankings: in every direction its farthest point, of which
// a linear program over prefix sums is solved greedily from the closed form alone, is no farther than the best ranking.
func TestSection42_ClosedFormIsTheHullOfAllRankings(t *testing.T) {
	rng := newRand(t, 2)
	for trial := range 300 {
		n := 1 + trial%6
		q := randomWindows(rng, n)
		direction := make([]float64, n)
		for i := range direction {
			direction[i] = rng.NormFloat64()
			if trial%3 == 0 {
				direction[i] = float64(rng.IntN(3))
			}
		}
		hull := math.Inf(-1)
		combinations(q, func(_ []int32, p []float64) { hull = max(hull, dot(direction, p)) })

		// Extreme points of {prefix sums ≤ G}: items in decreasing value, each taking all that the caps still allow.
		room := Prefix(q, make([]float64, n))
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			switch {
			case direction[a] > direction[b]:
				return -1
			case direction[a] < direction[b]:
				return 1
			}
			return 0
		})
		form, left := 0.0, 1.0
		for _, i := range order {
			take := min(left, slices.Min(room[i:]))
			left -= take
			form += take * direction[i]
			for k := i; k < n; k++ {
				room[k] -= take
			}
		}
		require.InDelta(t, hull, form, 1e-12, "q %v, direction %v", q, direction)
		require.InDelta(t, hull, Best(direction, q), 1e-12)
	}
}

func dot(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func TestSection42_OutsideOfC(t *testing.T) {
	q := []float64{0.5, 0.3, 0.2}
	require.NoError(t, admissibletest.Contains([]float64{0.5, 0.3, 0.2}, q, 0))
	require.NoError(t, admissibletest.Contains([]float64{0, 0, 1}, q, 0))
	for _, p := range [][]float64{
		{0.51, 0.29, 0.2}, {0.1, 0.71, 0.19}, {0.5, 0.3, 0.1}, {-0.1, 0.1, 1}, {math.NaN(), 0, 1}, {0, 0, math.Inf(1)}, {0.5, 0.5}, {},
	} {
		require.Error(t, admissibletest.Contains(p, q, 1e-9), "%v", p)
	}
	require.Error(t, admissibletest.Contains(nil, nil, 1e-9))
}

// Algorithm 5, line 5: P ∈ 𝒫 with p = Pq, and few entries.
func TestAlgorithm5_FindP(t *testing.T) {
	rng := newRand(t, 3)
	for trial := range 1500 {
		n := 1 + trial%25
		q := randomWindows(rng, n)
		p := randomMember(rng, q)
		if trial%4 == 0 {
			copy(p, q) // every cap is tight
		}
		m := coupling(p, q)
		require.NoError(t, m.check(1e-12), "q %v, p %v", q, p)
		require.LessOrEqual(t, m.nonZeros(), 2*n-1)
		require.InDeltaSlice(t, p, m.apply(q, make([]float64, n)), 1e-13, "q %v", q)
	}
}

// 𝒫's constraints hold for every ranking's selection matrix and its random mixtures, and each is seen to be broken.
func TestSection42_ConstraintsC1ToC4(t *testing.T) {
	permutations(5, func(order []int32) { require.NoError(t, selectionMatrix(order).check(0)) })
	for name, m := range map[string]matrix{
		"C.1": {{{0, -0.5}, {1, 1.5}}, {{1, 1}}},
		"C.2": {{{0, 0.5}, {1, 0.4}}, {{1, 1}}},
		"C.3": {{{0, 1}}, {{0, 1}}},
		"C.4": {{{0, 0.2}, {2, 0.8}}, {{1, 0.5}, {2, 0.5}}, {{2, 1}}},
	} {
		require.ErrorContains(t, m.check(1e-9), name)
	}
	for _, m := range []matrix{{{{0, math.NaN()}}}, {{{1, 1}}}, {{{-1, 1}}}, {{}}, {{{0, 0.5}, {0, 0.5}}, {{1, 1}}}} {
		require.Error(t, m.check(1e-9))
	}
}

// Algorithm 4: for every n ≤ 6 and every ranking, the ranking rebuilt from the windows' selections has the same.
func TestAlgorithm4_IntegralPermutation(t *testing.T) {
	for n := 1; n <= 6; n++ {
		rebuilt, selections := make([]int32, n), make([]int32, n)
		permutations(n, func(order []int32) {
			for w := range selections {
				selections[w] = selected(order, w+1)
			}
			place(selections, rebuilt)
			requireRanking(t, rebuilt)
			require.Equal(t, literalIntegralPermutation(selections), rebuilt)
			for w := range selections {
				require.Equal(t, selections[w], selected(rebuilt, w+1))
			}
		})
	}
}

// literalIntegralPermutation is Algorithm 4 as printed.
func literalIntegralPermutation(selections []int32) (ranking []int32) {
	remaining := map[int32]bool{}
	for i := range selections {
		remaining[int32(i)] = true
	}
	for _, item := range selections {
		if !remaining[item] {
			item = math.MaxInt32
			for other := range remaining {
				item = min(item, other)
			}
		}
		ranking = append(ranking, item)
		delete(remaining, item)
	}
	return ranking
}

func requireRanking(t *testing.T, ranking []int32) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(ranking))
	for i, v := range sorted {
		require.Equal(t, int32(i), v, "%v", ranking)
	}
}

// randomMatrix draws a member of 𝒫 that is a mixture of rankings.
func randomMatrix(rng *rand.Rand, n int) matrix {
	dense := make([][]float64, n)
	for w := range dense {
		dense[w] = make([]float64, n)
	}
	weights := make([]float64, 1+rng.IntN(2*n))
	for k := range weights {
		weights[k] = math.Pow(rng.Float64(), 4) + 1e-9
	}
	for _, weight := range normalise(weights) {
		order := randomRanking(rng, n)
		for w := range n {
			dense[w][selected(order, w+1)] += weight
		}
	}
	m := make(matrix, n)
	for w := range dense {
		for i, v := range dense[w] {
			if v > 0 {
				m[w] = append(m[w], entry{int32(i), v})
			}
		}
	}
	return m
}

// Theorem 4.1: the decomposition sums to P, with at most z−n+1 permutations, each its own.
func TestTheorem41_Decomposition(t *testing.T) {
	rng := newRand(t, 4)
	for trial := range 600 {
		n := 1 + trial%14
		m := randomMatrix(rng, n)
		if trial%3 == 0 {
			q := randomWindows(rng, n)
			m = coupling(randomMember(rng, q), q)
		}
		require.NoError(t, m.check(1e-9))
		found := rfsm(m)
		require.LessOrEqual(t, len(found), m.nonZeros()-n+1)
		sums := make([]map[int32]float64, n)
		for w := range sums {
			sums[w] = map[int32]float64{}
		}
		total := 0.0
		for _, d := range found {
			requireRanking(t, d.ranking)
			require.Positive(t, d.weight)
			total += d.weight
			for w := range n {
				sums[w][selected(d.ranking, w+1)] += d.weight
			}
		}
		require.InDelta(t, 1, total, 1e-14)
		for w, column := range m {
			for _, c := range column {
				require.InDelta(t, c.p, sums[w][c.item], 1e-12, "window %d, item %d", w+1, c.item+1)
				delete(sums[w], c.item)
			}
			for item, v := range sums[w] {
				require.InDelta(t, 0, v, 1e-12, "window %d, item %d", w+1, item+1)
			}
		}
	}
}

// Theorem 4.1 in rational numbers, where it is exact. The printed algorithm, with its scaling, gives the same weights as peeling
// without scaling and ending at one. rfsm gives them up to rounding.
func TestTheorem41_ExactInRationals(t *testing.T) {
	rng := newRand(t, 5)
	for trial := range 150 {
		n := 1 + trial%7
		exact := rationalMatrix(rng, n)
		printed, count := rationalRFSM(exact, true)
		unscaled, _ := rationalRFSM(exact, false)
		require.Len(t, unscaled, len(printed))
		rebuilt := emptyRational(n)
		z := 0
		for k, d := range printed {
			require.Zero(t, d.weight.Cmp(unscaled[k].weight))
			require.Equal(t, d.ranking, unscaled[k].ranking)
			for w := range n {
				cell := rebuilt[w][selected(d.ranking, w+1)]
				cell.Add(cell, d.weight)
			}
		}
		m := make(matrix, n)
		for w := range exact {
			for i, v := range exact[w] {
				require.Zero(t, v.Cmp(rebuilt[w][i]), "reproduces P exactly")
				if v.Sign() > 0 {
					z++
					f, _ := v.Float64()
					m[w] = append(m[w], entry{int32(i), f})
				}
			}
		}
		require.LessOrEqual(t, count, z-n+1)

		require.NoError(t, m.check(1e-9))
		found := rfsm(m)
		shares := map[string]float64{}
		for _, d := range found {
			shares[key(d.ranking)] += d.weight
		}
		for _, d := range printed {
			want, _ := d.weight.Float64()
			require.InDelta(t, want, shares[key(d.ranking)], 1e-12)
		}
	}
}

type rationalWeighted struct {
	weight  *big.Rat
	ranking []int32
}

func key(ranking []int32) string {
	b := make([]byte, len(ranking))
	for i, v := range ranking {
		b[i] = byte('a' + v)
	}
	return string(b)
}

func emptyRational(n int) [][]*big.Rat {
	m := make([][]*big.Rat, n)
	for w := range m {
		m[w] = make([]*big.Rat, n)
		for i := range m[w] {
			m[w][i] = new(big.Rat)
		}
	}
	return m
}

// rationalMatrix is a mixture of rankings with weights that are small fractions.
func rationalMatrix(rng *rand.Rand, n int) [][]*big.Rat {
	m := emptyRational(n)
	weights := make([]int64, 1+rng.IntN(2*n))
	var sum int64
	for k := range weights {
		weights[k] = 1 + rng.Int64N(20)
		sum += weights[k]
	}
	for _, weight := range weights {
		order := randomRanking(rng, n)
		for w := range n {
			cell := m[w][selected(order, w+1)]
			cell.Add(cell, big.NewRat(weight, sum))
		}
	}
	return m
}

// rationalRFSM is Algorithm 3 as printed, or without the scaling of the rest.
func rationalRFSM(given [][]*big.Rat, scaled bool) (found []rationalWeighted, count int) {
	n := len(given)
	m := emptyRational(n)
	for w := range m {
		for i := range m[w] {
			m[w][i].Set(given[w][i])
		}
	}
	one, mass, total := big.NewRat(1, 1), big.NewRat(1, 1), new(big.Rat)
	for total.Cmp(one) < 0 {
		selections := make([]int32, n)
		var least *big.Rat
		for w := range m {
			for m[w][selections[w]].Sign() == 0 {
				selections[w]++
			}
			if v := m[w][selections[w]]; least == nil || v.Cmp(least) < 0 {
				least = v
			}
		}
		least = new(big.Rat).Set(least)
		weight := new(big.Rat).Set(least)
		if scaled {
			weight.Mul(weight, mass)
		}
		total.Add(total, weight)
		found = append(found, rationalWeighted{weight, literalIntegralPermutation(selections)})
		for w := range m {
			m[w][selections[w]].Sub(m[w][selections[w]], least)
		}
		if rest := new(big.Rat).Sub(one, least); scaled && rest.Sign() > 0 {
			mass.Mul(mass, rest)
			for w := range m {
				for i := range m[w] {
					m[w][i].Quo(m[w][i], rest)
				}
			}
		}
	}
	return found, len(found)
}

// Section 4.1: lazy windows admit uniform selection, by the paper's mixture of the rankings π_i.
func TestSection41_UniformExploration(t *testing.T) {
	rng := newRand(t, 6)
	for trial := range 300 {
		n := 1 + trial%12
		q := make([]float64, n)
		for k := range q {
			q[k] = rng.ExpFloat64() + 1e-3
		}
		slices.Sort(q)
		slices.Reverse(q)
		normalise(q)
		require.True(t, UniformAdmissible(q))

		p, total := make([]float64, n), 0.0
		before := 0.0 // q_1 + … + q_{i−1}
		for i := range n {
			alpha := 1 / (float64(n) * q[0])
			if i > 0 {
				alpha = (before - float64(i)*q[i]) / (float64(n) * before * (before + q[i]))
			}
			ranking := make([]int32, n) // i, i−1, …, 1, i+1, …, n
			for k := range ranking {
				ranking[k] = int32(k)
				if k <= i {
					ranking[k] = int32(i - k)
				}
			}
			for w := range n {
				p[selected(ranking, w+1)] += alpha * q[w]
			}
			total += alpha
			before += q[i]
		}
		_ = total
		for i := range p {
			require.InDelta(t, p[0], p[i], 1e-9, "q %v, p %v", q, p)
		}
		require.InDelta(t, 1, total, 1e-9)
	}
	folded := must(Geometric(0.7, 100)).Fold(make([]float64, 2))
	require.InDelta(t, 0.3, folded[0], 1e-12)
	require.False(t, UniformAdmissible(folded), "folding the tail can lose it")
	require.True(t, UniformAdmissible([]float64{1}))
	require.False(t, UniformAdmissible([]float64{0, 1}))
	require.False(t, UniformAdmissible([]float64{math.NaN(), 1}))
	for n := 1; n < 200; n++ {
		require.True(t, UniformAdmissible(must(Geometric(1, n)).Fold(make([]float64, n))))
	}
}
