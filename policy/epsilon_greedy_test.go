package policy

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/admissibletest"
	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// lazyWeights are random whole numbers that do not rise, the first positive: windows in proportion to them are lazy.
func lazyWeights(rng *rand.Rand, n int) []int64 {
	weights := make([]int64, n)
	for k := range weights {
		weights[k] = rng.Int64N(20)
	}
	weights[0]++
	slices.Sort(weights)
	slices.Reverse(weights)
	return weights
}

// shares are weights over their sum.
func shares(weights []int64) []*big.Rat {
	var sum int64
	for _, w := range weights {
		sum += w
	}
	q := make([]*big.Rat, len(weights))
	for k, w := range weights {
		q[k] = big.NewRat(w, sum)
	}
	return q
}

func floats(q []*big.Rat) []float64 {
	f := make([]float64, len(q))
	for k, x := range q {
		f[k], _ = x.Float64()
	}
	return f
}

// The paper mixes the permutations π_i = (i, i−1, …, 1, i+1, …, n), with the α_i as printed. For lazy windows that is a distribution under
// which each item is selected with probability 1/n. The test is in whole numbers, so exact.
func TestSection41_PaperMixtureIsUniform(t *testing.T) {
	const seed = 411
	rng := rand.New(rand.NewPCG(seed, 1))
	for trial := range 300 {
		n := 1 + trial%9
		q := shares(lazyWeights(rng, n))
		sum, p := new(big.Rat), make([]*big.Rat, n)
		for i := range p {
			p[i] = new(big.Rat)
		}
		before := new(big.Rat) // q_1 + … + q_{i−1}
		for i := range n {
			upTo := new(big.Rat).Add(before, q[i])
			alpha := new(big.Rat).Mul(big.NewRat(int64(n), 1), q[0])
			alpha.Inv(alpha)
			if i > 0 {
				alpha.Sub(before, new(big.Rat).Mul(big.NewRat(int64(i), 1), q[i]))
				below := new(big.Rat).Mul(before, upTo)
				alpha.Quo(alpha, below.Mul(below, big.NewRat(int64(n), 1)))
			}
			require.GreaterOrEqual(t, alpha.Sign(), 0, "α_%d for q = %v (seed %d)", i+1, q, seed)
			sum.Add(sum, alpha)
			order := make([]int32, n)
			for k := range order {
				order[k] = int32(k)
				if k <= i {
					order[k] = int32(i - k)
				}
			}
			for w := range n {
				p[policytest.Select(order, w+1)].Add(p[policytest.Select(order, w+1)], new(big.Rat).Mul(alpha, q[w]))
			}
			before = upTo
		}
		require.Equal(t, "1/1", sum.String())
		for i := range p {
			require.Equal(t, big.NewRat(1, int64(n)).String(), p[i].String(), "item %d, q = %v (seed %d)", i+1, q, seed)
		}
	}
}

// The coupling that replaces the mixture selects each item with probability 1/n, too, wherever that is admissible, lazy or not. The test
// sums in whole numbers over all windows, with the rankings of Sample. Each window selects an item for u in an interval; its ends are where
// x_w meets one of the sums T_k.
func TestSection41_CouplingIsUniform(t *testing.T) {
	const seed = 412
	rng := rand.New(rand.NewPCG(seed, 1))
	var sampler admissible.Sampler
	tried := 0
	for trial := 0; tried < 200; trial++ {
		n := 2 + trial%6
		weights := lazyWeights(rng, n)
		if trial%2 == 1 { // in any order, where that is admissible
			rng.Shuffle(n, func(a, b int) { weights[a], weights[b] = weights[b], weights[a] })
		}
		exact := shares(weights)
		q := floats(exact)
		if !admissible.UniformAdmissible(q) {
			continue
		}
		tried++
		aim := make([]float64, n)
		NewEpsilonGreedy().Aim(q, aim, &Workspace{})
		cuts := []*big.Rat{big.NewRat(0, 1), big.NewRat(1, 1)}
		tail := new(big.Rat)
		for w := n - 1; w >= 0; w-- {
			for k := 1; k <= n && exact[w].Sign() > 0; k++ {
				u := new(big.Rat).Sub(big.NewRat(int64(k), int64(n)), tail)
				if u.Quo(u, exact[w]); u.Sign() > 0 && u.Cmp(cuts[1]) < 0 {
					cuts = append(cuts, u)
				}
			}
			tail.Add(tail, exact[w])
		}
		slices.SortFunc(cuts, (*big.Rat).Cmp)
		served := make([]*big.Rat, n)
		for i := range served {
			served[i] = new(big.Rat)
		}
		order := make([]int32, n)
		for k := range cuts[1:] {
			width := new(big.Rat).Sub(cuts[k+1], cuts[k])
			middle := new(big.Rat).Add(cuts[k], cuts[k+1])
			u, _ := middle.Mul(middle, big.NewRat(1, 2)).Float64()
			if width.Sign() == 0 {
				continue
			}
			sampler.Sample(aim, q, u, order)
			for w := range n {
				i := policytest.Select(order, w+1)
				served[i].Add(served[i], new(big.Rat).Mul(width, exact[w]))
			}
		}
		for i := range served {
			require.Equal(t, big.NewRat(1, int64(n)).String(), served[i].String(), "item %d, weights %v (seed %d)", i+1, weights, seed)
		}
	}
}

// requireFrequencies wants counts to be drawn from p, by a chi-square test with the given rate of false alarms. Cells
// of which fewer than 10 are expected are put together with the next.
func requireFrequencies(t *testing.T, counts []int64, p []float64, falseAlarms float64) {
	t.Helper()
	var total, statistic, expected, seen float64
	for _, c := range counts {
		total += float64(c)
	}
	cells := 0
	for i, c := range counts {
		expected += p[i] * total
		seen += float64(c)
		if expected < 10 && i+1 < len(counts) {
			require.False(t, p[i] == 0 && c > 0, "item %d has probability 0", i)
			continue
		}
		if expected > 0 {
			statistic += (seen - expected) * (seen - expected) / expected
			cells++
		} else {
			require.Zero(t, seen)
		}
		expected, seen = 0, 0
	}
	require.Greater(t, cells, 1)
	limit := distuv.ChiSquared{K: float64(cells - 1)}.Quantile(1 - falseAlarms)
	require.Less(t, statistic, limit, "counts %v, probabilities %v", counts, p)
}

// drawWindow draws a window from q.
func drawWindow(rng *rand.Rand, q []float64) int {
	u := rng.Float64()
	for w, x := range q {
		if u -= x; u < 0 {
			return w + 1
		}
	}
	return len(q)
}

// folded is the distribution P(w) ∝ 0.7^w, w ≤ 30, for lists of n.
func folded(t testing.TB, n int) []float64 {
	w, err := admissible.Geometric(0.7, 30)
	require.NoError(t, err)
	return w.Fold(make([]float64, n))
}

// Under exploration each candidate is equally likely to be selected; otherwise the greedy ranking is shown. The coin is fair to ε. Over all
// decisions, items are selected as often as the propensities say. At most one false alarm in 10⁷ runs for each of the 4·3 tests; the seed
// is fixed besides.
func TestSection41_SelectionsFollowThePropensities(t *testing.T) {
	const seed, decisions, falseAlarms = 413, 200_000, 1e-7
	for _, n := range []int{2, 3, 10, 40} {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		table := NewTable(n)
		for i := range n { // no ties, so that there is one greedy ranking; ε is about 0.4
			fed := int64(float64(n) * math.Log(float64(n)) / 0.064 / float64(n))
			table.Set(Item(i), sumsOf(fed, rng.Float64()))
		}
		e, q, aim := NewEpsilonGreedy(), folded(t, n), make([]float64, n)
		var ws Workspace
		e.Aim(q, aim, &ws)
		greedy := rank(NewGreedy(), &Input{Items: seq(n), Table: table})
		epsilon := e.Epsilon(n, table.Fed())
		order, propensities := make([]int32, n), make([]float64, n)
		explored, all := make([]int64, n), make([]int64, n)
		coins := make([]int64, 2)
		p := make([]float64, n)
		for range decisions {
			in := Input{Items: seq(n), Table: table, Key: Key(rng.Uint64())}
			explores := e.Explore(&in, q, aim, &ws, order, propensities)
			for k, position := range order {
				p[position] = propensities[k]
			}
			selected := policytest.Select(order, drawWindow(rng, q))
			all[selected]++
			if explores {
				explored[selected]++
				coins[1]++
			} else {
				coins[0]++
				require.Equal(t, greedy, order)
			}
		}
		requireFrequencies(t, coins, []float64{1 - epsilon, epsilon}, falseAlarms)
		requireFrequencies(t, explored, aim, falseAlarms)
		requireFrequencies(t, all, p, falseAlarms)
		if n > 3 { // folded onto two or three, the windows do not admit it
			for _, x := range aim {
				require.InDelta(t, 1/float64(n), x, 1e-15)
			}
		}
	}
}

// The propensities are ε times the aim plus 1−ε times the windows' selections from the greedy ranking, for all draws.
func TestEpsilonGreedy_PropensitiesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		weights := rapid.SliceOfN(rapid.Float64Range(0, 1), n, n).Draw(t, "windows")
		weights[rapid.IntRange(0, n-1).Draw(t, "positive")] += 0.1
		q := make([]float64, n)
		var total float64
		for _, w := range weights {
			total += w
		}
		for k, w := range weights {
			q[k] = w / total
		}
		table := NewTable(n)
		for i := range Item(n) {
			if count := rapid.Int64Range(0, 40).Draw(t, "N"); count > 0 {
				table.Set(i, sumsOf(count, rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "mean")))
			}
		}
		var ws Workspace
		e, aim := NewEpsilonGreedy(), make([]float64, n)
		e.Aim(q, aim, &ws)
		require.NoError(t, admissibletest.Contains(aim, q, 1e-12))
		in := Input{Items: seq(n), Table: table, Key: Key(rapid.Uint64().Draw(t, "key"))}
		if rapid.Bool().Draw(t, "per impression") {
			knowFactors(t, &in)
		}
		order, propensities := make([]int32, n), make([]float64, n)
		explored := e.Explore(&in, q, aim, &ws, order, propensities)

		greedy := rank(NewGreedy(), &in)
		if !explored {
			require.Equal(t, greedy, order)
		}
		epsilon := e.Epsilon(n, table.Fed())
		want := make([]float64, n)
		for i := range want {
			want[i] = epsilon * aim[i]
		}
		for w := range n {
			want[policytest.Select(greedy, w+1)] += (1 - epsilon) * q[w]
		}
		var sum float64
		for k, position := range order {
			require.InDelta(t, want[position], propensities[k], 1e-14)
			sum += propensities[k]
		}
		require.InDelta(t, 1, sum, 1e-13)
		again, propensitiesAgain := make([]int32, n), make([]float64, n)
		require.Equal(t, explored, e.Explore(&in, q, aim, &Workspace{}, again, propensitiesAgain))
		require.Equal(t, order, again)
		require.Equal(t, propensities, propensitiesAgain)
	})
}

func TestEpsilonGreedy_Epsilon(t *testing.T) {
	e := NewEpsilonGreedy()
	require.Zero(t, e.Epsilon(1, 0), "of one candidate there is nothing to learn")
	require.EqualValues(t, 1, e.Epsilon(2, 0))
	require.EqualValues(t, 1, e.Epsilon(10, 22), "10·ln 10 = 23.03")
	require.Less(t, e.Epsilon(10, 23), 1.0)
	require.InDelta(t, math.Pow(10*math.Log(10)/1e6, 1.0/3), e.Epsilon(10, 1e6-1), 1e-15)
	require.InDelta(t, 0.1*e.Epsilon(7, 1e6-1), e.Epsilon(7, 1e9-1), 1e-12, "t^{-1/3}")
	for _, fed := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		for _, n := range []int{1, 2, 1000, math.MaxInt32} {
			x := e.Epsilon(n, fed)
			require.True(t, x >= 0 && x <= 1, "ε(%d, %d) = %v", n, fed, x)
		}
	}
}

// Whatever statistics and windows are, rankings are permutations, and propensities a distribution without a NaN.
func TestEpsilonGreedy_Extremes(t *testing.T) {
	sums := []Sums{{}, {N: 1, R: math.MaxFloat64, Q: math.MaxFloat64}, {N: 1, R: -math.MaxFloat64, Q: math.MaxFloat64},
		{N: math.MaxInt64 / 8, R: 0}, {N: 1, R: math.SmallestNonzeroFloat64}, {N: 3, R: math.Copysign(0, -1)}}
	windows := map[string][]float64{
		"first": {1}, "last": {0, 0, 0, 0, 0, 1}, "gap": {0.5, 0, 0, 0.5}, "no first": {0, 1}, "tiny": {1e-300, 1},
		"even": {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125},
	}
	e := NewEpsilonGreedy()
	for name, weights := range windows {
		w, err := admissible.NewWindows(weights)
		require.NoError(t, err)
		for _, n := range []int{1, 2, 3, 6, 9, 200} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				table := NewTable(n)
				for i := range n {
					table.Set(Item(i), sums[i%len(sums)])
				}
				q, aim := w.Fold(make([]float64, n)), make([]float64, n)
				var ws Workspace
				e.Aim(q, aim, &ws)
				for key := range 50 {
					order, propensities := make([]int32, n), make([]float64, n)
					in := Input{Items: seq(n), Table: table, Key: Key(key)}
					e.Explore(&in, q, aim, &ws, order, propensities)
					require.Equal(t, seq(n), slices.Sorted(slices.Values(order)))
					var sum float64
					for _, p := range propensities {
						require.True(t, p >= 0 && p <= 1+1e-12, "%v", propensities)
						sum += p
					}
					require.InDelta(t, 1, sum, 1e-12)
				}
			})
		}
	}
}

func BenchmarkEpsilonGreedy(b *testing.B) {
	for _, n := range []int{10, 20, 100, 1000} {
		rng := rand.New(rand.NewPCG(1, 1))
		table := NewTable(n)
		for i := range n {
			table.Set(Item(i), sumsOf(1000, rng.Float64()))
		}
		q, aim := folded(b, n), make([]float64, n)
		in := Input{Items: seq(n), Table: table}
		var ws Workspace
		order, propensities := make([]int32, n), make([]float64, n)
		e := NewEpsilonGreedy()
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			e.Aim(q, aim, &ws)
			b.ReportAllocs()
			for key := 0; b.Loop(); key++ {
				in.Key = Key(key)
				e.Explore(&in, q, aim, &ws, order, propensities)
			}
		})
		b.Run(fmt.Sprintf("greedy/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewGreedy().Rank(&in, &ws, order)
			}
		})
	}
}
