package delay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/policy/preference"
)

// fan is a user with a window who likes items in a fixed order.
type fan struct {
	likes []int // by item: how many it is preferred to
	rng   *rand.Rand
}

// selects is the position of the item that a user with a random window selects from the candidates shown in this order.
func (f *fan) selects(candidates []policy.Item, order []int32) int {
	window := 1
	for window < len(order) && f.rng.Float64() < 0.7 {
		window++
	}
	at := 0
	for k := 1; k < window; k++ {
		if f.likes[candidates[order[k]]] > f.likes[candidates[order[at]]] {
			at = k
		}
	}
	return at
}

// recorded is the outcome of a decision as a partition keeps it.
func recorded(ref int64, candidates []policy.Item, d *Decision, at int) Feedback {
	fb := Feedback{Ref: ref, Item: candidates[d.Order[at]], Instance: d.Instance, Candidates: make([]policy.Item, len(candidates)),
		Order: slices.Clone(d.Ranks), Undecided: slices.Clone(d.Undecided)}
	for k, rank := range d.Ranks {
		fb.Candidates[rank] = candidates[d.Order[k]]
	}
	if len(d.Propensities) > 0 {
		fb.Propensity = d.Propensities[at]
	}
	return fb
}

// expecting is a learner that expects of each item as many millionths as its utility rank.
type expecting struct {
	Inspector
	adopted []float64
	paid    Feedback
}

func (e *expecting) Expects() bool { return true }

func (e *expecting) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision) {
	e.Inspector.Decide(candidates, nil, key, d)
	for _, rank := range d.Order {
		d.Expected = append(d.Expected, float64(rank)/1e6)
	}
}

func (e *expecting) Adopt(_ int64, d *Decision) { e.adopted = slices.Clone(d.Expected) }

func (e *expecting) Paid(fb Feedback) {
	e.paid = fb
	e.Inspector.Paid(fb)
}

// TestPreferring_PassesOnWhatIsExpected, each way; in the burn-in nothing is.
func TestPreferring_PassesOnWhatIsExpected(t *testing.T) {
	require.False(t, NewPreferring(NewQPMD(policy.NewGreedy()), preference.NewSorted()).Expects())
	inner := &expecting{Inspector: NewQPMD(policy.NewGreedy())}
	p := NewPreferring(inner, preference.NewSorted())
	require.True(t, p.Expects())
	p.Grow(2)
	d := Decision{Expected: []float64{1}}
	p.Decide(allItems(2), nil, 1, &d)
	require.Empty(t, d.Expected, "the order of the two is not known")
	ref := int64(1)
	for ; len(d.Undecided) > 0 && ref < 100; ref++ { // the user likes item 1 best
		p.Selected(recorded(ref, allItems(2), &d, slices.Index(d.Order, 1)))
		p.Decide(allItems(2), nil, policy.Key(ref), &d)
	}
	require.Len(t, d.Expected, 2)
	for k, rank := range d.Ranks {
		require.InDelta(t, float64(rank)/1e6, d.Expected[k], 0)
	}
	p.Adopt(ref, &d)
	require.Equal(t, d.Expected, inner.adopted)
	fb := recorded(ref, allItems(2), &d, 1)
	fb.Expected, fb.HasExpected = d.Expected[1], true
	p.Selected(fb)
	p.Paid(fb)
	require.True(t, inner.paid.HasExpected)
	require.InDelta(t, d.Expected[1], inner.paid.Expected, 0)
}

func bases(t require.TestingT) map[string]func() Inspector {
	half, err := admissible.NewWindows([]float64{0.3, 0.3, 0.2, 0.2})
	require.NoError(t, err)
	return map[string]func() Inspector{
		"qpmd":        func() Inspector { return NewQPMD(policy.NewGreedy()) },
		"direct":      func() Inspector { return NewDirect(policy.NewGreedy(), Silence{}) },
		"impressions": func() Inspector { return attracted(NewDirect(robustMOSS(t), Silence{}), 0) },
		"bold": func() Inspector {
			base, err := policy.NewFTRL(1, true)
			require.NoError(t, err)
			b, err := NewBOLD(BOLDConfig{Base: base, MaxInstances: 2, Windows: WindowsConfig{Given: half}})
			require.NoError(t, err)
			return b
		},
	}
}

// TestPreferring_AfterTheBurnInDecidesAsWithGivenUtilities: from the first impression whose order is certain, a learner that finds
// the order decides exactly as one that is given it and received the same feedback. Before that, the latter takes the outcomes
// without harm.
func TestPreferring_AfterTheBurnInDecidesAsWithGivenUtilities(t *testing.T) {
	for name, base := range bases(t) {
		t.Run(name, func(t *testing.T) {
			const n, seed = 8, 5
			rng := rand.New(rand.NewPCG(seed, 0))
			users := &fan{likes: rng.Perm(n), rng: rng}
			p, given := NewPreferring(base(), preference.NewSorted()), base()
			p.Grow(n)
			given.Grow(n)
			sorted := make([]policy.Item, n) // in increasing utility
			for i, rank := range users.likes {
				sorted[rank] = policy.Item(i)
			}
			certain := 0
			for ref := range int64(600) {
				candidates := slices.Clone(sorted)
				rng.Shuffle(n, func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
				candidates = candidates[:n-rng.IntN(3)]
				inOrder := slices.DeleteFunc(slices.Clone(sorted), func(i policy.Item) bool { return !slices.Contains(candidates, i) })
				key := policy.DecisionKey(seed, 0, name, 0, ref)
				var d, want Decision
				p.Decide(candidates, nil, key, &d)
				requirePermutation(t, d.Order)
				requirePermutation(t, d.Ranks)
				inner := Feedback{Instance: -1}
				if len(d.Undecided) == 0 {
					certain++
					given.Decide(inOrder, nil, key, &want)
					for k, rank := range want.Order {
						require.Equal(t, inOrder[rank], candidates[d.Order[k]], "impression %d", ref)
					}
					require.Equal(t, want.Order, d.Ranks)
					require.Equal(t, want.Propensities, slices.Clip(d.Propensities[:len(want.Propensities)]))
					require.Equal(t, want.Instance, d.Instance)
				} else {
					require.EqualValues(t, -1, d.Instance)
					require.Empty(t, d.Propensities)
					require.True(t, d.Explored)
				}
				at := users.selects(candidates, d.Order)
				fb := recorded(ref, candidates, &d, at)
				inner = forInner(fb)
				if len(d.Undecided) == 0 {
					require.Equal(t, inOrder, fb.Candidates)
				}
				if len(d.Undecided) == 0 && name == "impressions" {
					x, same := p.Explain(candidates, nil, key), given.Explain(inOrder, nil, key)
					require.Len(t, x.Attracts, len(same.Attracts))
					for rank, attracts := range same.Attracts {
						require.Equal(t, attracts, x.Attracts[slices.Index(candidates, inOrder[rank])])
					}
				}
				if rng.IntN(4) == 0 {
					p.Unselected(fb)
					given.Unselected(inner)
					continue
				}
				p.Selected(fb)
				given.Selected(inner)
				switch rng.IntN(4) {
				case 0:
					p.Expired(fb)
					given.Expired(inner)
				default:
					fb.Payoff = float64(users.likes[fb.Item]) / n
					inner.Payoff = fb.Payoff
					p.Paid(fb)
					given.Paid(inner)
				}
			}
			require.Greater(t, certain, 300)
			ours, theirs := p.Status(), given.Status()
			require.EqualValues(t, 600-certain, ours.BurnIn)
			require.Zero(t, ours.Contradictions)
			require.Zero(t, ours.UndecidedPairs)
			ours.BurnIn, ours.FindsUtilities = 0, false
			require.Equal(t, theirs, ours)
			share, known := given.ShareOnTop(sorted[n-1])
			same, ok := p.ShareOnTop(sorted[n-1])
			require.Equal(t, known, ok)
			require.InDelta(t, share, same, 0)
			require.Equal(t, name == "impressions", known)
			require.NotNil(t, p.Inspect().Preferences)
		})
	}
}

func requirePermutation(t require.TestingT, order []int32) {
	seen := make([]bool, len(order))
	for _, k := range order {
		require.False(t, seen[k])
		seen[k] = true
	}
}

// TestPreferring_SurvivesARestart: a loaded learner decides as the one that went on, and so does one that adopted the decisions
// made since.
func TestPreferring_SurvivesARestart(t *testing.T) {
	for name, base := range bases(t) {
		for kind, find := range map[string]func() preference.Finder{
			"sorted": func() preference.Finder { return preference.NewSorted() },
			"social": func() preference.Finder { s, _ := preference.NewSocial(preference.SocialConfig{}); return s },
		} {
			t.Run(name+" "+kind, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { restart(t, base, find) }) })
		}
	}
}

func restart(t *rapid.T, base func() Inspector, find func() preference.Finder) {
	n := rapid.IntRange(2, 6).Draw(t, "items")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	users := &fan{likes: rng.Perm(n), rng: rng}
	p := NewPreferring(base(), find())
	p.Grow(n)
	stored := newStore(p)
	candidates := make([]policy.Item, n)
	for i := range candidates {
		candidates[i] = policy.Item(i)
	}
	play := func(l *Preferring, ref int64) (Decision, Feedback) {
		var d Decision
		l.Decide(candidates, nil, policy.DecisionKey(1, 2, "", 3, ref), &d)
		fb := recorded(ref, candidates, &d, users.selects(candidates, d.Order))
		fb.Payoff, fb.Utility, fb.HasUtility = rng.Float64(), float64(users.likes[fb.Item])+rng.NormFloat64(), rng.IntN(9) > 0
		return d, fb
	}
	end := func(l *Preferring, fb Feedback) {
		l.Selected(fb)
		l.Paid(fb)
	}
	steps := int64(rapid.IntRange(0, 60).Draw(t, "steps"))
	for ref := range steps {
		_, fb := play(p, ref)
		end(p, fb)
	}
	d, fb := play(p, steps) // is outstanding at the restart, and decided in the log
	stored.harvest()
	again := NewPreferring(base(), find())
	stored.load(t, n, again)
	if d.Instance < 0 { // an instance that waits is stored as waiting
		again.Adopt(steps, &d)
	}
	end(p, fb)
	end(again, fb)
	ours, theirs := p.Learner.Status(), again.Learner.Status()
	ours.Holds, ours.Unfed, theirs.Holds, theirs.Unfed = 0, 0, 0, 0 // are counted since the process started
	require.Equal(t, ours, theirs)
	for ref := steps + 1; ref < steps+20; ref++ {
		d, fb := play(p, ref)
		var other Decision
		again.Decide(candidates, nil, policy.DecisionKey(1, 2, "", 3, ref), &other)
		require.Equal(t, fmt.Sprint(d), fmt.Sprint(other))
		end(p, fb)
		end(again, fb)
	}
}

// TestPreferring_PropensitiesHoldForItemsLikedAlike: the mean of 1/p over each item's selections is 1, where equal ratings leave the
// order to a draw. Terms are within 0 and 1/p, so a false alarm has a probability of at most 4·exp(−2N·(0.1·p)²), by Hoeffding.
func TestPreferring_PropensitiesHoldForItemsLikedAlike(t *testing.T) {
	const n, draws, seed = 2, 100_000, 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	finder, err := preference.NewSocial(preference.SocialConfig{Budget: 1})
	require.NoError(t, err)
	windows, err := admissible.NewWindows([]float64{0.8, 0.2})
	require.NoError(t, err)
	base, err := policy.NewFTRL(1, true)
	require.NoError(t, err)
	inner, err := NewBOLD(BOLDConfig{Base: base, MaxInstances: 1, Windows: WindowsConfig{Given: windows}})
	require.NoError(t, err)
	p := NewPreferring(inner, finder)
	p.Grow(n)
	for _, i := range allItems(n) {
		p.Selected(Feedback{Item: i, Candidates: allItems(n), Order: []int32{0, 1}, Utility: 1, HasUtility: true})
	}
	var sums [n]float64
	least := 1.0
	for range draws {
		var d Decision
		p.Decide(allItems(n), nil, policy.Key(rng.Uint64()), &d)
		require.Empty(t, d.Undecided)
		at := 0
		if rng.Float64() < 0.2 && d.Ranks[1] > d.Ranks[0] {
			at = 1
		}
		sums[d.Order[at]] += 1 / d.Propensities[at]
		least = min(least, d.Propensities[at])
	}
	require.Less(t, 4*math.Exp(-2*draws*0.1*0.1*least*least), 1e-6)
	for i, sum := range sums {
		require.InDelta(t, 1, sum/draws, 0.1, "item %d", i)
	}
}

// guessing never knows the order, and has no budget to explore it.
type guessing struct{ preference.Finder }

func (g guessing) Sort(candidates []policy.Item, key policy.Key, order, undecided []int32) []int32 {
	g.Finder.Sort(candidates, key, order, nil)
	return append(undecided, 0)
}

// TestPreferring_GuessesAreDecidedAndTeachNoOrder: the policy decides by a guess, with propensities, but learns neither losses nor
// windows from it; the payoff counts.
func TestPreferring_GuessesAreDecidedAndTeachNoOrder(t *testing.T) {
	base, err := policy.NewFTRL(1, true)
	require.NoError(t, err)
	inner, err := NewBOLD(BOLDConfig{Base: base})
	require.NoError(t, err)
	p := NewPreferring(inner, guessing{preference.NewSorted()})
	p.Grow(3)
	var d Decision
	p.Decide(allItems(3), nil, 1, &d)
	require.Equal(t, []int32{0}, d.Undecided)
	require.Len(t, d.Propensities, 3)
	require.False(t, d.Explored)
	fb := recorded(1, allItems(3), &d, 0)
	fb.Payoff = 1
	require.NotZero(t, fb.Propensity)
	require.Zero(t, forInner(fb).Propensity)
	p.Selected(fb)
	p.Paid(fb)
	s := p.Status()
	require.Equal(t, [4]int64{0, 0, 1, 1}, [4]int64{s.Selections, s.BurnIn, s.Fed, s.Unfed})
}

// TestPreferring_ExplainsTheNextDecision: the decision shown is the next one, its positions are the candidates', and the state has
// not changed.
func TestPreferring_ExplainsTheNextDecision(t *testing.T) {
	for name, base := range bases(t) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 0))
			users := &fan{likes: []int{2, 0, 3, 1}, rng: rng}
			p := NewPreferring(base(), preference.NewSorted())
			p.Grow(4)
			candidates := []policy.Item{2, 0, 3, 1}
			for ref := range int64(200) {
				key := policy.DecisionKey(1, 2, "", 3, ref)
				x := p.Explain(candidates, nil, key)
				var d Decision
				p.Decide(candidates, nil, key, &d)
				require.Equal(t, fmt.Sprint(d), fmt.Sprint(x.Decision))
				require.Len(t, x.Why, 4)
				require.Equal(t, d.Order[0], x.Why[d.Order[0]].Leader, "what is on top leads")
				fb := recorded(ref, candidates, &d, users.selects(candidates, d.Order))
				p.Selected(fb)
				p.Paid(fb)
			}
		})
	}
}

// TestPreferring_UnknownOrderIsNoMistake: an outcome without the order known at the decision counts by the shown order, and one
// without both counts for nothing.
func TestPreferring_UnknownOrderIsNoMistake(t *testing.T) {
	p := NewPreferring(NewQPMD(policy.NewGreedy()), preference.NewSorted())
	p.Grow(3)
	p.Selected(Feedback{Item: 2, Instance: -1})
	require.EqualValues(t, 3, p.Status().UndecidedPairs)
	p.Selected(Feedback{Item: 2, Instance: -1, Candidates: []policy.Item{0, 1, 2}})
	require.EqualValues(t, 1, p.Status().UndecidedPairs)
	p.Selected(Feedback{Item: 2, Instance: -1, Candidates: []policy.Item{0, 1}, Order: []int32{1, 0}})
	require.EqualValues(t, 1, p.Status().UndecidedPairs)
}

func BenchmarkPreferring(b *testing.B) {
	const n = 20
	for _, certain := range []bool{false, true} {
		b.Run(fmt.Sprintf("certain=%t", certain), func(b *testing.B) {
			p := NewPreferring(NewQPMD(policy.NewGreedy()), preference.NewSorted())
			p.Grow(1000)
			candidates := make([]policy.Item, n)
			for i := range candidates {
				candidates[i] = policy.Item(i * 37 % 1000)
			}
			for i := range 999 {
				if certain || i%3 > 0 {
					p.Selected(Feedback{Item: policy.Item(i + 1), Instance: -1, Candidates: []policy.Item{policy.Item(i), policy.Item(i + 1)}})
				}
			}
			var d Decision
			key := policy.Key(0)
			b.ReportAllocs()
			for b.Loop() {
				key++
				p.Decide(candidates, nil, key, &d)
			}
		})
	}
}
