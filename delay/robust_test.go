package delay

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
)

var robustBelief = policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}

func plainRobust(t testing.TB, items int) *Robust {
	r := newRobust(t, RobustConfig{Belief: robustBelief, HalfLives: recency.DefaultHalfLives(), Windows: WindowsConfig{Given: geometricWindows(t)}})
	r.Grow(items)
	return r
}

// ended draws selections that ended, up to a time.
func ended(rng *rand.Rand, n, items int, end int64) []Feedback {
	all := make([]Feedback, n)
	for k := range all {
		all[k] = Feedback{Ref: int64(k), Item: policy.Item(rng.IntN(items)), Payoff: rng.Float64(), Began: rng.Int64N(end),
			Propensity: rng.Float64(), Expected: float64(rng.IntN(1e6)) / 1e6, HasExpected: rng.IntN(5) > 0}
	}
	return all
}

// rowsOf are the rows of all items, and of the levels, as of the tick.
func rowsOf(r *Robust) (items []recency.Rows, levels history.Rows[recency.Residual]) {
	for i := range policy.Item(r.flights.Len()) {
		rows := r.items.Pooled(i).Rows(nil)
		rows.Merge(&r.grid, r.levels.tick)
		items = append(items, rows)
	}
	levels = r.levels.pooled()
	levels.Merge(&r.grid, r.levels.tick)
	return items, levels
}

// The state is a function of the set of payoffs, not of their order.
func TestRobust_KeepsTheSameInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	all := ended(rng, 3000, 5, 5e6)
	one, other := plainRobust(t, 5), plainRobust(t, 5)
	for _, fb := range all {
		one.Paid(fb)
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for k, fb := range all {
		other.Paid(fb)
		if k%7 == 0 {
			other.Advance(fb.Began)
		}
	}
	require.Equal(t, one.levels.tick, other.levels.tick)
	items, levels := rowsOf(one)
	otherItems, otherLevels := rowsOf(other)
	require.Equal(t, items, otherItems)
	require.Equal(t, levels, otherLevels)
	var residualsInFlight, expected int64
	for _, fb := range all {
		if fb.HasExpected {
			expected++
		}
	}
	for _, x := range levels {
		residualsInFlight += x.Sum.N
	}
	require.Equal(t, expected, residualsInFlight, "those without an expectation surprise nobody")
}

// published hands a learner's harvested fields to others.
type published struct {
	source int32
	from   *Robust
	to     []*Robust
}

func (p published) Item(i policy.Item) {
	for _, l := range p.to {
		if l != p.from {
			l.SetSource(p.source, i, p.from.Sums(i))
		}
	}
}

func (p published) Known() bool { return false }

func (p published) Field(hash string, field, value []byte) {
	for _, l := range p.to {
		if l != p.from && slices.ContainsFunc(l.Pooled(), func(h Pooled) bool { return h.Hash == hash }) {
			l.SetSourceField(p.source, hash, field, value, func(i policy.Item) (policy.Item, bool) { return i, true })
		}
	}
}

// Partitions that have exchanged everything, a little at a time, have the knowledge and the estimates of one that had all payoffs.
// The levels agree to the last bit; the spread of payoffs agrees up to the rounding of sums of sums.
func TestRobust_PartitionsKnowWhatOneWould(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	const partitions = 3
	one, several := plainRobust(t, 4), []*Robust{}
	for range partitions {
		several = append(several, plainRobust(t, 4))
	}
	all := ended(rng, 2000, 4, 4e6)
	slices.SortStableFunc(all, func(a, b Feedback) int { return int(a.Began/1e6 - b.Began/1e6) }) // blocks merge as time goes on
	all = append(all, Feedback{Item: 1, Began: 5e6, Payoff: 1, Propensity: 1})
	for k, fb := range all {
		one.Paid(fb)
		several[k%partitions].Paid(fb)
		if k%100 == 0 || k == len(all)-1 {
			for source, l := range several {
				l.Advance(fb.Began)
				l.Harvest(published{int32(source), l, several})
			}
		}
	}
	one.Advance(6e6)
	want, wantLevels := rowsOf(one)
	for _, l := range several {
		l.Advance(6e6)
		require.Equal(t, one.estimate.Tick(), l.estimate.Tick())
		l.levels.tick = one.levels.tick
		items, levels := rowsOf(l)
		require.Equal(t, want, items)
		require.Equal(t, wantLevels, levels)
		require.InDelta(t, one.estimate.Spread().Sigma, l.estimate.Spread().Sigma, 1e-3)
		require.InDelta(t, one.estimate.Spread().Mean, l.estimate.Spread().Mean, 1e-3)
	}
}

// Two learners merged have the knowledge of one with both's payoffs, whichever was ahead; and each change is harvested.
func TestRobust_MergedKnowsWhatBothDid(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, ends := range [][2]int64{{4e6, 9e6}, {9e6, 4e6}} {
		one, to, from := plainRobust(t, 4), plainRobust(t, 4), plainRobust(t, 4)
		numbers := []policy.Item{2, 0, 3, 1}
		for _, fb := range ended(rng, 500, 4, ends[0]) {
			one.Paid(fb)
			to.Paid(fb)
		}
		s := newStore(to)
		s.harvest()
		for _, fb := range ended(rng, 500, 4, ends[1]) {
			from.Paid(fb)
			fb.Item = numbers[fb.Item]
			one.Paid(fb)
		}
		require.NoError(t, Merge(to, from, numbers, Portion{Additive: true, Of: 1}, func(i policy.Item) { s.sums[i] = to.Sums(i) }))
		s.harvest()
		loaded := plainRobust(t, 4)
		s.loadSorted(t, 4, loaded)
		for _, l := range []*Robust{to, loaded} {
			require.Equal(t, one.levels.tick, l.levels.tick)
			items, levels := rowsOf(one)
			gotItems, gotLevels := rowsOf(l)
			require.Equal(t, items, gotItems)
			require.Equal(t, levels, gotLevels)
			require.Equal(t, one.table.Fed(), l.table.Fed())
		}
	}
}

// A learner takes over residuals from one that is behind, and a late payoff follows. Their buckets do not overlap: the state loads.
func TestRobust_LoadsAfterAMergeWithALearnerBehind(t *testing.T) {
	to, from := plainRobust(t, 1), plainRobust(t, 1)
	paid := func(r *Robust, began int64) {
		r.Paid(Feedback{Began: began, Propensity: 1, Expected: 0.5, HasExpected: true})
	}
	s := newStore(to)
	paid(to, 10_000_000)
	paid(from, 5_000_000)
	paid(from, 5_010_000)
	require.NoError(t, Merge(to, from, []policy.Item{0}, Portion{Additive: true, Of: 1}, func(policy.Item) {}))
	paid(to, 5_005_000)
	s.harvest()
	s.loadSorted(t, 1, plainRobust(t, 1))
}

// The report of the level: none before the first payoff; that it has not changed; by how much it has, and against which past; and
// how often. A loaded learner has counted no changes, and reports the same otherwise.
func TestRobust_ReportsTheLevel(t *testing.T) {
	r := plainRobust(t, 2)
	require.Equal(t, LevelStatus{Tracked: true, AsOf: inflight.Never, HalfLife: math.Inf(1)}, r.Status().Level)
	now := int64(0)
	feed := func(seconds int, level float64) LevelStatus {
		for k := range seconds {
			now += 1000
			payoff := 0.5 + level + []float64{-0.05, 0.05}[k/2%2]
			r.Paid(Feedback{Item: policy.Item(k % 2), Payoff: payoff, Began: now, Propensity: 0.5, Expected: 0.5, HasExpected: true})
			r.Advance(now)
		}
		return r.Status().Level
	}
	steady := feed(2000, 0)
	require.Zero(t, steady.Changes)
	require.InDelta(t, 0, steady.Level, 0.01)
	require.InDelta(t, now, steady.AsOf, 5000)
	require.True(t, math.IsInf(steady.HalfLife, 1))
	changed := feed(60, 0.25)
	require.EqualValues(t, 1, changed.Changes)
	require.InDelta(t, 0.2, changed.Level, 0.05) // drawn towards 0
	require.Less(t, changed.HalfLife, 1e6)
	s := newStore(r)
	s.harvest()
	loaded := plainRobust(t, 2)
	require.NoError(t, loaded.LoadField(HashLearner, []byte(fieldLevels), []byte(s.hashes[HashLearner][fieldLevels])))
	changed.Changes = 0
	require.Equal(t, changed, loaded.Status().Level)
	require.EqualValues(t, 1, feed(200, 0.25).Changes, "a change is reported once")
}

// rare plays selections of three items, one a second. Few are paid, late, and all others stay unpaid until the horizon. Each goes
// to the learners given for it, and all learners receive the time.
func rare(rng *rand.Rand, seconds int, to func(second int) []*Robust, all ...*Robust) {
	due := map[int][]Feedback{}
	for s := range seconds {
		fb := Feedback{Ref: int64(s), Item: policy.Item(rng.IntN(3)), Began: int64(s) * 1000, Propensity: 1. / 3, Expected: 0.1, HasExpected: true}
		for _, l := range to(s) {
			l.Selected(fb)
		}
		at := s + lifeHorizon/1000
		if fb.Defaulted = rng.Float64() > []float64{0.05, 0.1, 0.2}[fb.Item]; !fb.Defaulted {
			at, fb.Payoff = s+rng.IntN(100), 1
			fb.Age = int64(at-s) * 1000
		}
		due[at] = append(due[at], fb)
		for _, fb := range due[s] {
			for _, l := range to(int(fb.Ref)) {
				l.Paid(fb)
			}
		}
		for _, l := range all {
			l.Advance(int64(s) * 1000)
		}
	}
}

func silentRobust(t testing.TB) *Robust {
	r := newRobust(t, RobustConfig{Belief: robustBelief, HalfLives: recency.DefaultHalfLives(), Windows: WindowsConfig{Given: geometricWindows(t)},
		Silence: Silence{Law: SilenceAges}})
	r.Grow(3)
	return r
}

// Before the horizon nothing has expired, so that only payoffs have been counted. With the weight of the unpaid, an item's mean is
// right all the same, and the common level is not overstated.
func TestRobust_SilenceCountsBeforeTheHorizon(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	ages, waits := silentRobust(t), plainRobust(t, 3)
	both := []*Robust{ages, waits}
	rare(rng, lifeHorizon/1000-1, func(int) []*Robust { return both }, both...)
	level, _ := ages.estimate.Level()
	require.InDelta(t, 0, level, 0.15)
	level, _ = waits.estimate.Level()
	require.Greater(t, level, 0.4)
	for i := range policy.Item(3) {
		require.Less(t, ages.reading(i).Mean, 0.5)
		require.Greater(t, ages.reading(i).Worth, 3*waits.reading(i).Worth)
	}
}

// Partitions that have exchanged everything have the knowledge of one with all selections, the unpaid too. So has one that takes
// over the others' knowledge and their awaited selections.
func TestRobust_PartitionsKnowSilenceAsOneWould(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	one, merged, several := silentRobust(t), silentRobust(t), []*Robust{silentRobust(t), silentRobust(t)}
	rare(rng, 1500, func(s int) []*Robust { return []*Robust{one, several[s%2]} }, one, several[0], several[1])
	stores := []*store{newStore(several[0]), newStore(several[1])}
	for _, s := range stores {
		s.harvest()
	}
	for to, l := range several {
		from := 1 - to
		stores[from].publish(l, int32(from), sameNumber)
	}
	for _, l := range several {
		all := l.flights.awaiting.every.Add(l.flights.awaiting.theirEvery())
		require.Equal(t, string(one.flights.awaiting.every.Append(nil)), string(all.Append(nil)))
	}
	for _, l := range several {
		require.NoError(t, Merge(merged, l, []policy.Item{0, 1, 2}, Portion{Additive: true, Of: 1}, func(policy.Item) {}))
	}
	for i := range policy.Item(3) {
		require.Equal(t, one.flights.awaiting.settled.Own(i), merged.flights.awaiting.settled.Own(i))
	}
	later := int64(2e6)
	for _, l := range append(several, one) {
		l.Advance(later)
	}
	for i := range policy.Item(3) {
		want := one.reading(i).Recent
		for _, l := range several {
			require.InEpsilon(t, want.Worth, l.reading(i).Worth, 0.1)
			require.InDelta(t, want.Mean, l.reading(i).Mean, 0.05)
		}
	}
}

func TestNewRobust_FaultsAreErrors(t *testing.T) {
	p, err := policy.NewRobust(policy.DefaultLookAgain)
	require.NoError(t, err)
	for _, c := range []RobustConfig{{}, {Policy: p, HalfLives: recency.DefaultHalfLives()}, {Policy: p, Horizon: 1},
		{Policy: p, Horizon: 1, HalfLives: recency.DefaultHalfLives(), Silence: Silence{Law: SilenceAtOnce}}} {
		_, err := NewRobust(c)
		require.ErrorIs(t, err, ErrRobust)
	}
	_, err = NewRobust(RobustConfig{Policy: p, Belief: robustBelief, Horizon: 1, HalfLives: recency.DefaultHalfLives(), Windows: WindowsConfig{Max: -1}})
	require.ErrorIs(t, err, ErrWindows)
}

// A decision among 20 of 30 items, a payoff each, and event time that goes on by 50 ms: a day of them has been before.
func BenchmarkRobust(b *testing.B) {
	r := plainRobust(b, 30)
	rng := rand.New(rand.NewPCG(3, 1))
	candidates, now, ref := allItems(20), int64(0), int64(0)
	var d Decision
	step := func(more int64) {
		ref++
		now += more
		r.Decide(candidates, nil, policy.Key(ref), &d)
		at := rng.IntN(len(d.Order))
		fb := Feedback{Ref: ref, Item: candidates[d.Order[at]], Began: now, Propensity: d.Propensities[at], Expected: d.Expected[at], HasExpected: true}
		r.Selected(fb)
		fb.Payoff = float64(rng.IntN(2))
		r.Paid(fb)
		r.Advance(now)
	}
	for range 100_000 {
		step(864)
	}
	b.Run("decide", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ref++
			r.Decide(candidates, nil, policy.Key(ref), &d)
		}
	})
	b.Run("paid", func(b *testing.B) {
		b.ReportAllocs()
		fb := Feedback{Began: now, Propensity: 0.25, Expected: 0.5, HasExpected: true, Payoff: 0.5}
		for b.Loop() {
			ref++
			fb.Ref, fb.Item = ref, policy.Item(ref%20)
			r.Paid(fb)
		}
	})
	b.Run("step", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			step(50)
		}
	})
}

// A decision among n of twice as many items, after 100,000 impressions of such lists, 20 a second. Users view as many results as
// their windows, and select the one of the highest utility. Payoffs are 0 or 1, with means from 0.2 to 0.8 by item.
func BenchmarkRobust_Decide(b *testing.B) {
	for _, n := range []int{20, 1000} {
		r, rng := plainRobust(b, 2*n), rand.New(rand.NewPCG(5, uint64(n)))
		windows := geometricWindows(b).Fold(make([]float64, n))
		means, lists := make([]float64, 2*n), make([][]policy.Item, 64)
		for i := range means {
			means[i] = 0.2 + 0.6*rng.Float64()
		}
		for k := range lists {
			lists[k] = slices.Clone(allItems(2 * n))
			rng.Shuffle(2*n, func(i, j int) { lists[k][i], lists[k][j] = lists[k][j], lists[k][i] })
			lists[k] = lists[k][:n]
		}
		var d Decision
		for ref := range int64(100_000) {
			list := lists[ref%64]
			r.Decide(list, nil, policy.Key(rng.Uint64()), &d)
			window := 1
			for u := rng.Float64(); window < n && u >= windows[window-1]; window++ {
				u -= windows[window-1]
			}
			selected := slices.Max(d.Order[:window])
			at := slices.Index(d.Order, selected)
			fb := Feedback{Ref: ref, Item: list[selected], Began: 50 * ref, Propensity: d.Propensities[at],
				Expected: d.Expected[at], HasExpected: true}
			r.Selected(fb)
			if rng.Float64() < means[fb.Item] {
				fb.Payoff = 1
			}
			r.Paid(fb)
			r.Advance(50 * ref)
		}
		b.Run("n="+strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				r.Decide(lists[k&63], nil, policy.Key(k), &d)
			}
		})
	}
}
