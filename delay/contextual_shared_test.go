package delay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// mallOf are a global learner and those of partitions, sources 0, 1, …, with segments and categories, of which the numbers of items are the same.
type mallOf struct {
	t      *testing.T
	global *Direct
	parts  []*Direct
	store  []*store
}

func newMallOf(t *testing.T, parts int) *mallOf {
	m := &mallOf{t: t, global: grouped(t, Silence{Law: SilenceAtOnce}, []string{"new"}, true)}
	m.global.Grow(sharedItems)
	m.global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	for source := range int32(parts) {
		d := grouped(t, Silence{Law: SilenceAtOnce}, []string{"new"}, true)
		d.Share(m.global, source, func(i policy.Item) policy.Item { return i })
		d.Grow(sharedItems)
		m.parts, m.store = append(m.parts, d), append(m.store, newStore(d))
		require.NoError(t, d.Loaded())
	}
	return m
}

// resync gives the pool the records that a part has stored.
func (m *mallOf) resync(source int) {
	s := m.store[source]
	s.harvest()
	m.global.BeginResync(int32(source))
	s.publish(m.global, int32(source), sameNumber)
	m.global.EndResync(int32(source), func(hash string, i policy.Item) bool {
		_, stored := s.hashes[hash][fmt.Sprint(i)]
		return stored
	})
	m.global.Estimate(m.global.Commit(sharedItems))
	for _, p := range m.parts {
		p.Refresh(slices.Values(allItems(sharedItems)))
	}
}

// knownOf is a learner's expected payoff of an item, and its worth in payoffs.
func knownOf(d *Direct, i policy.Item) [2]float64 {
	mean, worth := expected(d, i, 1)
	return [2]float64{mean, worth}
}

// An item's category is the one that most partitions report, and on a tie the first in alphabetical order; partitions without a
// category are ignored.
func TestSharing_MostSayTheCategory(t *testing.T) {
	m := newMallOf(t, 4)
	says := func(source int, name string) {
		m.parts[source].Categorise(2, name)
		give(m.parts[source], 2, 1, 0.5)
		m.resync(source)
	}
	is := func(name string) {
		t.Helper()
		require.Equal(t, name, m.global.contexts.categories.name(2))
	}
	is("")
	says(0, "b")
	is("b")
	says(1, "c")
	is("b")
	says(2, "c")
	is("c")
	says(3, "b")
	is("b")
	says(0, "d")
	is("c")
	says(3, "d")
	is("c")
	for source := range 3 {
		m.parts[source].Forget(2)
		m.resync(source)
	}
	is("d")
	m.parts[3].Forget(2)
	m.resync(3)
	is("")
	require.Empty(t, m.global.contexts.categories.byName)
}

// Of an item that the global learner knows a partition has the global category. Of another it has its own, also where the global learner
// does not know that category.
func TestSharing_CategoriesOfWhatTheWholeKnows(t *testing.T) {
	m := newMallOf(t, 2)
	for i := range policy.Item(4) {
		m.parts[0].Categorise(i, []string{"", "a", "b", "b"}[i])
		give(m.parts[0], i, 1, []float64{0.5, 1, 0, 0}[i])
	}
	m.resync(0)
	other := m.parts[1]
	before := knownOf(other, 0)
	other.Categorise(0, "a") // the global learner has none
	require.Equal(t, before, knownOf(other, 0))
	other.Categorise(4, "a")
	other.Categorise(5, "b")
	require.Greater(t, knownOf(other, 4)[0], knownOf(other, 5)[0])
	other.Categorise(4, "new")
	plain := knownOf(other, 4)
	other.Categorise(5, "new")
	require.Equal(t, plain, knownOf(other, 5))
	for range 9 {
		give(other, 5, 1, 1)
	}
	require.Greater(t, knownOf(other, 4)[0], plain[0], "what is like it pays well")
	require.Equal(t, before, knownOf(other, 0), "and what has no category does not")
}

// Of an item that a part has forgotten, it has the pool's knowledge until the pool forgets it too, as a new part has.
func TestSharing_WhatIsForgottenIsTheWholes(t *testing.T) {
	m := newMallOf(t, 2)
	for i := range policy.Item(4) {
		m.parts[0].Categorise(i, "a")
		for range 5 {
			give(m.parts[0], i, 1, float64(i)/3)
		}
	}
	m.resync(0)
	d := m.parts[0]
	before := knownOf(d, 1)
	give(d, 3, 1, 0)
	require.NotEqual(t, before, knownOf(d, 1))
	d.Forget(3)
	require.Equal(t, before, knownOf(d, 1))
	m.resync(0)
	require.NotEqual(t, before, knownOf(d, 1))
	require.Equal(t, knownOf(m.parts[1], 1), knownOf(d, 1))
}

// A decision of a partition allocates nothing, whatever of it the global learner knows.
func TestSharing_DecisionsAllocateNothing(t *testing.T) {
	m := newMallOf(t, 2)
	for i := range policy.Item(4) {
		m.parts[0].Categorise(i, "a")
		give(m.parts[0], i, i%2, 0.5)
	}
	m.resync(0)
	d, candidates := m.parts[0], allItems(sharedItems)
	about := &policy.Context{Segment: 1}
	for range candidates {
		about.X = append(about.X, onlyIntercept...)
	}
	var out Decision
	for range 3 {
		give(d, 2, 1, 1)
		d.Selected(Feedback{Item: 5, Segment: 1, X: onlyIntercept})
		d.Decide(candidates, about, 1, &out)
		require.Zero(t, testing.AllocsPerRun(100, func() { d.Decide(candidates, about, 1, &out) }))
		require.Positive(t, d.table.Fresh())
	}
}

// sameNumber is the number of an item whose numbers are the same.
func sameNumber(i policy.Item) (policy.Item, bool) { return i, true }
