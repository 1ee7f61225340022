package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func population(t *testing.T, change func(*Config)) *Population {
	t.Helper()
	config := Defaults(7)
	if change != nil {
		change(&config)
	}
	p, err := NewPopulation(config)
	require.NoError(t, err)
	return p
}

// TestImpressionsAreAFunctionOfSeedAndNumber: in any order, from any population of the same configuration.
func TestImpressionsAreAFunctionOfSeedAndNumber(t *testing.T) {
	a, b := population(t, nil), population(t, nil)
	other := population(t, func(c *Config) { c.Seed++ })
	order := make([]int, a.Config().Candidates)
	for i := range order {
		order[i] = i
	}
	const n = 200
	for k := range n {
		back := n - 1 - k
		a.Impression(k) // whatever was asked for before
		im := b.Impression(back)
		require.Equal(t, a.Impression(back), im)
		require.Equal(t, a.Respond(im, order), b.Respond(im, order))
		require.NotEqual(t, other.Impression(back).Candidates, im.Candidates)
	}
}

func TestImpressionsAreWellFormed(t *testing.T) {
	for _, kind := range []Payoffs{Bernoulli, Gaussian} {
		p := population(t, func(c *Config) { c.Payoffs = kind })
		for k := range 1000 {
			im := p.Impression(k)
			n := p.Config().Candidates
			require.Len(t, im.Candidates, n)
			require.Equal(t, p.Config().Start+int64(k)*300_000, im.Time)
			require.True(t, im.Window >= 1 && im.Window <= n)
			seen := map[string]bool{}
			for i, c := range im.Candidates {
				require.False(t, seen[c.Item])
				seen[c.Item] = true
				require.Equal(t, p.names[im.Items[i]], c.Item)
				require.Equal(t, p.worth[0].means[im.Items[i]], im.Means[i])
				require.True(t, im.Payoffs[i] >= 0 && im.Payoffs[i] <= 1)
				require.False(t, math.IsNaN(c.Utility) || math.IsInf(c.Utility, 0))
			}
		}
	}
}

// TestPayoffsHaveTheirMeans holds the hidden means against the draws, by Hoeffding's bound: a false alarm has a
// probability below 1e-8 an item.
func TestPayoffsHaveTheirMeans(t *testing.T) {
	for _, kind := range []Payoffs{Bernoulli, Gaussian} {
		p := population(t, func(c *Config) { c.Payoffs, c.Items, c.Candidates = kind, 8, 8 })
		sums := make([]float64, 8)
		const n = 20_000
		for k := range n {
			im := p.Impression(k)
			for i, item := range im.Items {
				sums[item] += im.Payoffs[i]
			}
		}
		for item, sum := range sums {
			require.InDelta(t, p.worth[0].means[item], sum/n, math.Sqrt(19.2/(2*n)), "item %d", item)
		}
	}
}

func TestClippedMeanAgainstIntegration(t *testing.T) {
	for _, mean := range []float64{0.02, 0.3, 0.5, 0.98} {
		for _, sd := range []float64{0.01, 0.2, 3} {
			const steps = 400_000
			var sum float64
			for i := range steps {
				z := -10 + 20*(float64(i)+0.5)/steps
				sum += min(max(mean+sd*z, 0), 1) * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * 20 / steps
			}
			require.InDelta(t, sum, ClippedMean(mean, sd), 1e-6)
		}
	}
}

func TestAlignmentDecidesWhetherUtilityOrderCosts(t *testing.T) {
	ledgers := map[float64]*Ledger{}
	for _, alignment := range []float64{1, -0.6, -1} {
		p := population(t, func(c *Config) { c.Alignment, c.Taste = alignment, 0 })
		l := &Ledger{}
		for k := range 500 {
			im := p.Impression(k)
			l.Add(im, Favourite(im.Candidates))
		}
		require.Equal(t, l.Regret, l.RegretUtilityOrder)
		ledgers[alignment] = l
	}
	require.Zero(t, ledgers[1].Regret, "who likes what pays best selects it")
	require.Zero(t, ledgers[1].Misalignment())
	require.Greater(t, ledgers[-0.6].Misalignment(), 0.5)
	require.Greater(t, ledgers[-0.6].Regret, 50.0)
	require.Greater(t, ledgers[-1].Regret, 50.0)
	require.Equal(t, 1.0, ledgers[-1].Misalignment())
	require.Zero(t, (&Ledger{}).Misalignment())
}

// TestLedgerAgainstAllPermutations counts regret with every permutation as the rival, instead of the closed form.
func TestLedgerAgainstAllPermutations(t *testing.T) {
	p := population(t, func(c *Config) { c.Items, c.Candidates = 9, 5 })
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	var l, want Ledger
	for k := range 150 {
		im := p.Impression(k)
		order := rng.Perm(5)
		byUtility := []int{0, 1, 2, 3, 4}
		slices.SortFunc(byUtility, func(i, j int) int {
			if im.Candidates[i].Utility > im.Candidates[j].Utility {
				return -1
			}
			return 1
		})
		selected, utility := slowSelect(im.Candidates, order, im.Window), slowSelect(im.Candidates, byUtility, im.Window)
		best := -1
		permutations(5, func(rival []int) {
			if s := slowSelect(im.Candidates, rival, im.Window); best < 0 || im.Means[s] > im.Means[best] {
				best = s
			}
		})
		want.Impressions++
		want.Regret += im.Means[best] - im.Means[selected]
		want.RegretUtilityOrder += im.Means[best] - im.Means[utility]
		want.Payoff += im.Payoffs[selected]
		want.PayoffUtilityOrder += im.Payoffs[utility]
		want.PayoffBest += im.Payoffs[best]
		if im.Means[byUtility[0]] < slices.Max(im.Means) {
			want.Misaligned++
		}
		l.Add(im, Select(im.Candidates, order, im.Window))
		require.GreaterOrEqual(t, l.Regret, 0.0)
	}
	require.InDelta(t, want.Regret, l.Regret, 1e-9)
	require.InDelta(t, want.RegretUtilityOrder, l.RegretUtilityOrder, 1e-9)
	want.Regret, want.RegretUtilityOrder = l.Regret, l.RegretUtilityOrder
	require.Equal(t, want, l)
}

func TestSampleIsUniform(t *testing.T) {
	const seed, n = 6, 60_000
	rng := rand.New(rand.NewPCG(seed, 0))
	counts := map[[3]int]int{}
	for range n {
		counts[[3]int(sample(rng, 5, 3))]++
	}
	require.Len(t, counts, 5*4*3)
	for drawn, count := range counts {
		require.False(t, drawn[0] == drawn[1] || drawn[1] == drawn[2] || drawn[0] == drawn[2])
		near(t, "sample", count, n, 1.0/60)
	}
}

func TestImpressionIDsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(0, math.MaxInt).Draw(t, "k")
		got, ok := ImpressionNumber(ImpressionID(k))
		if !ok || got != k {
			t.Fatalf("%d became %d, %v", k, got, ok)
		}
	})
	for _, id := range []string{"", "i-", "i--1", "i-01", "i-+1", "j-1", "i-1x", "nobody-1", "i-99999999999999999999"} {
		_, ok := ImpressionNumber(id)
		require.False(t, ok, id)
	}
}

func TestEveryFaultOfAConfigurationIsReported(t *testing.T) {
	_, err := NewPopulation(Config{
		Items: -1, Candidates: 3, Alignment: 2, Taste: -1, Payoffs: 9, Interval: -1, SelectionDelay: 1, MinDelay: 2, MaxDelay: 1,
		Horizon: 1, Unselected: -1, Missing: 2, Late: math.NaN(), Duplicates: 3, Orphans: 4,
	})
	require.ErrorIs(t, err, ErrConfig)
	for _, part := range []string{"items", "candidates", "alignment", "taste", "kind 9", "interval", "selection delay", "delays from",
		"horizon", "unselected", "missing", "late", "duplicates", "orphans", "together", "no windows"} {
		require.ErrorContains(t, err, part)
	}
	c := Defaults(1)
	c.Payoffs, c.Noise = Gaussian, 0
	_, err = NewPopulation(c)
	require.ErrorContains(t, err, "noise")
}

func BenchmarkImpression(b *testing.B) {
	p, err := NewPopulation(Defaults(1))
	require.NoError(b, err)
	order := rand.New(rand.NewPCG(1, 1)).Perm(p.Config().Candidates)
	var l Ledger
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		im := p.Impression(k)
		l.Add(im, p.Respond(im, order).Selected)
	}
}
