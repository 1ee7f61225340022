package preference

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// said is how often one item was selected over another.
type said map[[2]policy.Item]reported

// explored and against are one selection each.
var explored, against = reported{explored: 1}, reported{against: 1}

// naive is the relation of the counts by the definition: the transitive closure of the decided pairs. While there is a cycle, its pairs of
// the smallest majority are left out.
func naive(n int, s said) closure {
	majority := map[[2]policy.Item]int64{}
	for p := range s {
		a, b := s[p], s[[2]policy.Item{p[1], p[0]}]
		all, m := a.explored+a.against-b.explored-b.against, a.explored-b.explored
		switch {
		case all >= Margin:
			majority[p] = all
		case all > -Margin && m > 0 && (b.explored == 0 || m >= Margin):
			majority[p] = m
		}
	}
	for {
		c := newClosure(n)
		for p := range majority {
			c[p[0]][p[1]] = true
		}
		c.close()
		// Two items are in the same component where each is above the other.
		weakest := map[[2]policy.Item]bool{}
		for p, m := range majority {
			if !c[p[1]][p[0]] {
				continue
			}
			least := true
			for o, other := range majority {
				if c[p[0]][o[0]] && c[o[0]][p[0]] && c[o[0]][o[1]] && c[o[1]][o[0]] && other < m {
					least = false
				}
			}
			weakest[p] = least
		}
		if len(weakest) == 0 {
			return c
		}
		for p, least := range weakest {
			if least {
				delete(majority, p)
			}
		}
	}
}

// TestSorted_ContradictionsNeverCorruptTheOrder: whatever the selections and their order, the relation is an order. When it is
// used, it is the relation of the counts, however they came about.
func TestSorted_ContradictionsNeverCorruptTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(t, "items")
		f := NewSorted()
		f.Grow(n)
		s := said{}
		item := rapid.Int32Range(0, int32(n-1))
		for range rapid.IntRange(1, 80).Draw(t, "selections") {
			a, b := item.Draw(t, "selected"), item.Draw(t, "above it")
			if a == b {
				continue
			}
			one := explored
			if rapid.IntRange(0, 2).Draw(t, "against") == 0 {
				one = against
			}
			contradicts := one == against || !f.varied() && f.relation.Above(b, a)
			before := f.Status().Contradictions
			f.evidence(a, b, one)
			p := [2]policy.Item{a, b}
			s[p] = reported{s[p].explored + one.explored, s[p].against + one.against}
			require.Equal(t, contradicts, f.Status().Contradictions > before)
			requireOrder(t, &f.relation)
			if rapid.IntRange(0, 4).Draw(t, "is used") == 0 {
				requireSaid(t, n, s, f)
			}
		}
		requireSaid(t, n, s, f)

		again := NewSorted() // the counts, loaded in any order
		again.Grow(n)
		pairs := slices.Collect(maps.Keys(s))
		slices.SortFunc(pairs, func(a, b [2]policy.Item) int { return slices.Compare(a[:], b[:]) })
		for _, p := range rapid.Permutation(pairs).Draw(t, "fields") {
			require.NoError(t, again.Load(appendPair(nil, p[0], p[1]), s[p].append(nil)))
		}
		again.Loaded()
		requireSaid(t, n, s, again)
		require.Equal(t, f.varied(), again.varied())
		if f.varied() {
			require.Equal(t, f.scores.known, again.scores.known)
			require.Equal(t, f.scores.score, again.scores.score)
		}
	})
}

// requireSaid: when it is used, the relation is that of the selections, unless tastes vary.
func requireSaid(t require.TestingT, n int, s said, f *Sorted) {
	f.Sort([]policy.Item{0, 1}, 0, make([]int32, 2), nil)
	require.False(t, f.stale)
	if !f.varied() {
		naive(n, s).same(t, &f.relation)
	}
}

// requireOrder: nothing is above itself, and of two items at most one is above the other.
func requireOrder(t require.TestingT, r *relation) {
	for i := range policy.Item(r.Len()) {
		require.False(t, r.Above(i, i))
		for j := range i {
			require.False(t, r.Above(i, j) && r.Above(j, i))
		}
	}
}

// TestSorted_WithoutContradictionNothingIsThoughtOver: for deterministic users the pairs certified at once are all pairs.
func TestSorted_WithoutContradictionNothingIsThoughtOver(t *testing.T) {
	for seed := range uint64(20) {
		u := newUsers(12, 0.7, seed)
		f := NewSorted()
		burnIn(f, u, seed, 100_000)
		require.False(t, f.stale)
		require.Zero(t, f.Status().Contradictions)
		before := slices.Clone(f.relation.rows)
		f.rebuild()
		require.Equal(t, before, f.relation.rows)
	}
}

// TestSorted_AfterTheBurnInNothingIsCounted: a selection whose impression's order was certain adds nothing to the state, unless it
// contradicts. Then it is counted against the best of the items above it, and undoes by a majority a pair that was explored.
func TestSorted_AfterTheBurnInNothingIsCounted(t *testing.T) {
	f := NewSorted()
	f.Grow(4)
	for i := range policy.Item(3) {
		f.evidence(i+1, i, explored)
	}
	f.Harvest(func([]byte, []byte) {})
	order := []int32{1, 0, 3, 2}
	f.Selected(&Selection{Items: []policy.Item{0, 1, 2, 3}, Order: order, At: 2})
	f.Harvest(func(field, value []byte) { t.Errorf("%s = %s", field, value) })
	require.Zero(t, f.Status().Contradictions)
	for range Margin {
		f.Selected(&Selection{Items: []policy.Item{0, 1, 2, 3}, Order: order, At: 3})
	}
	require.True(t, f.relation.Above(3, 2), "one that contradicts undoes nothing")
	f.Selected(&Selection{Items: []policy.Item{0, 1, 2, 3}, Order: order, At: 3})
	var written []string
	f.Harvest(func(field, value []byte) { written = append(written, string(field)+"="+string(value)) })
	require.Equal(t, []string{"2:3=0 6"}, written)
	require.EqualValues(t, Margin+1, f.Status().Contradictions)
	f.Sort([]policy.Item{0, 1, 2, 3}, 0, make([]int32, 4), nil)
	require.True(t, f.relation.Above(2, 3), "a majority of Margin does")
}

// TestVerdict_WrongMajorityIsAsRareAsTheGamblersRuin: users who err with probability 1/4 decide a pair wrongly with
// probability 1/(1+3⁵) = 0.0041. Of 20,000 pairs 82 ± 9 go wrong; the bounds are seven deviations away: a false alarm of
// about 10⁻¹¹ (seed 1).
func TestVerdict_WrongMajorityIsAsRareAsTheGamblersRuin(t *testing.T) {
	const pairs, seed = 20_000, 1
	rng := rand.New(rand.NewPCG(seed, 0))
	wrong, comparisons := 0, 0
	for range pairs {
		right, err := int64(1), int64(1) // contradicted already
		for majority(right, err) == 0 {
			comparisons++
			if rng.Float64() < 0.25 {
				err++
			} else {
				right++
			}
		}
		if majority(right, err) < 0 {
			wrong++
		}
	}
	want := pairs / (1 + math.Pow(3, Margin))
	require.InDelta(t, want, wrong, 7*math.Sqrt(want))
	require.Less(t, float64(comparisons)/pairs, 10.0)
}

// TestSorted_UsersWhoErr: with one comparison of twenty going wrong, the order is nevertheless found, but for few pairs. A decided
// pair is wrong with probability 0.05 at first, and is compared again only when it is contradicted. The bound on the share of wrong
// pairs is far above the expected share, and far below chance.
func TestSorted_UsersWhoErr(t *testing.T) {
	const n, seed = 12, 3
	wrong, pairs := 0, 0
	for run := range uint64(20) {
		u := newUsers(n, 0.7, seed+run)
		u.err = 0.05
		f := NewSorted()
		f.Grow(n)
		candidates := make([]policy.Item, n)
		for i := range candidates {
			candidates[i] = policy.Item(i)
		}
		s := &session{finder: f, key: policy.Key(run)}
		for range 5000 {
			if s.decide(candidates) {
				// After the burn-in a ranking by falling utility shows a user the items that contradict it least; a random one is
				// fair.
				s.shown, s.list = s.shown[:0], s.list[:0]
				for _, r := range u.rng.Perm(n) {
					s.shown, s.list = append(s.shown, int32(r)), append(s.list, s.items[r])
				}
			}
			s.feed(u.selects(s.list))
		}
		var r Report
		f.Report(&r)
		for i, a := range r.Items {
			for _, b := range r.Items[:i] {
				pairs++
				if u.rank[a] < u.rank[b] {
					wrong++
				}
			}
		}
	}
	require.Less(t, float64(wrong)/float64(pairs), 0.05)
}

// TestSorted_GuessesAreNotCertain: with more items than the budget has others, some orders are guessed before all are known. No
// wrong order is certain.
func TestSorted_GuessesAreNotCertain(t *testing.T) {
	const n, seed = 500, 9
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	u := newUsers(n, 0.7, seed)
	f := NewSorted()
	f.Grow(n)
	s := &session{finder: f, key: seed}
	guesses, wrong := 0, 0
	for range 60_000 {
		candidates := shuffledItems(n, rng)[:10]
		if !s.decide(candidates) {
			s.feed(u.selects(s.list))
			continue
		}
		right := slices.IsSortedFunc(s.items, func(a, b policy.Item) int { return cmp.Compare(u.rank[a], u.rank[b]) })
		if len(s.undecided) == 0 {
			require.True(t, right)
			continue
		}
		guesses++
		if !right {
			wrong++
		}
	}
	t.Logf("%d of %d guesses were wrong", wrong, guesses)
	require.Positive(t, wrong)
}

// TestSorted_PoolsOtherSources: partitions that share their counts have the relation of one that saw all selections.
func TestSorted_PoolsOtherSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(t, "items")
		parts := []*Sorted{NewSorted(), NewSorted(), NewSorted()}
		together := NewSorted()
		for _, f := range append(parts, together) {
			f.Grow(n)
		}
		// Partition p numbers its items in an order of its own.
		numbers := make([][]int, len(parts))
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		for p := range numbers {
			numbers[p] = rapid.Permutation(all).Draw(t, "numbers")
		}
		item := rapid.IntRange(0, n-1)
		for range rapid.IntRange(1, 60).Draw(t, "selections") {
			p, a, b := rapid.IntRange(0, 2).Draw(t, "partition"), item.Draw(t, "selected"), item.Draw(t, "above it")
			if a != b {
				parts[p].evidence(policy.Item(numbers[p][a]), policy.Item(numbers[p][b]), explored)
				together.evidence(policy.Item(a), policy.Item(b), explored)
			}
			if rapid.Bool().Draw(t, "published") {
				exchange(parts, numbers)
			}
		}
		exchange(parts, numbers)
		together.rebuild()
		for p, f := range parts {
			f.rebuild()
			require.Equal(t, together.varied(), f.varied())
			for a := range n {
				if f.varied() {
					require.InDelta(t, together.scores.score[a]-together.scores.score[0],
						f.scores.score[numbers[p][a]]-f.scores.score[numbers[p][0]], 0.1, "the order of the iteration matters a little")
					continue
				}
				for b := range n {
					require.Equal(t, together.relation.Above(policy.Item(a), policy.Item(b)),
						f.relation.Above(policy.Item(numbers[p][a]), policy.Item(numbers[p][b])), "partition %d", p)
				}
			}
			// When a source is gone, its counts go, too.
			for from := range parts {
				for i := range n {
					for j := range n {
						if i != j {
							f.SetSource(int32(from), appendPair(nil, policy.Item(i), policy.Item(j)), nil,
								func(i policy.Item) (policy.Item, bool) { return i, true })
						}
					}
				}
			}
			for at := range f.counts.pairs {
				require.Equal(t, f.counts.sums.Own(int32(at)), f.counts.sums.Pooled(int32(at)))
				_, found := f.counts.sums.From(0, int32(at))
				require.False(t, found)
			}
		}
	})
}

// exchange gives every partition the changes of the others.
func exchange(parts []*Sorted, numbers [][]int) {
	for from, f := range parts {
		f.Harvest(func(field, value []byte) {
			for to, other := range parts {
				if to == from {
					continue
				}
				other.SetSource(int32(from), field, value, func(theirs policy.Item) (policy.Item, bool) {
					return policy.Item(numbers[to][slices.Index(numbers[from], int(theirs))]), true
				})
			}
		})
	}
}

func TestSorted_SetSourcePassesOverWhatMakesNoSense(t *testing.T) {
	f := NewSorted()
	f.Grow(3)
	same := func(i policy.Item) (policy.Item, bool) { return i, i < 9 }
	for _, c := range [][2]string{{"", "1"}, {"1", "1"}, {"1:1", "1"}, {"1:2", "-1"}, {"1:2", "x"}, {"01:2", "1"}, {"1:8", "1"},
		{"1:9", "1"}, {"1:2:0", "1"}, {"1:2", "9999999999999999"}, {"4294967297:2", "1"}} {
		f.SetSource(1, []byte(c[0]), []byte(c[1]), same)
		require.ErrorIs(t, f.Load([]byte(c[0]), []byte(c[1])), ErrState, "%v", c)
	}
	require.Empty(t, f.counts.pairs)
	require.Error(t, f.Load([]byte("1:2"), []byte("0")), "nobody writes that")
}

func TestSorted_ItemsBeyondTheLimitAreTheLowest(t *testing.T) {
	f := NewSorted()
	f.Grow(MaxItems + 3)
	f.evidence(1, 0, explored)
	f.evidence(MaxItems, 1, explored)
	order := make([]int32, 4)
	undecided := f.Sort([]policy.Item{MaxItems + 1, 1, MaxItems, 0}, 0, order, nil)
	require.Equal(t, []int32{2, 0, 3, 1}, order)
	require.Empty(t, undecided)
	require.Less(t, bytesOf(&f.relation), 9<<20)
}

func TestSorted_NothingIsAllocatedInSteadyState(t *testing.T) {
	const n = 20
	for _, known := range []bool{false, true} {
		f := NewSorted()
		f.Grow(n)
		candidates, items := make([]policy.Item, n), make([]policy.Item, n)
		for i := range candidates {
			candidates[i] = policy.Item(i)
			if i > 0 && (known || i%2 == 0) {
				f.evidence(policy.Item(i), policy.Item(i-1), explored)
			}
		}
		order, shown, undecided := make([]int32, n), make([]int32, n), make([]int32, 0, n)
		key := policy.Key(1)
		step := func() {
			key++
			undecided = f.Sort(candidates, key, order, undecided[:0])
			for r, at := range order {
				items[r] = candidates[at]
			}
			if len(undecided) > 0 {
				f.Explore(items, undecided, key, shown)
				return
			}
			f.Selected(&Selection{Items: items, Order: order, At: n - 1})
		}
		step()
		require.Zero(t, testing.AllocsPerRun(200, step), "known: %t", known)
	}
}
