package delay

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// shop is a space of four coordinates.
func shop(t require.TestingT) *features.Space {
	s, err := features.New(features.Declaration{User: []features.Feature{{Name: "age", High: 100}},
		Item: []features.Feature{{Name: features.Predicted, High: 1}}, Cross: [][2]string{{"age", features.Predicted}}})
	require.NoError(t, err)
	return s
}

// theShop is made once: rows are drawn by the hundred thousand.
var theShop = sync.OnceValue(func() *features.Space { return shop(panics{}) })

// randomRow is the coordinates of a candidate of a decision.
func randomRow(key policy.Key, candidate int) []int8 {
	return theShop().Vector(nil, []int8{int8(key.Uint64(0))}, []int8{int8(key.Uint64(uint64(candidate) + 1))})
}

// contextOf is a context for n candidates where a learner needs one.
func contextOf(l Learner, key policy.Key, n int) *policy.Context {
	if !l.Needs().Context {
		return nil
	}
	c := &policy.Context{Segment: segmentOf(key)}
	for k := range n {
		c.X = append(c.X, randomRow(key, k)...)
	}
	return c
}

// rowOf is the row of a candidate in contextOf.
func rowOf(l Learner, key policy.Key, candidates []policy.Item, i policy.Item) []int8 {
	if !l.Needs().Context {
		return nil
	}
	return randomRow(key, slices.Index(candidates, i))
}

// segmentOf is the segment of the user of a decision, which need not be one.
func segmentOf(key policy.Key) int32 { return int32(key.Uint64(77) % 4) }

// mall is a shop whose items have categories, and whose users are of one of two segments, or none.
func mall(t require.TestingT) *features.Space {
	d := features.Declaration{User: shop(t).User(), Item: shop(t).Item(), Cross: [][2]string{{"age", features.Predicted}}}
	d.Segments, d.Categories = []string{"new", "loyal"}, true
	s, err := features.New(d)
	require.NoError(t, err)
	return s
}

type panics struct{}

func (panics) Errorf(string, ...any) {}
func (panics) FailNow()              { panic("it cannot be made") }

func contextualKinds() []kind {
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	given := policy.Belief{Sigma: 0.5}
	in := func(space func(require.TestingT) *features.Space, name string, b policy.Belief, s Silence) func(require.TestingT) Learner {
		return func(t require.TestingT) Learner {
			p, err := policy.SpecOf(name).Rank(&policy.Parameters{Belief: b})
			require.NoError(t, err)
			l, err := NewContextual(p, ContextualConfig{Space: space(t), Belief: b, Silence: s})
			require.NoError(t, err)
			return l
		}
	}
	personal := func(name string, b policy.Belief, s Silence) func(require.TestingT) Learner {
		return in(shop, name, b, s)
	}
	return []kind{
		{"direct/moss, features", personal("moss", belief, Silence{})},
		{"direct/thompson, features, silence ages", personal("thompson", belief, Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon})},
		{"direct/greedy, features, silence at once", personal("greedy", belief, Silence{Law: SilenceAtOnce})},
		{"direct/optimistic, features, in parts", personal("optimistic", belief, Silence{Law: SilenceAges, Default: 0.5, Horizon: lifeHorizon, InParts: true})},
		{"direct/moss, segments and categories", in(mall, "moss", belief, Silence{Law: SilenceAges, Default: 0.25, Horizon: lifeHorizon})},
		{"direct/greedy, segments and categories, in parts", in(mall, "greedy", belief, Silence{Law: SilenceAtOnce, InParts: true})},
		{"direct/greedy, segments and categories, per impression", func(t require.TestingT) Learner {
			return attracted(in(mall, "greedy", belief, Silence{Law: SilenceAtOnce})(t).(*Direct), 0)
		}},
		{"direct/optimistic, features alone", personal("optimistic", given, Silence{Law: SilenceAtOnce})},
	}
}

// A learner that finds the order of utilities hands on each candidate's own row.
func TestPreferring_ContextsFollowTheCandidates(t *testing.T) {
	inner := contextualKinds()[0].make(t)
	p := NewPreferring(inner, preference.NewSorted())
	require.True(t, p.Needs().Context)
	p.Grow(9)
	candidates := []policy.Item{4, 2, 8, 0, 6}
	about := contextOf(inner, 3, len(candidates))
	var d Decision
	p.sort(candidates, 7, &d)
	sorted := p.sorted(about)
	for rank, at := range p.order {
		require.Equal(t, candidates[at], p.items[rank])
		require.Equal(t, about.Row(int(at), len(candidates)), sorted.Row(rank, len(candidates)))
	}
	require.Nil(t, p.sorted(nil))
}

// Payoffs count with the features of the selected item, in any order and over any number of partitions. One without features
// changes nothing.
func TestContextual_SumsAreThoseOfThePayoffs(t *testing.T) {
	one, again := contextualKinds()[0].make(t).(*Direct), contextualKinds()[0].make(t).(*Direct)
	parts := []*Direct{contextualKinds()[0].make(t).(*Direct), contextualKinds()[0].make(t).(*Direct)}
	var all []Feedback
	for k := range int64(60) {
		key := policy.Key(k)
		all = append(all, Feedback{Ref: k, Item: policy.Item(k % 5), Payoff: key.Float64(9), X: randomRow(key, 0)})
	}
	for _, d := range append(parts, one, again) {
		d.Grow(5)
		require.NoError(t, d.Loaded())
	}
	give := func(d *Direct, fb Feedback) {
		d.Selected(fb)
		d.Paid(fb)
	}
	for k, fb := range all {
		give(one, fb)
		give(again, all[len(all)-1-k])
		give(parts[k%2], fb)
	}
	for source, d := range parts {
		s := newStore(d)
		s.harvest()
		other := parts[1-source]
		for i := range policy.Item(5) {
			other.SetSource(int32(source), i, d.Sums(i))
		}
		for _, p := range d.Pooled() {
			for field, value := range s.hashes[p.Hash] {
				other.SetSourceField(int32(source), p.Hash, []byte(field), []byte(value), theirsAreOurs)
			}
		}
	}
	want := one.contexts
	for _, d := range append(parts, again) {
		require.Equal(t, want.model.Total, d.contexts.model.Total)
		for i := range policy.Item(5) {
			require.Equal(t, want.pooled.Get(i).s, d.contexts.pooled.Get(i).s)
			require.Equal(t, one.table.Pooled(i).R, d.table.Pooled(i).R)
		}
		d.Advance(1)
		one.Advance(1)
		a, b := Decision{}, Decision{}
		about := contextOf(one, 99, 5)
		one.Decide(allItems(5), about, 1, &a)
		d.Decide(allItems(5), about, 1, &b)
		require.Equal(t, a, b)
	}
	fed := one.Status().Fed
	give(one, Feedback{Item: 1, Payoff: 1})
	require.Equal(t, fed, one.Status().Fed)
	require.EqualValues(t, 1, one.Status().Unfed)
	require.Zero(t, one.Status().Flights)
}

// The differences between a forgotten item's payoffs still count for features; its own sums are gone, also from the store.
func TestContextual_ForgetsItems(t *testing.T) {
	d := contextualKinds()[0].make(t).(*Direct)
	d.Grow(2)
	require.NoError(t, d.Loaded())
	s := newStore(d)
	for k := range int64(40) {
		fb := Feedback{Ref: k, Item: policy.Item(k % 2), Payoff: 0.5, X: randomRow(policy.Key(k), 0)}
		d.Selected(fb)
		d.Paid(fb)
	}
	s.harvest()
	require.Len(t, s.hashes[hashCells], 2)
	d.Forget(1)
	d.Advance(1)
	s.harvest()
	require.Len(t, s.hashes[hashCells], 1)
	total := d.contexts.model.Total
	require.EqualValues(t, 39, total.N, "one payoff less, which went for the item's mean")
	require.Equal(t, d.contexts.linear.rows[0].Sum.Linear, total)
	require.InDelta(t, 20*127*127, total.G[0], 1, "the intercept of what is forgotten says nothing")
	require.Greater(t, total.G[2], int64(0))
	require.Nil(t, d.contexts.pooled.Get(1).s)
}

// TestNewContextual_RefusesWhatItCannotDo.
func TestNewContextual_RefusesWhatItCannotDo(t *testing.T) {
	for _, c := range []ContextualConfig{
		{Belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}, Silence: Silence{Drift: 1}},
		{Belief: policy.Belief{Sigma: 0.5, Prior: policy.FixedPrior}},
		{Belief: policy.Belief{Sigma: 0.5}}, // of another policy than optimistic
		{Belief: policy.Belief{Sigma: -1, Prior: policy.EmpiricalPrior}},
	} {
		c.Space = shop(t)
		_, err := NewContextual(policy.NewGreedy(), c)
		require.ErrorIs(t, err, ErrContextual)
	}
}

// Unpaid selections lower the expected payoff of all items with like features before they expire, by their expired weight.
func TestContextual_SilenceTeachesBeforeTheHorizon(t *testing.T) {
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	for _, s := range []Silence{{Law: SilenceAtOnce}, {Law: SilenceAges, Horizon: lifeHorizon}, {}} {
		l, err := NewContextual(policy.NewGreedy(), ContextualConfig{Space: shop(t), Belief: belief, Silence: s})
		require.NoError(t, err)
		l.Grow(41)
		require.NoError(t, l.Loaded())
		young, old := shop(t).Vector(nil, []int8{-127}, []int8{0}), shop(t).Vector(nil, []int8{127}, []int8{0})
		for k := range int64(400) { // the young are paid at once, the old never
			fb := Feedback{Ref: k, Item: policy.Item(k % 40), Began: k * 100, Payoff: 1, X: young}
			if k%3 == 0 {
				fb.X = old
			}
			l.Selected(fb)
			if k%3 != 0 && k%2 == 0 {
				l.Paid(fb)
			}
			l.Advance(k * 100)
		}
		l.Advance(lifeHorizon / 2)
		expected := func(x []int8) float64 {
			return l.Explain([]policy.Item{40}, &policy.Context{X: x}, 1).Why[0].Mean
		}
		if s.Law == SilenceWaits {
			require.Greater(t, expected(old), 0.5, "what is not known counts for nothing")
			continue
		}
		require.Less(t, expected(old), 0.3, "law %d", s.Law)
		require.Greater(t, expected(young), expected(old)+0.2, "law %d", s.Law)
	}
}
