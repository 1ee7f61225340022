package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// planted is a world of items with fixed utilities, in increasing order, and mean payoffs.
type planted struct {
	*world
	rng     *rand.Rand
	q       []float64 // windows
	payoffs []float64
}

// visit shows an impression of all items, some pinned, to a user, who selects and is paid at once.
func (p *planted) visit(id string, pins map[int]int32) (r event.Ranking) {
	imp := event.Impression{ID: []byte(id), HasUtilities: true}
	for i := range p.payoffs {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Append(nil, i), Utility: float64(i), Pin: pins[i]})
	}
	at := p.next[event.Impressions]
	require.NoError(p.t, p.read(event.Impressions, id, event.AppendImpression(nil, &imp), p.now))
	require.NoError(p.t, event.NewDecoder(event.Limits{}).Ranking(&r, p.decided[at]))
	for i, place := range pins {
		require.Equal(p.t, fmt.Sprint(i), string(r.Items[place-1]))
	}
	window, u := 1, p.rng.Float64()
	for u -= p.q[0]; u >= 0 && window < len(p.q); window++ {
		u -= p.q[window]
	}
	best := 0
	for _, item := range r.Items[:window] {
		best = max(best, int(item[0]-'0'))
	}
	require.NoError(p.t, p.read(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: fmt.Append(nil, best)}), p.now))
	payoff := event.Payoff{ID: []byte(id), Payoff: p.payoffs[best]}
	require.NoError(p.t, p.read(event.Payoffs, id, event.AppendPayoff(nil, &payoff), p.now))
	p.tick(p.now+1000, [event.Inputs]bool{true, true, true})
	return r
}

// TestRules_LossesOfPinnedItems: the item that pays most stands on top in every second impression, by a pin. With the
// policy's propensities each of its losses there would count many times, and the algorithm would abandon it. In the last 500 other impressions its
// mean propensity is 0.95 for this seed; it was 0.09 where these losses counted.
func TestRules_LossesOfPinnedItems(t *testing.T) {
	const impressions, n, seed = 3000, 5, 11
	cfg := testConfig()
	windows, err := admissible.Geometric(0.7, n)
	require.NoError(t, err)
	base, err := policy.NewFTRL(1, true)
	require.NoError(t, err)
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "ftrl", "bold"
	l.New = func() delay.Learner {
		b, err := delay.NewBOLD(delay.BOLDConfig{Base: base, MaxInstances: 1, Windows: delay.WindowsConfig{Given: windows}})
		require.NoError(t, err)
		return b
	}
	p := planted{world: newWorld(t, cfg), rng: rand.New(rand.NewPCG(seed, 1)), q: windows.Fold(make([]float64, n)), payoffs: []float64{0.3, 0.3, 0.3, 0.3, 0.6}}
	p.now = day
	var found, last float64
	for k := range impressions {
		var pins map[int]int32
		if k%2 == 0 {
			pins = map[int]int32{n - 1: 1}
		}
		r := p.visit(fmt.Sprint("i-", k), pins)
		if k%2 == 0 {
			require.Empty(t, r.Decision.Propensities)
			require.Len(t, r.Decision.Decided, n)
			continue
		}
		require.Empty(t, r.Decision.Decided)
		if k >= impressions-1000 {
			for place, item := range r.Items {
				if string(item) == fmt.Sprint(n-1) {
					found += r.Decision.Propensities[place]
				}
			}
			last++
		}
		if p.rng.IntN(30) == 0 {
			p.save()
			p.crash()
		}
	}
	t.Logf("propensity of the item that pays most: %.4f", found/last)
	require.Greater(t, found/last, 0.7)
	require.EqualValues(t, impressions, p.m.Learners()[0].Status.Fed)
	require.Zero(t, p.m.Learners()[0].Flights)
}

// TestRules_WindowsAreOfTheRankingShown: users' windows are found again although pins move items in every impression. From the policy's order the
// estimate would be of other windows.
func TestRules_WindowsAreOfTheRankingShown(t *testing.T) {
	const users, seed = 4000, 12
	q := []float64{0.5, 0.25, 0.15, 0.1}
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "egreedy", "direct"
	l.New = func() delay.Learner {
		d, err := delay.NewExploringDirect(policy.NewEpsilonGreedy(), delay.WindowsConfig{Max: len(q)}, delay.Silence{})
		require.NoError(t, err)
		return d
	}
	p := planted{world: newWorld(t, cfg), rng: rand.New(rand.NewPCG(seed, 1)), q: q, payoffs: []float64{0.2, 0.8, 0.4, 0.6}}
	p.now = day
	for k := range users {
		r := p.visit(fmt.Sprint("i-", k), map[int]int32{k % 4: int32(1 + k/4%4)})
		require.Len(t, r.Decision.Propensities, len(q))
	}
	s := p.m.Learners()[0].Status
	require.EqualValues(t, users, s.Selections)
	for k, want := range q {
		require.InDelta(t, want, s.Windows[k], 0.05, "windows %v", s.Windows)
	}
}
