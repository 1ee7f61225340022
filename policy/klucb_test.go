package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func kl(p, q float64) float64 {
	part := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * math.Log(a/b)
	}
	return part(p, q) + part(1-p, 1-q)
}

// bisected is the largest q with kl(p,q) ≤ x, found slowly.
func bisected(p, x float64) float64 {
	low, high := p, 1.0
	for range 200 {
		if q := (low + high) / 2; kl(p, q) <= x {
			low = q
		} else {
			high = q
		}
	}
	return low
}

func TestKLAbove_IsWhereTheDivergenceIsSpent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.OneOf(rapid.SampledFrom([]float64{0, 1e-300, 1e-9, 0.5, 1 - 1e-9, 1}), rapid.Float64Range(0, 1)).Draw(t, "p")
		x := rapid.OneOf(rapid.SampledFrom([]float64{0, 1e-12, 1e-6, 40, 700, 1e6}), rapid.Float64Range(0, 10)).Draw(t, "x")
		got, want := klAbove(p, x), bisected(p, x)
		// Of a divergence of some 1e-16 nothing is left between two logarithms.
		require.InDelta(t, want, got, 1e-9*want+math.Sqrt(1e-15*want), "p %v, x %v", p, x)
		require.GreaterOrEqual(t, got, p)
		require.LessOrEqual(t, got, 1.0)
	})
}

// The ranking is that of the definition: candidates excluded by the bound could not lead.
func TestKLUCB_RanksByItsIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := randomInput(t)
		p := NewKLUCB()
		x, index := p.common(&in, &Workspace{}), make([]float64, len(in.Items))
		for k, item := range in.Items {
			_, index[k] = p.of(x, &in, int32(k), math.Inf(-1))
			if s := in.Table.Evidence(item); s.W > 0 {
				at := in.Table.Weight() + 1
				x := math.Log(1+at*math.Pow(math.Log(at+1), 2)) / (s.W + s.Open)
				require.InDelta(t, bisected(min(s.R/s.W, 1), x), index[k], 1e-9)
			}
		}
		require.Equal(t, literal(&in, literalMeans(expectation{}, &in), index), rank(p, &in))
	})
}

// TestKLUCB_RanksByItsIndexPerImpression: the index is the bound of the payoff times that of the share, and excluded candidates could not lead.
func TestKLUCB_RanksByItsIndexPerImpression(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := randomInput(t)
		knowFactors(t, &in)
		p, known := NewKLUCB(), in.Known
		x := p.common(&in, &Workspace{})
		index, means := make([]float64, len(in.Items)), make([]float64, len(in.Items))
		for k, f := range known.Factors {
			means[k], index[k] = p.of(x, &in, int32(k), math.Inf(-1))
			require.Equal(t, known.Candidates[k].Mean, means[k])
			if f.Payoff.Weight > 0 {
				bonus := math.Sqrt(2 * max(f.Share.Mean*(1-f.Share.Mean), known.Share*(1-known.Share)) * math.Log(1+known.Fair/f.Share.Weight) / f.Share.Weight)
				times := min(1, f.Share.Mean+bonus) / known.Share
				want := known.Nothing + times*(bisected(min(f.Payoff.Mean, 1), x.log/f.Payoff.Weight)-known.Nothing)
				require.InDelta(t, want, index[k], 1e-9*max(1, times))
			}
		}
		require.Equal(t, literal(&in, means, index), rank(p, &in))
	})
}

// knowFactors gives an input random shares of selections, and the estimates that come of them.
func knowFactors(t *rapid.T, in *Input) {
	known := &Known{Share: rapid.Float64Range(0.01, 0.99).Draw(t, "mean share"), Nothing: rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "nothing"),
		Fair: rapid.Float64Range(0, 1000).Draw(t, "fair")}
	for _, i := range in.Items {
		e := in.Table.Evidence(i)
		f := Factors{Share: Estimate{rapid.Float64Range(1e-6, 1-1e-6).Draw(t, "share"), rapid.Float64Range(1, 1000).Draw(t, "impressions")}}
		f.Payoff, known.Candidates = Estimate{math.Inf(1), 0}, append(known.Candidates, Estimate{math.Inf(1), 0})
		if e.W > 0 {
			f.Payoff = Estimate{e.Mean(), e.W + e.Open}
			known.Candidates[len(known.Candidates)-1] = Estimate{known.Nothing + f.Share.Mean*(e.Mean()-known.Nothing)/known.Share, e.W}
		}
		known.Factors = append(known.Factors, f)
	}
	in.Known = known
}

// TestKLUCB_SeparatesRareConversions: where items pay in one of a hundred cases, or in one of twenty, it loses less than half of
// Optimistic's loss, whose bound uses only the range. Over 100 other sets of four seeds the logarithm of the ratio had a mean of −1.47 and
// a deviation of 0.07. The largest ratio was 0.27: one half is eleven deviations away.
func TestKLUCB_SeparatesRareConversions(t *testing.T) {
	optimistic := optimistic(t, Belief{Sigma: 0.5})
	var lost [2]float64
	for seed := range uint64(4) {
		lost[0] += conversions(NewKLUCB(), seed, 20_000)
		lost[1] += conversions(optimistic, seed, 20_000)
	}
	t.Logf("lost: klucb %.0f, optimistic %.0f", lost[0], lost[1])
	require.Less(t, lost[0], lost[1]/2)
	require.Positive(t, lost[0])
}

// conversions plays a policy on users who look at one result, and gives its regret.
func conversions(p Policy, seed uint64, rounds int) (regret float64) {
	means := []float64{0.05, 0.01, 0.012, 0.009, 0.002} // by utility: the highest pays least
	table := NewTable(len(means))
	items := make([]Item, len(means))
	for i := range items {
		items[i] = Item(i)
	}
	in := Input{Items: items, Table: table}
	ws, order := &Workspace{}, make([]int32, len(means))
	for n := range rounds {
		in.Key = DecisionKey(seed, 0, "rare", 0, int64(n))
		p.Rank(&in, ws, order)
		item := order[0] // a window of 1
		regret += means[0] - means[item]
		paid := 0.0
		if in.Key.Float64(1<<33) < means[item] {
			paid = 1
		}
		s := table.Own(item)
		table.Set(item, Sums{N: s.N + 1, R: s.R + paid, Q: s.Q + paid})
	}
	return regret
}
