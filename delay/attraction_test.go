package delay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/internal/test/policytest"
	"github.com/ranker-worker/ranker-worker/policy"
)

// attracted has a learner maximise payoff per impression.
func attracted[L interface{ LearnAttraction(float64) }](l L, nothing float64) L {
	l.LearnAttraction(nothing)
	return l
}

// robustOfWindows makes one that maximises payoff per selection.
func robustOfWindows(t require.TestingT) *Robust {
	return newRobust(t, RobustConfig{Belief: robustBelief, HalfLives: recency.DefaultHalfLives(), Windows: WindowsConfig{Given: geometricWindows(t)}})
}

func robustMOSS(t require.TestingT) policy.Policy {
	p, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
	require.NoError(t, err)
	return p
}

// TestAttraction_CountsForTheTop: an impression counts for the item on top alone, with a selection where something was selected before the
// next leader, and not at all where something further down was.
func TestAttraction_CountsForTheTop(t *testing.T) {
	for _, c := range []struct {
		order    []int32
		selected int // place; -1: none
		sums     policy.Sums
	}{
		{[]int32{2, 1, 0}, -1, policy.Sums{N: 1}},
		{[]int32{0, 1, 2}, -1, policy.Sums{N: 1}},
		{[]int32{1, 0, 2}, 0, policy.Sums{N: 1, R: 1}},
		{[]int32{1, 0, 2}, 1, policy.Sums{N: 1, R: 1}},
		{[]int32{1, 0, 2}, 2, policy.Sums{}},
	} {
		d := attracted(NewDirect(robustMOSS(t), Silence{}), 0)
		d.Grow(3)
		items := []policy.Item{0, 1, 2}
		fb := Feedback{Candidates: items, Order: c.order}
		if c.selected < 0 {
			d.Unselected(fb)
		} else {
			fb.Item = items[c.order[c.selected]]
			d.Selected(fb)
		}
		for place, at := range c.order {
			want := policy.Sums{}
			if place == 0 {
				want = c.sums
			}
			require.Equal(t, want, d.attraction.table.Own(items[at]), "%+v, place %d", c, place)
		}
	}
}

// TestAttraction_DoesNotDependOnOrder: counts are those of the impressions, in whatever order, here or at several sources, to the last bit.
func TestAttraction_DoesNotDependOnOrder(t *testing.T) {
	counts := func(l Learner, i policy.Item) policy.Evidence {
		if r, ok := l.(*Robust); ok {
			return r.attraction.table.Evidence(i)
		}
		return l.(*Direct).attraction.table.Evidence(i)
	}
	rapid.Check(t, func(t *rapid.T) {
		const items = 6
		learner := func() Learner { return attracted(NewDirect(robustMOSS(t), Silence{}), 0) }
		if rapid.Bool().Draw(t, "robust") {
			learner = func() Learner { return attracted(robustOfWindows(t), 0) }
		}
		one, other, third := learner(), learner(), learner()
		for _, d := range []Learner{one, other, third} {
			d.Grow(items)
		}
		var all []Feedback
		for range rapid.IntRange(1, 30).Draw(t, "impressions") {
			fb := Feedback{Item: -1}
			fb.Candidates, fb.Order = drawRanking(t)
			if rapid.Bool().Draw(t, "selected") {
				fb.Item = rapid.Int32Range(0, items-1).Draw(t, "item")
			}
			all = append(all, fb)
			end(one, fb)
		}
		for _, at := range rapid.Permutation(sequence(len(all))).Draw(t, "again") {
			if rapid.Bool().Draw(t, "elsewhere") {
				end(third, all[at])
			} else {
				end(other, all[at])
			}
		}
		third.Harvest(fieldsTo(func(hash string, field, value []byte) {
			if hash == hashAttraction {
				other.SetSourceField(1, hash, field, value, func(i policy.Item) (policy.Item, bool) { return i, true })
			}
		}))
		for i := range policy.Item(items) {
			require.Equal(t, counts(one, i), counts(other, i))
		}
	})
}

func end(d Learner, fb Feedback) {
	if fb.Item < 0 {
		d.Unselected(fb)
	} else {
		d.Selected(fb)
	}
}

type fieldsTo func(hash string, field, value []byte)

func (fieldsTo) Item(policy.Item)                         {}
func (fieldsTo) Known() bool                              { return false }
func (f fieldsTo) Field(hash string, field, value []byte) { f(hash, field, value) }

// TestAttraction_ChangesNothingWhereAllSelect: rankings are those of payoff per selection, bit for bit.
func TestAttraction_ChangesNothingWhereAllSelect(t *testing.T) {
	changesNothing(t, NewDirect(robustMOSS(t), Silence{}), attracted(NewDirect(robustMOSS(t), Silence{}), 0))
	changesNothing(t, robustOfWindows(t), attracted(robustOfWindows(t), 0))
	for _, p := range []policy.Policy{policy.NewKLUCB(), policy.NewGreedy()} {
		changesNothing(t, NewDirect(p, Silence{}), attracted(NewDirect(p, Silence{}), 0))
	}
	changesNothing(t, epsilonGreedy(t), attracted(epsilonGreedy(t), 0))
}

func epsilonGreedy(t require.TestingT) *Direct {
	d, err := NewExploringDirect(policy.NewEpsilonGreedy(), WindowsConfig{Given: geometricWindows(t)}, Silence{})
	require.NoError(t, err)
	return d
}

func changesNothing(t *testing.T, plain, aware Learner) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	plain.Grow(8)
	aware.Grow(8)
	items := sequence(8)
	for range 2000 {
		key := policy.Key(rng.Uint64())
		var x, y Decision
		plain.Decide(items, nil, key, &x)
		aware.Decide(items, nil, key, &y)
		require.Equal(t, x, y)
		fb := Feedback{Candidates: items, Order: x.Order, Item: items[x.Order[rng.IntN(8)]], Payoff: rng.Float64()}
		for k := range x.Propensities {
			if items[x.Order[k]] == fb.Item {
				fb.Propensity = x.Propensities[k]
				if len(x.Expected) > 0 {
					fb.Expected, fb.HasExpected = x.Expected[k], true
				}
			}
		}
		for _, d := range []Learner{plain, aware} {
			d.Selected(fb)
			d.Paid(fb)
		}
	}
}

// TestAttraction_KeepsTheBoundOfFeaturesAlone: the first impression without a selection hardly changes the bonus of the index. Without the
// determinant it is half as large.
func TestAttraction_KeepsTheBoundOfFeaturesAlone(t *testing.T) {
	belief := policy.Belief{Sigma: 0.5}
	p, err := policy.SpecOf("optimistic").Rank(&policy.Parameters{Belief: belief})
	require.NoError(t, err)
	d, err := NewContextual(p, ContextualConfig{Space: shop(t), Belief: belief, Silence: Silence{Law: SilenceAtOnce}})
	require.NoError(t, err)
	attracted(d, 0)
	d.Grow(5)
	require.NoError(t, d.Loaded())
	items, order := sequence(5), []int32{0, 1, 2, 3, 4}
	about := contextOf(d, 7, 5)
	bonus := func() float64 {
		why := d.Explain(items, about, 1).Why[0]
		return why.Index - why.Mean
	}
	for k := range int64(2000) {
		fb := Feedback{Ref: k, Item: items[0], Candidates: items, Order: order, Payoff: 1, X: randomRow(policy.Key(k), 0)}
		d.Selected(fb)
		d.Paid(fb)
	}
	before := bonus()
	d.Unselected(Feedback{Ref: 2000, Candidates: items, Order: order})
	require.True(t, d.attraction.differs())
	require.InEpsilon(t, before, bonus(), 0.1)
}

// TestAttraction_RanksByPayoffPerImpression: an item that pays less than another, but from which far fewer users leave, leads. One that
// maximises payoff per selection, or learns no shares, fails.
func TestAttraction_RanksByPayoffPerImpression(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, nothing := range []float64{0, 0.25} {
		d := attracted(NewDirect(robustMOSS(t), Silence{}), nothing)
		led := leaves(rng, d, []float64{0.1, 0.9}, []float64{0.9, 0.3}, nothing, 0) // 0.09 and 0.27 an impression
		require.Greater(t, led, 500, "of the last 1,000 impressions; of 6,000 runs none had fewer than 920, and 7 fewer than 980")
		s := d.Status().Attraction
		require.True(t, s.Learned)
		require.EqualValues(t, 4000, s.Impressions)
		require.InDelta(t, 0.9, s.Share, 0.2)
	}
}

// TestAttraction_AFewUnluckyImpressionsHideNoItem: an item that each of three users left leads again soon. Nothing is random here. It leads
// after 886 impressions; with the variance of payoffs at the estimated share itself, after 20,236.
func TestAttraction_AFewUnluckyImpressionsHideNoItem(t *testing.T) {
	const unlucky, best, items = 19, 7, 20
	d := attracted(NewDirect(robustMOSS(t), Silence{}), 0)
	d.Grow(items)
	fb := Feedback{Candidates: sequence(items)}
	var shown, taken [items]float64
	ends := func(top policy.Item) {
		share, payoff := 0.03+0.03*float64(top*7%items), 0.9-0.045*float64(top*7%items)
		switch top {
		case best:
			share, payoff = 0.5, 0.9
		case unlucky:
			share = 0
		}
		fb.Order = []int32{top}
		for i := range int32(items) {
			if i != top {
				fb.Order = append(fb.Order, i)
			}
		}
		shown[top]++
		if taken[top] >= share*shown[top] {
			d.Unselected(fb)
			return
		}
		taken[top]++
		fb.Item, fb.Payoff = top, 0
		if math.Mod(taken[top]*0.19, 1) < payoff {
			fb.Payoff = 1
		}
		d.Selected(fb)
		d.Paid(fb)
	}
	for i := range policy.Item(items) {
		for shown[i] < 3 || i != unlucky && shown[i] < 40 {
			ends(i)
		}
	}
	var x Decision
	for at := range 5000 {
		if d.Decide(fb.Candidates, nil, policy.Key(at), &x); x.Order[0] == unlucky {
			return
		}
		ends(x.Order[0])
	}
	require.Fail(t, "it leads no more")
}

// TestAttraction_PoliciesWithoutABeliefDoSoToo: and do not where payoff per selection is the aim.
func TestAttraction_PoliciesWithoutABeliefDoSoToo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for name, d := range map[string]func() *Direct{
		"klucb":   func() *Direct { return NewDirect(policy.NewKLUCB(), Silence{}) },
		"greedy":  func() *Direct { return NewDirect(policy.NewGreedy(), Silence{}) },
		"egreedy": func() *Direct { return epsilonGreedy(t) },
	} {
		led, plain := 0, 0
		for range 24 {
			led += leaves(rng, attracted(d(), 0), []float64{0.1, 0.9}, []float64{0.9, 0.3}, 0, 0.7)
			plain += leaves(rng, d(), []float64{0.1, 0.9}, []float64{0.9, 0.3}, 0, 0.7)
		}
		t.Log(name, led, plain)
		require.Greater(t, led, 18_000, "%s: of 24,000 impressions", name)
		require.Less(t, plain, 15_000, "%s: 15 of 24 runs, of which greedy leads in one of nine; one payoff in ten of the other item is nothing, and greedy never comes back to it", name)
	}
}

// TestAttraction_PropensitiesAreThoseOfTheFound: of users who leave, those who find an item are as many as egreedy records, and those who select
// are that many times its share.
func TestAttraction_PropensitiesAreThoseOfTheFound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	share, payoff := []float64{0.1, 0.3, 0.5, 0.9}, []float64{0.9, 0.4, 0.6, 0.3}
	d := attracted(epsilonGreedy(t), 0)
	leaves(rng, d, share, payoff, 0, 0.7)
	require.True(t, d.aimsPerImpression())
	q, _ := d.windows.fold(4)
	const decisions = 40_000
	var found, selected, expected, variance [4]float64
	for range decisions {
		var x Decision
		d.Decide(allItems(4), nil, policy.Key(rng.Uint64()), &x)
		for k, at := range x.Order {
			expected[at] += x.Propensities[k]
			variance[at] += x.Propensities[k] * (1 - x.Propensities[k])
		}
		w := 1
		for u := rng.Float64() - q[0]; u >= 0 && w < 4; w++ {
			u -= q[w]
		}
		i := policytest.Select(x.Order, w)
		found[i]++
		if rng.Float64() < share[i] {
			selected[i]++
		}
	}
	for i := range found {
		require.InDelta(t, expected[i], found[i], 6*math.Sqrt(variance[i])+1, "item %d: one false alarm in 10⁸", i)
		require.InDelta(t, expected[i]*share[i], selected[i], 6*math.Sqrt(expected[i])+1, "item %d", i)
	}
}

// TestAttraction_RobustRanksByPayoffPerImpression: robust shows the item on top from which the fewest leave, of eight in most runs. One that
// maximises payoff per selection does so in none.
func TestAttraction_RobustRanksByPayoffPerImpression(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	share := []float64{0.05, 0.1, 0.1, 0.1, 0.2, 0.2, 0.3, 0.9}
	payoff := []float64{0.6, 0.6, 0.55, 0.5, 0.5, 0.45, 0.4, 0.3} // 0.03 to 0.12, and 0.27 an impression
	led, plain := 0, 0
	for range 8 {
		led += leaves(rng, attracted(robustOfWindows(t), 0), share, payoff, 0, 0.7)
		plain += leaves(rng, robustOfWindows(t), share, payoff, 0, 0.7)
	}
	t.Log(led, plain)
	require.Greater(t, led, 1000, "of 8,000 impressions; 7 of 8 runs would have to fail")
	require.Less(t, plain, 500)
}

// leaves shows items to users who leave, and returns in how many of the last 1,000 impressions the last was on top. longer is the share of
// windows of at least a number of items that reach the next.
func leaves(rng *rand.Rand, d Learner, share, payoff []float64, nothing, longer float64) (led int) {
	n := len(share)
	d.Grow(n)
	for k := range int64(4000) {
		var x Decision
		d.Decide(allItems(n), nil, policy.Key(rng.Uint64()), &x)
		if k >= 3000 && x.Order[0] == int32(n)-1 {
			led++
		}
		i := x.Order[0]
		for place := 1; place < n && rng.Float64() < longer; place++ {
			i = max(i, x.Order[place])
		}
		fb := feedback(k, allItems(n), &x, i)
		fb.Began = k * 1000
		if rng.Float64() >= share[i] {
			d.Unselected(fb)
			continue
		}
		d.Selected(fb)
		if fb.Payoff = nothing; rng.Float64() < payoff[i] {
			fb.Payoff = nothing + (1-nothing)/2
		}
		d.Paid(fb)
		d.Advance(k * 1000)
	}
	return led
}

// TestAttraction_OtherPoliciesDecide: elimination, which goes by no estimates, decides by payoffs per selection; those that do go by payoffs per impression.
func TestAttraction_OtherPoliciesDecide(t *testing.T) {
	d := attracted(NewDirect(robustMOSS(t), Silence{}), 0)
	d.Grow(2)
	items := []policy.Item{0, 1}
	for range 100 {
		d.Unselected(Feedback{Candidates: items, Order: []int32{0, 1}})
		for _, i := range items {
			fb := Feedback{Candidates: items, Order: []int32{i, 1 - i}, Item: i, Payoff: 0.6 - 0.1*float64(i)}
			d.Selected(fb)
			d.Paid(fb)
		}
	}
	x := d.Explain(items, nil, 1)
	require.Contains(t, x.Rule, "per impression")
	for at, share := range []float64{0.5, 1} {
		a := x.Attracts[at]
		require.InDelta(t, 0.6-0.1*float64(at), a.PerSelection, 0.01)
		require.InDelta(t, share, a.Share, 0.02)
		require.Equal(t, a.Share*a.PerSelection, a.PerImpression)
		require.InDelta(t, a.PerImpression/d.Status().Attraction.Share, x.Why[at].Mean, 1e-12, "candidates are compared by it")
	}
	require.Equal(t, []ItemInspection{{OnTop: 200, Selected: 100}, {OnTop: 100, Selected: 100}}, d.Inspect().Items)
	require.InDelta(t, 0.55*2/3, d.Status().Attraction.PerImpression, 1e-9)
	var own Decision
	d.Decide(items, nil, 1, &own)
	require.Equal(t, []int32{1, 0}, own.Order, "half of the impressions with item 0 on top have no selection")
	for _, p := range []policy.Policy{robustMOSS(t), policy.NewKLUCB(), policy.NewGreedy()} {
		var x Decision
		d.DecideBy(p, items, nil, 1, &x)
		require.Equal(t, own, x, "%T", p)
	}
	e, err := policy.NewElimination(policy.Confidence{Sigma: 0.05, AutoDelta: true})
	require.NoError(t, err)
	var papers Decision
	d.DecideBy(e, items, nil, 1, &papers)
	require.Equal(t, []int32{0, 1}, papers.Order)
}

// TestAttraction_RefusesWhatItDoesNotWrite.
func TestAttraction_RefusesWhatItDoesNotWrite(t *testing.T) {
	for _, value := range []string{"", "1", "1 ", " 1", "0 0", "-1 2", "1 2 3", "1.5 2", "1 1125899906842625", "a b"} {
		d := attracted(NewDirect(robustMOSS(t), Silence{}), 0)
		d.Grow(1)
		require.ErrorIs(t, d.LoadField(hashAttraction, []byte("0"), []byte(value)), ErrState, value)
		require.Error(t, d.LoadField(hashAttraction, []byte("1"), []byte("1 2")), "there is no such item")
		d.SetSourceField(1, hashAttraction, []byte("0"), []byte(value), func(i policy.Item) (policy.Item, bool) { return i, true })
		require.Zero(t, d.Status().Attraction.Impressions, value)
	}
}
