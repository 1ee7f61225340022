package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestFrequent_KeepsWhatComesOften: frequent items stay, in fixed memory, and old ones fade.
func TestFrequent_KeepsWhatComesOften(t *testing.T) {
	var f frequent
	for k := range 3 * frequentHalve {
		f.add(policy.Item(k % 3))
		f.add(policy.Item(1000 + k))
	}
	require.LessOrEqual(t, len(f.counts), frequentKept)
	top := f.top(3)
	require.ElementsMatch(t, []policy.Item{0, 1, 2}, []policy.Item{top[0].item, top[1].item, top[2].item})
	require.InDelta(t, 1./6, float64(top[0].n)/float64(f.total), 0.05)
	for range 4 * frequentHalve {
		f.add(7)
	}
	require.EqualValues(t, 7, f.top(1)[0].item)
	require.Less(t, float64(f.of(0))/float64(f.total), 0.02)
	require.Zero(t, f.of(5_000_000))
}

// TestLook_ShowsADecisionAndItems: the first decision after a look is in the next, with leaders and blocked candidates. Items are those
// shown first and the favourites. A look changes nothing of the state.
func TestLook_ShowsADecisionAndItems(t *testing.T) {
	w := newWorld(t, testConfig())
	w.start()
	require.Nil(t, w.m.Look().Learners[0].Ranking, "nothing was decided yet")
	require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a", "b", "c"), day))
	before, _ := w.m.Dirty()
	look := w.m.Look().Learners[0]
	after, _ := w.m.Dirty()
	require.Equal(t, before, after)
	require.Equal(t, "feed", look.Name)
	require.EqualValues(t, 1, look.First)
	require.NotEmpty(t, look.Items)
	r := look.Ranking
	require.Equal(t, "i-1", r.ID)
	require.Equal(t, 3, r.Candidates)
	require.Len(t, r.Shown, 3)
	highest := int32(-1)
	for at, s := range r.Shown {
		require.LessOrEqual(t, s.Leader, at)
		require.Equal(t, s.Rank > highest, s.Leader == at, "one leads that users like better than all before it")
		highest = max(highest, s.Rank)
	}

	require.NoError(t, w.read(event.Impressions, "i-2", impression("i-2", "a", "b"), day))
	require.NoError(t, w.read(event.Impressions, "i-3", impression("i-3", "a", "b"), day))
	require.Equal(t, "i-2", w.m.Look().Learners[0].Ranking.ID, "the next after the look")
}

// TestLook_IsBounded: however many items and candidates there are.
func TestLook_IsBounded(t *testing.T) {
	w := newWorld(t, testConfig())
	w.start()
	w.m.Look()
	for k := range 300 {
		id := fmt.Sprintf("i-%d", k)
		var items []string
		for i := range 40 {
			items = append(items, fmt.Sprintf("%s-%d-%d", strings.Repeat("x", 20), k, i))
		}
		require.NoError(t, w.read(event.Impressions, id, impression(id, items...), day))
	}
	look := w.m.Look().Learners[0]
	require.LessOrEqual(t, len(look.Items), 2*lookItems)
	require.Len(t, look.Ranking.Shown, lookCandidates)
	require.Equal(t, 40, look.Ranking.Candidates)
}
