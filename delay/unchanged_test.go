package delay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// unchangedWorld feeds a learner and MOSS the same selections of items of mean 0.2 to 0.8, one a second.
func unchangedWorld(r *Robust, m *Direct, rng *rand.Rand, candidates []policy.Item, impressions int64) {
	var d Decision
	for ref := range impressions {
		r.Decide(candidates, nil, policy.Key(rng.Uint64()), &d)
		at := 0
		for n := min(len(d.Order), 1+rng.IntN(3)); n > 1; n-- {
			if d.Order[n-1] > d.Order[at] {
				at = n - 1
			}
		}
		i := candidates[d.Order[at]]
		fb := Feedback{Ref: ref, Item: i, Began: 1000 * ref, Propensity: d.Propensities[at], Expected: d.Expected[at], HasExpected: true}
		if rng.Float64() < 0.2+0.6*float64(i)/float64(len(candidates)) {
			fb.Payoff = 1
		}
		for _, l := range []Learner{r, m} {
			l.Selected(fb)
			l.Paid(fb)
			l.Advance(1000 * ref)
		}
	}
}

func mossAlone(t require.TestingT, items int) *Direct {
	p, err := policy.NewMOSS(robustBelief)
	require.NoError(t, err)
	m := NewDirect(p, Silence{})
	m.Grow(items)
	return m
}

// Where no mean changes, half of the rankings are those of MOSS with the same payoffs, up to the common level.
func TestRobust_RanksAsMOSSWhereNoMeanChanges(t *testing.T) {
	const n, draws = 10, 4000
	rng := rand.New(rand.NewPCG(61, 1))
	r, m, candidates := plainRobust(t, n), mossAlone(t, n), allItems(n)
	unchangedWorld(r, m, rng, candidates, 5000)
	alike, led := 0, 0
	var d, of Decision
	for range draws {
		key := policy.Key(rng.Uint64())
		r.Decide(candidates, nil, key, &d)
		m.Decide(candidates, nil, key, &of)
		if d.Order[0] == of.Order[0] {
			led++
		}
		if slices.Equal(d.Order, of.Order) {
			alike++
		}
	}
	bound := 0.5*draws - 5*math.Sqrt(draws)/2 // five deviations of a fair coin: false in 3 of 10⁷ runs
	require.Greater(t, float64(alike), bound)
	require.Less(t, alike, draws, "the other half looks again")
	require.Greater(t, float64(led), 0.75*draws, "the best item leads in most of both halves")
}

// Propensities are the frequencies with which users select, over both halves. A deviation of 5.5 is false in 4 of 10⁸ for each item.
func TestRobust_PropensitiesAreThoseOfBothHalves(t *testing.T) {
	const n, draws = 8, 40_000
	rng := rand.New(rand.NewPCG(62, 1))
	r, m, candidates := plainRobust(t, n), mossAlone(t, n), allItems(n)
	unchangedWorld(r, m, rng, candidates, 3000)
	q, _ := r.windows.fold(n)
	q = slices.Clone(q)
	var selected, expected [n]float64
	var d Decision
	for range draws {
		r.Decide(candidates, nil, policy.Key(rng.Uint64()), &d)
		window := 1
		for u := rng.Float64(); window < n && u >= q[window-1]; window++ {
			u -= q[window-1]
		}
		selected[slices.Max(d.Order[:window])]++
		sum := 0.0
		for k, at := range d.Order {
			expected[at] += d.Propensities[k]
			sum += d.Propensities[k]
		}
		require.InDelta(t, 1, sum, 1e-9)
	}
	for i := range n {
		require.InDelta(t, expected[i], selected[i], 5.5*math.Sqrt(expected[i])+1, "item %d", i)
		require.Positive(t, expected[i])
	}
}

// A candidate whose mean has changed ends both halves: the ranking is drawn from policy.Robust's point alone.
func TestRobust_DrawsWhereAMeanHasChanged(t *testing.T) {
	const n = 6
	rng := rand.New(rand.NewPCG(63, 1))
	r, m, candidates := plainRobust(t, n), mossAlone(t, n), allItems(n)
	unchangedWorld(r, m, rng, candidates, 3000)
	require.False(t, r.read(candidates))
	pay := func(i policy.Item, payoff float64) {
		for k := range int64(60) {
			fb := Feedback{Ref: 10_000 + k, Item: i, Began: 1000 * (3000 + k), Propensity: 0.5, Payoff: payoff}
			r.Selected(fb)
			r.Paid(fb)
		}
		r.Advance(3_060_000)
	}
	pay(n-1, 0)
	require.True(t, r.read(candidates), "the best item pays nothing any more")
	require.False(t, r.read(candidates[:n-1]), "the others pay as before")
	var d Decision
	r.Decide(candidates, nil, 1, &d)
	for k, at := range d.Order {
		require.InDelta(t, r.p[at], d.Propensities[k], 1e-12)
	}
}
