package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ε-greedy in the machine. Rankings are recorded with propensities, and whether they explored. Users' windows are learned from selections,
// by the impressions as recorded. Crashes in between lose nothing and count nothing twice. 4,000 users; the tolerance is several standard
// errors of each window's share, and the seed is fixed.
func TestEpsilonGreedy_LearnsWindowsThroughCrashes(t *testing.T) {
	const users, n, seed = 4000, 4, 17
	q := []float64{0.5, 0.25, 0.15, 0.1}
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "egreedy", "direct"
	l.New = func() delay.Learner {
		d, err := delay.NewExploringDirect(policy.NewEpsilonGreedy(), delay.WindowsConfig{Max: n}, delay.Silence{})
		require.NoError(t, err)
		return d
	}
	w := newWorld(t, cfg)
	w.now = day
	rng := rand.New(rand.NewPCG(seed, seed))
	explored := 0
	for user := range users {
		id := fmt.Sprint("user-", user)
		imp := event.Impression{ID: []byte(id), HasUtilities: true}
		utilities := map[string]float64{}
		for i := range n {
			item := fmt.Sprint("item-", (user+i)%6)
			utilities[item] = rng.Float64()
			imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(item), Utility: utilities[item]})
		}
		at := w.next[event.Impressions]
		require.NoError(t, w.read(event.Impressions, id, event.AppendImpression(nil, &imp), w.now))
		var r event.Ranking
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, w.decided[at]))
		require.Len(t, r.Decision.Propensities, n)
		var sum float64
		for _, p := range r.Decision.Propensities {
			sum += p
		}
		require.InDelta(t, 1, sum, 1e-12)
		if r.Decision.Explored {
			explored++
		}
		window, u := 1, rng.Float64()
		for u -= q[0]; u >= 0 && window < n; window++ {
			u -= q[window]
		}
		selected := r.Items[0]
		for _, item := range r.Items[1:window] {
			if utilities[string(item)] > utilities[string(selected)] {
				selected = item
			}
		}
		s := event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: selected})
		require.NoError(t, w.read(event.Selections, id, s, w.now))
		p := event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: rng.Float64()})
		require.NoError(t, w.read(event.Payoffs, id, p, w.now))
		w.tick(w.now+1000, [event.Inputs]bool{true, true, true})
		switch rng.IntN(20) {
		case 0:
			w.save()
		case 1:
			w.crash()
		}
	}
	s := w.m.Learners()[0].Status
	require.EqualValues(t, users, s.Selections)
	require.EqualValues(t, users, s.Fed)
	require.Zero(t, s.Flights)
	for k, want := range q {
		require.InDelta(t, want, s.Windows[k], 0.07, "windows %v (seed %d)", s.Windows, seed)
	}
	require.Greater(t, explored, users/20, "ε is 0.11 in the end")
	require.Less(t, explored, users/2)
}
