package delay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// grouped makes learners with segments and categories and no features.
func grouped(t require.TestingT, s Silence, segments []string, categories bool) *Direct {
	space, err := features.New(features.Declaration{Segments: segments, Categories: categories})
	require.NoError(t, err)
	l, err := NewContextual(policy.NewGreedy(), ContextualConfig{Space: space, Silence: s,
		Belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}})
	require.NoError(t, err)
	return l
}

var onlyIntercept = []int8{features.One}

// give has an item selected, and paid.
func give(d *Direct, i policy.Item, segment int32, payoff float64) {
	fb := Feedback{Item: i, Segment: segment, Payoff: payoff, X: onlyIntercept}
	d.Selected(fb)
	d.Paid(fb)
}

// likeFits makes two learners with the same evidence use the same fit: the time of a fit depends on the order of payoffs.
func likeFits(t require.TestingT, one, other *Direct) {
	for _, d := range []*Direct{one, other} {
		d.Advance(1)
	}
	require.NoError(t, one.contexts.model.Load(other.contexts.model.Append(nil)))
}

// expected is an item's expected payoff, and its worth in payoffs.
func expected(d *Direct, i policy.Item, segment int32) (mean, worth float64) {
	why := d.Explain([]policy.Item{i}, &policy.Context{X: onlyIntercept, Segment: segment}, 1).Why[0]
	return why.Mean, why.Worth
}

// When items get another category, their earlier evidence counts as if they had always had it: for any order of payoffs, categories
// and decisions.
func TestCategories_TheNewestHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := []string{"new", "loyal"}[:rapid.IntRange(0, 2).Draw(t, "segments")]
		const items = 6
		moved, settled := grouped(t, Silence{Law: SilenceAtOnce}, segments, true), grouped(t, Silence{Law: SilenceAtOnce}, segments, true)
		type payoff struct {
			item    policy.Item
			segment int32
			payoff  float64
		}
		var paid []payoff
		newest := map[policy.Item]string{}
		moved.Grow(items)
		require.NoError(t, moved.Loaded())
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.Int32Range(0, items-1).Draw(t, "item")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				name := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "category")
				moved.Categorise(i, name)
				if name != "" {
					newest[i] = name
				}
			case 1:
				expected(moved, i, 1)
			default:
				p := payoff{i, rapid.Int32Range(0, 3).Draw(t, "segment"), rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "payoff")}
				give(moved, p.item, p.segment, p.payoff)
				paid = append(paid, p)
			}
		}
		settled.Grow(items)
		require.NoError(t, settled.Loaded())
		for i := range policy.Item(items) {
			settled.Categorise(i, newest[i])
			require.Equal(t, newest[i], moved.contexts.categories.name(i))
		}
		for _, p := range rapid.Permutation(paid).Draw(t, "order") {
			give(settled, p.item, p.segment, p.payoff)
		}
		likeFits(t, moved, settled)
		for i := range policy.Item(items) {
			for segment := range int32(len(segments) + 1) {
				mean, worth := expected(moved, i, segment)
				wantMean, wantWorth := expected(settled, i, segment)
				require.Equal(t, []float64{wantMean, wantWorth}, []float64{mean, worth})
			}
		}
		known := 0
		for _, c := range moved.contexts.categories.all {
			known += c.uses
		}
		require.Equal(t, len(newest), known)
		require.LessOrEqual(t, len(moved.contexts.categories.all), 3, "numbers of categories that no item has are given again")
	})
}

// An item of which nothing is known is expected to pay as those of its category do.
func TestCategories_PredictNewItems(t *testing.T) {
	d := grouped(t, Silence{}, nil, true)
	const items = 61
	d.Grow(items)
	require.NoError(t, d.Loaded())
	for i := range policy.Item(items) {
		d.Categorise(i, fmt.Sprint("category ", i%3))
	}
	for n := range 600 {
		i := policy.Item(n % 60)
		give(d, i, 0, float64(i%3)/2)
		d.Advance(int64(n))
	}
	mean, _ := expected(d, 60, 0)
	require.Less(t, mean, 0.15, "as its like")
	d.Categorise(60, "category 2")
	mean, _ = expected(d, 60, 0)
	require.Greater(t, mean, 0.85)
}

// An item's payoffs in one segment count for another only as far as segments are alike.
func TestSegments_LearnApartAndTogether(t *testing.T) {
	for _, alike := range []bool{true, false} {
		d := grouped(t, Silence{}, []string{"new", "loyal"}, false)
		const items = 40
		d.Grow(items)
		require.NoError(t, d.Loaded())
		for n := range 4000 {
			i, segment := policy.Item(n%items), int32(1+n/items%2)
			payoff := float64(i%2) * 0.5
			if segment == 2 && !alike {
				payoff = float64(i/2%2) * 0.5
			}
			if segment == 2 && i < 4 { // of which the segment knows nothing
				continue
			}
			give(d, i, segment, payoff+0.25*float64(n/80%2))
			d.Advance(int64(n))
		}
		spread := func(segment int32) float64 {
			high, _ := expected(d, 1, segment)
			low, _ := expected(d, 0, segment)
			return high - low
		}
		require.Greater(t, spread(1), 0.45)
		if alike {
			require.Greater(t, spread(2), 0.4, "one segment says what another pays")
		} else {
			require.Less(t, spread(2), 0.35)
			a, _ := expected(d, 6, 2) // pays in segment 2 alone
			b, _ := expected(d, 5, 2) // in segment 1 alone
			require.Greater(t, a, b+0.3)
		}
	}
}

// Silence of an item is silence of the segments whose selections are awaited, before it is over.
func TestSegments_SilenceIsTheirs(t *testing.T) {
	for _, s := range []Silence{{Law: SilenceAtOnce}, {Law: SilenceAges, Horizon: lifeHorizon}} {
		d := grouped(t, s, []string{"pays", "never"}, false)
		const items = 10
		d.Grow(items)
		require.NoError(t, d.Loaded())
		for n := range int64(1200) {
			fb := Feedback{Ref: n, Item: policy.Item(n % items), Began: n * 100, Payoff: 1, X: onlyIntercept, Segment: 1 + int32(n/items%2)}
			d.Selected(fb)
			if fb.Segment == 1 && n/(2*items)%2 == 0 {
				d.Paid(fb)
			}
			d.Advance(n * 100)
		}
		d.Advance(lifeHorizon / 2)
		for i := range policy.Item(items) {
			pays, _ := expected(d, i, 1)
			never, _ := expected(d, i, 2)
			require.Greater(t, pays, never+0.15, "law %d, item %d", s.Law, i)
			require.Less(t, never, 0.2, "law %d, item %d", s.Law, i)
		}
	}
}

// Silence that counts at once is payoffs of its default, of each segment those that are its own.
func TestSegments_SilenceAtOnceIsPayoffsOfTheDefault(t *testing.T) {
	silent, paid := grouped(t, Silence{Law: SilenceAtOnce}, []string{"new", "loyal"}, true), grouped(t, Silence{Law: SilenceAtOnce}, []string{"new", "loyal"}, true)
	for _, d := range []*Direct{silent, paid} {
		d.Grow(5)
		require.NoError(t, d.Loaded())
		for n := range 100 {
			give(d, policy.Item(n%4), int32(n%3), 0.75)
		}
	}
	for n := range int64(40) {
		fb := Feedback{Ref: n, Item: policy.Item(n % 4), Segment: int32(n * n % 3), X: onlyIntercept}
		silent.Selected(fb)
		paid.Selected(fb)
		paid.Paid(fb)
	}
	likeFits(t, silent, paid)
	for i := range policy.Item(5) {
		for segment := range int32(3) {
			mean, worth := expected(paid, i, segment)
			got, gotWorth := expected(silent, i, segment)
			require.InDelta(t, mean, got, 1e-6)
			require.InEpsilon(t, worth, gotWorth, 1e-6)
		}
	}
}

// Counts in flight are a cell's own: another segment's selections of the item change it no more than their payoffs would.
func TestSegments_InFlightAreTheirs(t *testing.T) {
	d := grouped(t, Silence{}, []string{"new", "loyal"}, false)
	d.Grow(2)
	require.NoError(t, d.Loaded())
	give(d, 0, 1, 0.5)
	_, before := expected(d, 0, 1)
	_, beside := expected(d, 0, 2)
	for n := range int64(50) {
		d.Selected(Feedback{Ref: n, Item: 0, Segment: 2, X: onlyIntercept})
	}
	_, after := expected(d, 0, 1)
	require.InDelta(t, before, after, 1e-9)
	_, after = expected(d, 0, 2)
	require.Greater(t, after, beside)
}

// Cells of other sources count as one's own, whatever the order; those of an item that is forgotten are gone, and its category.
func TestSegments_PoolAndAreForgotten(t *testing.T) {
	make := func() *Direct {
		d := grouped(t, Silence{Law: SilenceAtOnce}, []string{"new", "loyal"}, true)
		d.Grow(4)
		require.NoError(t, d.Loaded())
		d.Categorise(1, "a")
		return d
	}
	all, one, other := make(), make(), make()
	for n := range 30 {
		i, segment, payoff := policy.Item(n%4), int32(n/4%3), float64(n%5)/4
		give(all, i, segment, payoff)
		give([]*Direct{one, other}[n%2], i, segment, payoff)
	}
	all.Selected(Feedback{Item: 1, Segment: 2, X: onlyIntercept})
	other.Selected(Feedback{Item: 1, Segment: 2, X: onlyIntercept})
	s := newStore(other)
	s.harvest()
	for i := range policy.Item(4) {
		one.SetSource(1, i, other.Sums(i))
	}
	for _, p := range other.Pooled() {
		for field, value := range s.hashes[p.Hash] {
			one.SetSourceField(1, p.Hash, []byte(field), []byte(value), theirsAreOurs)
		}
	}
	require.Equal(t, map[string]string{"1": "a"}, s.hashes[hashCategories])
	require.False(t, slices.ContainsFunc(other.Pooled(), func(p Pooled) bool { return p.Hash == hashCategories }), "each knows it from its own log")
	likeFits(t, all, one)
	for i := range policy.Item(4) {
		for segment := range int32(3) {
			mean, worth := expected(all, i, segment)
			gotMean, gotWorth := expected(one, i, segment)
			require.Equal(t, []float64{mean, worth}, []float64{gotMean, gotWorth})
		}
	}
	other.Forget(1)
	other.Advance(1)
	s.harvest()
	for field := range s.hashes[hashCells] {
		require.NotRegexp(t, `^1\|`, field)
	}
	require.Empty(t, s.hashes[hashCategories])
	require.Zero(t, other.contexts.awaited.Get(1))
	require.Empty(t, other.contexts.categories.byName)
}
