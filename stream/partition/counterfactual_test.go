package partition

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// comparing is a learner whose items 0, 1, … have had the given payoffs.
func comparing(findsUtilities bool, sums ...policy.Sums) *learner {
	return &learner{cfg: &LearnerConfig{FindsUtilities: findsUtilities}, delay: &tally{sums: sums}}
}

// decide counts a decision as the machine does.
func decide(c *Counterfactual, l *learner, candidates []policy.Item, d *delay.Decision) {
	at := favouriteOf(l.cfg.FindsUtilities, candidates, d)
	c.decided(l.delay, candidates, at, at == int(d.Order[0]))
}

// TestComparison_OfADecision: the favourite is the last candidate. Its mean at the decision is the
// expected payoff of ranking by utility. It is compared only with candidates that have enough payoffs.
func TestComparison_OfADecision(t *testing.T) {
	l := comparing(false, policy.Sums{N: 20, R: 15}, policy.Sums{N: 9, R: 9}, policy.Sums{N: 10, R: 5}, policy.Sums{N: 1, R: 0.25}, policy.Sums{})
	for _, c := range []struct {
		about      string
		candidates []policy.Item
		order      []int32
		want       Counterfactual
	}{
		{"another pays better", []policy.Item{0, 2}, []int32{0, 1}, Counterfactual{Decisions: 1, Known: 1, Compared: 1, Outpaid: 1, Expected: 1, ExpectedSum: 0.5}},
		{"the favourite pays best, and is shown first", []policy.Item{2, 0}, []int32{1, 0},
			Counterfactual{Decisions: 1, Known: 1, First: 1, Compared: 1, Expected: 1, ExpectedSum: 0.75}},
		{"too little is known of the other", []policy.Item{1, 2}, []int32{0, 1}, Counterfactual{Decisions: 1, Known: 1, Expected: 1, ExpectedSum: 0.5}},
		{"too little is known of the favourite", []policy.Item{0, 3}, []int32{0, 1}, Counterfactual{Decisions: 1, Known: 1, Expected: 1, ExpectedSum: 0.25}},
		{"nothing is known of the favourite", []policy.Item{0, 4}, []int32{0, 1}, Counterfactual{Decisions: 1, Known: 1}},
	} {
		var got Counterfactual
		decide(&got, l, c.candidates, &delay.Decision{Order: c.order})
		if got.Expected > 0 {
			_, variance := l.delay.Evidence(c.candidates[len(c.candidates)-1]).Wald()
			c.want.ExpectedVariance = variance
		}
		require.Equal(t, c.want, got, c.about)
	}
}

// TestComparison_WhereUsersLeave: the favourite is expected to pay per impression by the share of impressions with a selection that it has
// on top; before any has ended, no share is known.
func TestComparison_WhereUsersLeave(t *testing.T) {
	base, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, Prior: policy.EmpiricalPrior})
	require.NoError(t, err)
	d := delay.NewDirect(base, delay.Silence{})
	d.LearnAttraction(0)
	d.Grow(2)
	l := &learner{cfg: &LearnerConfig{}, delay: d}
	items := []policy.Item{0, 1}
	var c Counterfactual
	for top, share := range []int{600, 200} { // of 1,000 impressions with the item on top
		for k := range 1000 {
			fb := delay.Feedback{Candidates: items, Order: []int32{int32(top), int32(1 - top)}, Item: items[top]}
			if k >= share {
				d.Unselected(fb)
				continue
			}
			d.Selected(fb)
			fb.Payoff = float64(k % 2)
			d.Paid(fb)
			if top == 0 && k == 1 {
				decide(&c, l, []policy.Item{1, 0}, &delay.Decision{Order: []int32{1, 0}})
				require.EqualValues(t, 1, c.Shared)
				require.InDelta(t, 1, c.SharesSum, 1e-3, "all have selected so far")
			}
		}
	}
	require.InDelta(t, 0.5, c.PayingSum, 1e-3)
	for favourite, share := range []float64{0.6, 0.2} {
		c = Counterfactual{}
		decide(&c, l, []policy.Item{items[1-favourite], items[favourite]}, &delay.Decision{Order: []int32{0, 1}})
		require.EqualValues(t, 1, c.Shared)
		require.InDelta(t, share, c.SharesSum, 0.01)
		require.InDelta(t, share/2, c.PayingSum, 0.01)
		require.Equal(t, c.SharesSum*c.ExpectedSum, c.PayingSum)
	}
	c, l.delay = Counterfactual{}, delay.NewDirect(base, delay.Silence{})
	l.delay.Grow(2)
	l.delay.LoadSums(1, policy.Sums{N: 10, R: 5, Q: 5})
	decide(&c, l, items, &delay.Decision{Order: []int32{0, 1}})
	require.EqualValues(t, 1, c.Expected)
	require.Zero(t, c.Shared, "it learns no shares")
}

// TestComparison_WhereTheOrderIsFound: the favourite is the candidate of the highest rank, once the order is certain.
func TestComparison_WhereTheOrderIsFound(t *testing.T) {
	l := comparing(true, policy.Sums{N: 10, R: 2}, policy.Sums{N: 10, R: 8})
	var c Counterfactual
	decide(&c, l, []policy.Item{0, 1}, &delay.Decision{Order: []int32{1, 0}, Ranks: []int32{0, 1}})
	c.ExpectedVariance = 0
	require.Equal(t, Counterfactual{Decisions: 1, Known: 1, Compared: 1, Outpaid: 1, Expected: 1, ExpectedSum: 0.2}, c)
	decide(&c, l, []policy.Item{0, 1}, &delay.Decision{Order: []int32{1, 0}, Ranks: []int32{0, 1}, Undecided: []int32{1}})
	c.ExpectedVariance = 0
	require.Equal(t, Counterfactual{Decisions: 2, Known: 1, Compared: 1, Outpaid: 1, Expected: 1, ExpectedSum: 0.2}, c)
}

// TestComparison_WeightsAreUnbiased: payoffs of selected favourites over their propensities estimate
// the favourites' payoffs, although favourites are selected seldom, and least where they pay best.
func TestComparison_WeightsAreUnbiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c Counterfactual
	pays := 0.0
	const n = 200_000
	for range n {
		payoff := rng.Float64()
		p := 0.9 - 0.8*payoff
		e := &entry{ranks: []int32{0, 1}, propensities: []float64{1 - p, p}}
		if rng.Float64() < p {
			e.selected = 1
		}
		e.shrink(delay.Needs{Candidates: true})
		c.paid(e, payoff)
		pays += payoff
	}
	require.EqualValues(t, n, c.Weighed)
	require.InDelta(t, 1, c.Weights/n, 0.02)
	require.InDelta(t, pays/n, c.WeighedSum/c.Weights, 0.01)
	require.Less(t, c.Weights*c.Weights/c.Squares, float64(n)/2, "what it is worth is less than there are payoffs")

	before := c
	for _, e := range []*entry{
		{selected: 1, propensities: []float64{0.5, 0.5}},
		{selected: 1, ranks: []int32{0, 1}},
		{selected: 1, ranks: []int32{0, 1}, propensities: []float64{0.5, 0.5}, undecided: []int32{1}},
	} {
		e.shrink(delay.Needs{Candidates: true})
		c.paid(e, 1)
	}
	require.Equal(t, before, c, "where propensities or the order are not recorded nothing is known")
}
