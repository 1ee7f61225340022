package partition

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// sortedConfig has a learner that finds the order of utilities itself and ranks by it.
func sortedConfig() Config {
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.FindsUtilities = true
	l.New = func() delay.Learner {
		return delay.NewPreferring(delay.NewQPMD(policy.NewUtility()), preference.NewSorted())
	}
	return cfg
}

// bare is an impression whose candidates have no utilities.
func bare(id string, items ...string) []byte {
	imp := event.Impression{ID: []byte(id)}
	for _, i := range items {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(i)})
	}
	return event.AppendImpression(nil, &imp)
}

// ranking returns the logged ranking of the last impression read.
func (w *world) ranking(t *testing.T) *event.Ranking {
	r := &event.Ranking{}
	require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(r, w.decided[w.next[event.Impressions]-1]))
	return r
}

// TestUtilities_AreFoundWhereImpressionsCarryNone: three users who like c best and a least teach the order. Records of
// the burn-in carry the order known by then. A crash, after which the decision is adopted from the log, loses nothing.
func TestUtilities_AreFoundWhereImpressionsCarryNone(t *testing.T) {
	w := newWorld(t, sortedConfig())
	w.now = day
	likes := "abc"
	for k := 0; ; k++ {
		require.Less(t, k, 200)
		id := fmt.Sprintf("i-%d", k)
		require.NoError(t, w.read(event.Impressions, id, bare(id, "b", "c", "a"), w.now))
		r := w.ranking(t)
		require.Len(t, r.Decision.Ranks, 3)
		if len(r.Decision.Undecided) == 0 {
			require.False(t, r.Decision.Explored)
			require.Equal(t, "cba", string(r.Items[0])+string(r.Items[1])+string(r.Items[2]))
			require.Equal(t, []int32{2, 1, 0}, r.Decision.Ranks)
			break
		}
		require.True(t, r.Decision.Explored)
		if k%3 == 0 {
			w.save()
		}
		w.crash()
		best := r.Items[0]
		if strings.Index(likes, string(r.Items[1])) > strings.Index(likes, string(best)) {
			best = r.Items[1]
		}
		require.NoError(t, w.read(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: best}), w.now))
		require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 0.5}), w.now))
	}
	require.Empty(t, w.letters)
	s := w.m.Learners()[0]
	require.Zero(t, s.UndecidedPairs)
	require.Zero(t, s.Contradictions)
	view, err := (&Offline{Machine: w.m}).Inspect("feed")
	require.NoError(t, err)
	require.Empty(t, view.Learned.Preferences.Undecided)
	x, err := (&Offline{Machine: w.m}).Explain("feed", [][]byte{[]byte("c"), []byte("a")}, []float64{0, 0}, nil, 1)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1}, x.Decision.Order, "utilities are not looked at")
}

// guessing is a finder whose every order is a guess.
type guessing struct{ *preference.Sorted }

func (g guessing) Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32 {
	return append(g.Sorted.Sort(candidates, key, order, undecided)[:len(undecided)], 0)
}

// The propensities of a guess are of an order that may be wrong: they are recorded, and a payoff counts as without any.
func TestUtilities_PropensitiesOfAGuess(t *testing.T) {
	cfg := sortedConfig()
	cfg.Learners[0].New = func() delay.Learner {
		p, err := policy.NewRobust(policy.DefaultLookAgain)
		require.NoError(t, err)
		r, err := delay.NewRobust(delay.RobustConfig{Policy: p, Belief: policy.Belief{Sigma: 0.5}, Horizon: 600_000, HalfLives: recency.DefaultHalfLives()})
		require.NoError(t, err)
		return delay.NewPreferring(r, guessing{preference.NewSorted()})
	}
	w := newWorld(t, cfg)
	for k := range 20 {
		id := fmt.Sprint("i-", k)
		require.NoError(t, w.read(event.Impressions, id, bare(id, "a", "b", "c"), day))
		r := w.ranking(t)
		require.Equal(t, []int32{0}, r.Decision.Undecided)
		require.Len(t, r.Decision.Propensities, 3)
		require.NoError(t, w.read(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: r.Items[2]}), day))
		require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1}), day))
	}
	w.save()
	n := 0
	for _, rows := range w.store.fields["feed:recent"] {
		for row := range strings.FieldsSeq(rows) { // level, index, payoffs, sum, squares, chances in units of 2^-10
			words := strings.Split(row, ":")
			paid, err := strconv.Atoi(words[2])
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(paid<<10), words[5])
			n += paid
		}
	}
	require.Equal(t, 20, n)
}

// TestUtilities_GivenOnesAreNotLookedAt where the learner finds their order: those who write impressions need not know
// which learner takes them.
func TestUtilities_GivenOnesAreNotLookedAt(t *testing.T) {
	with, without := newWorld(t, sortedConfig()), newWorld(t, sortedConfig())
	for k := range 20 {
		id := fmt.Sprintf("i-%d", k)
		require.NoError(t, with.read(event.Impressions, id, impression(id, "a", "b", "c", "d"), day))
		require.NoError(t, without.read(event.Impressions, id, bare(id, "a", "b", "c", "d"), day))
	}
	require.Equal(t, without.decided, with.decided)
}

// TestUtilities_AreNeededOtherwise.
func TestUtilities_AreNeededOtherwise(t *testing.T) {
	w := newWorld(t, testConfig())
	require.NoError(t, w.read(event.Impressions, "i", bare("i", "a", "b"), day))
	require.Len(t, w.letters, 1)
	require.Equal(t, string(event.NoUtilities), w.letters[0].Reason)
}
