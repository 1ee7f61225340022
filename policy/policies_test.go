package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
)

func rank(p Policy, in *Input) []int32 {
	dst := make([]int32, len(in.Items))
	p.Rank(in, &Workspace{}, dst)
	return dst
}

func elimination(t require.TestingT, c Confidence) *Elimination {
	e, err := NewElimination(c)
	require.NoError(t, err)
	return e
}

// tableOf has items 0.. with the given sums.
// inFlight are so many selections of each item.
// flying are selections in flight as a test says.
type flying struct{ Pages[Count] }

func (f *flying) Pooled(i Item) Count { return f.Get(i) }

func inFlight(counts ...Count) *flying {
	all := &flying{}
	for i, n := range counts {
		*all.At(Item(i)) = n
	}
	return all
}

func tableOf(sums ...Sums) *Table {
	table := NewTable(len(sums))
	for i, s := range sums {
		table.Set(Item(i), s)
	}
	return table
}

func TestNewElimination_RefusesWhatIsOutOfRange(t *testing.T) {
	for _, c := range []Confidence{
		{Sigma: 0, Delta: 0.1}, {Sigma: -1, Delta: 0.1}, {Sigma: math.NaN(), Delta: 0.1}, {Sigma: math.Inf(1), Delta: 0.1},
		{Sigma: 1, Delta: 0}, {Sigma: 1, Delta: 1.1}, {Sigma: 1, Delta: math.NaN()}, {Sigma: 1, Delta: -0.1},
		{Radius: 7, Sigma: 1, Delta: 0.1}, {Radius: Paper, Delta: 2},
	} {
		_, err := NewElimination(c)
		require.Error(t, err, "%+v", c)
	}
	for _, c := range []Confidence{{Sigma: 0.5, Delta: 1}, {Sigma: 0.5, AutoDelta: true}, {Radius: Paper, Delta: 1e-300}} {
		_, err := NewElimination(c)
		require.NoError(t, err, "%+v", c)
	}
}

func TestParseRadius(t *testing.T) {
	for _, r := range []Radius{Subgaussian, Paper} {
		parsed, err := ParseRadius(r.String())
		require.NoError(t, err)
		require.Equal(t, r, parsed)
	}
	_, err := ParseRadius("Paper")
	require.Error(t, err)
}

// The radius is the formula, and the paper's is the sub-Gaussian one with σ = 1/√2.
func TestConfidence_Radius(t *testing.T) {
	const n, fed, delta = 7, 999, 0.05
	l := math.Log(4 * n * 1000 * 1000 / delta)
	require.InEpsilon(t, l, Confidence{Radius: Paper, Delta: delta}.spread(n, fed), 1e-12)
	require.InEpsilon(t, 2*9*l, Confidence{Sigma: 3, Delta: delta}.spread(n, fed), 1e-12)
	require.InEpsilon(t, l, Confidence{Sigma: math.Sqrt2 / 2, Delta: delta}.spread(n, fed), 1e-12)
	require.InEpsilon(t, math.Log(4*n*1e9), Confidence{Radius: Paper, AutoDelta: true}.spread(n, fed), 1e-12)
	require.False(t, math.IsInf(Confidence{Sigma: maxSigma, Delta: math.SmallestNonzeroFloat64}.spread(math.MaxInt32, math.MaxInt64-1), 0))
}

// n is the number of items the learner knows, not of candidates; t counts the payoffs of all of them.
func TestElimination_RadiusCountsAllKnownItems(t *testing.T) {
	few := tableOf(sumsOf(100, 0.2), sumsOf(101, 0.9))
	many := tableOf(sumsOf(100, 0.2), sumsOf(101, 0.9))
	many.Grow(1 << 20)
	e := elimination(t, Confidence{Sigma: 0.5, Delta: 0.5})
	in := Input{Items: []Item{0, 1}, Table: few}
	require.Equal(t, []int32{1, 0}, rank(e, &in), "dominated")
	in.Table = many
	require.Equal(t, []int32{0, 1}, rank(e, &in), "the radius has grown")
}

// Every policy ranks every candidate once and leaves its input alone. The paper's, and utility, block in decreasing utility.
func TestPolicies_RankIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		table := NewTable(n)
		for i := range Item(n) {
			if count := rapid.Int64Range(0, 3).Draw(t, "N"); count > 0 {
				table.Set(i, sumsOf(count, rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "mean")))
			}
		}
		items := rapid.Permutation(seq(n)).Draw(t, "items")[:rapid.IntRange(1, n).Draw(t, "candidates")]
		in := Input{Items: items, Table: table, Key: Key(rapid.Uint64().Draw(t, "key"))}
		if rapid.Bool().Draw(t, "counted") {
			in.InFlight = inFlight()
		}
		before := slices.Clone(items)
		falls := []Policy{elimination(t, Confidence{Sigma: 0.1, Delta: 0.5}), NewUtility()}
		policies := []Policy{falls[0], falls[1], NewGreedy(), NewKLUCB()}
		for _, p := range indexPolicies(t) {
			policies = append(policies, p)
		}
		for _, p := range policies {
			order := rank(p, &in)
			require.Equal(t, before, in.Items)
			require.Equal(t, order, rank(p, &in), "the same decision again")
			best := int32(-1)
			for k, position := range order {
				if position < best && slices.Contains(falls, p) {
					require.Equal(t, order[k-1]-1, position, "blocked items in decreasing utility: %v", order)
				}
				best = max(best, position)
			}
			slices.Sort(order)
			for k := range order {
				require.EqualValues(t, k, order[k])
			}
		}
	})
}

func seq(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item(i)
	}
	return items
}

func TestPolicies_OneCandidate(t *testing.T) {
	in := Input{Items: []Item{1}, Table: tableOf(Sums{}, Sums{})}
	for _, p := range []Policy{elimination(t, Confidence{Sigma: 1, Delta: 0.1}), NewGreedy(), NewUtility()} {
		require.Equal(t, []int32{0}, rank(p, &in))
	}
}

func TestUtility_EveryWindowSelectsTheFavourite(t *testing.T) {
	in := Input{Items: seq(5), Table: NewTable(5)}
	order := rank(NewUtility(), &in)
	for window := 1; window <= 5; window++ {
		require.EqualValues(t, 4, policytest.Select(order, window))
	}
}

// TestGreedy_SharesCountAtTheMost: an item that was hardly ever on top leads until its share is known. The candidates that it blocks follow
// by expected payoff.
func TestGreedy_SharesCountAtTheMost(t *testing.T) {
	in := Input{Items: seq(3), Table: NewTable(3)}
	for i, mean := range []float64{0.5, 0.5, 0.4} {
		in.Table.Set(Item(i), sumsOf(100, mean))
	}
	in.Known = &Known{Share: 0.4, Fair: 100}
	for _, share := range []Estimate{{0.4, 1000}, {0.45, 1000}, {0.4, 2}} {
		payoff := in.Table.Evidence(Item(len(in.Known.Factors))).Mean()
		in.Known.Factors = append(in.Known.Factors, Factors{Share: share, Payoff: Estimate{payoff, 100}})
		in.Known.Candidates = append(in.Known.Candidates, Estimate{share.Mean * payoff / 0.4, 100})
	}
	require.Equal(t, []int32{2, 1, 0}, rank(NewGreedy(), &in))
	in.Known.Factors[2].Share.Weight = 1000
	require.Equal(t, []int32{1, 0, 2}, rank(NewGreedy(), &in))
}

func TestGreedy_LeadersByMean(t *testing.T) {
	in := Input{Items: seq(5), Table: tableOf(sumsOf(3, 0.1), sumsOf(4, 0.9), sumsOf(5, 0.2), sumsOf(6, 0.5), sumsOf(7, 0.4))}
	require.Equal(t, []int32{1, 0, 3, 2, 4}, rank(NewGreedy(), &in))
	in.Table.Set(2, sumsOf(3, 0.9)) // as good as item 1, and sampled less
	require.Equal(t, []int32{2, 1, 0, 3, 4}, rank(NewGreedy(), &in))
}

// Unseen items lead, those with the fewest selections in flight first, for elimination and greedy alike.
func TestPolicies_UnseenItemsFirst(t *testing.T) {
	in := Input{
		Items: seq(4), Table: tableOf(sumsOf(9, 0.9), Sums{}, sumsOf(1, 0), Sums{}),
		InFlight: inFlight(0, 1, 0, 2),
	}
	for _, p := range []Policy{elimination(t, Confidence{Sigma: 0.5, Delta: 0.1}), NewGreedy(), moss(t, Belief{Sigma: 0.1}),
		optimistic(t, Belief{Sigma: 0.1}), thompson(t, Belief{Sigma: 0.1})} {
		require.Equal(t, []int32{1, 0, 3, 2}, rank(p, &in))
		*in.InFlight.(*flying).At(1) = 3
		want := []int32{3, 1, 0, 2} // those that 3 blocks by mean
		if _, paper := p.(*Elimination); paper {
			want = []int32{3, 2, 1, 0}
		}
		require.Equal(t, want, rank(p, &in))
		*in.InFlight.(*flying).At(1) = 1
	}
}

// An item that has not been paid yet, but is on its way to be, is not infinitely good: or all impressions would go to it until
// its payoff comes. It stands where the mean of all payoffs stands.
func TestPolicies_UnseenItemsOnTheirWay(t *testing.T) {
	for _, p := range []Policy{NewGreedy(), NewKLUCB(), moss(t, Belief{Sigma: 0.01}), optimistic(t, Belief{Sigma: 0.01}),
		thompson(t, Belief{Sigma: 0.01})} {
		in := Input{Items: seq(3), Table: tableOf(Sums{}, sumsOf(100, 0.9), sumsOf(100, 0.1)), InFlight: inFlight(50, 0, 0)}
		require.EqualValues(t, 0, rank(p, &in)[0], "where flights do not count")
		await(in.Table, []Evidence{{Open: 50}, {}, {}})
		require.Equal(t, []int32{1, 0, 2}, rank(p, &in), "the mean of all is 0.5")
		await(in.Table, make([]Evidence, 3))
		require.EqualValues(t, 0, rank(p, &in)[0])
	}
}

// Ties are drawn fairly: of 3 items alike, each leads a third of 30,000 decisions, within 6 standard deviations (82), so
// that a false alarm has a probability below 10⁻⁸. Where less is in flight, nothing is drawn.
func TestPolicies_TiesAreDrawnFairly(t *testing.T) {
	for _, sums := range []Sums{{}, sumsOf(5, 0.5)} {
		in := Input{Items: seq(3), Table: tableOf(sums, sums, sums)}
		for _, p := range []Policy{elimination(t, Confidence{Sigma: 1, Delta: 0.1}), NewGreedy(), moss(t, Belief{Sigma: 1}),
			optimistic(t, Belief{Sigma: 1, Prior: EmpiricalPrior})} {
			var leads [3]int
			for k := range int64(30_000) {
				in.Key = DecisionKey(1, 1, "ties", 0, k)
				leads[rank(p, &in)[0]]++
			}
			for _, n := range leads {
				require.InDelta(t, 10_000, n, 6*82)
			}
			in.InFlight = inFlight(1, 0, 1)
			for k := range int64(100) {
				in.Key = Key(k)
				require.EqualValues(t, 1, rank(p, &in)[0])
			}
			in.InFlight = nil
		}
	}
}
