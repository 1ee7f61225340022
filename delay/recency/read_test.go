package recency

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 5))
}

var empirical = policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}

// knowledge is rows as a learner keeps them, with an estimate made at each tick.
type knowledge struct {
	*Estimate
	grid   inflight.Scheme
	items  []Rows
	levels history.Rows[Residual]
	tick   int64
	fed    int64
}

func learns(t testing.TB, items int) *knowledge {
	e, err := NewEstimate(DefaultHalfLives(), empirical)
	require.NoError(t, err)
	return &knowledge{Estimate: e, grid: Scheme(DefaultHalfLives(), 86_400_000), items: make([]Rows, items), tick: inflight.Never}
}

// each gives the rows of all items that have some.
func (k *knowledge) each(yield func(uint64, func() Item) bool) {
	for i, rows := range k.items {
		if len(rows) > 0 && !yield(uint64(i)*0x9e3779b97f4a7c15>>32, func() Item { return Item{Rows: rows} }) {
			return
		}
	}
}

func (k *knowledge) data(tick int64) *Data {
	return &Data{Tick: tick, Residuals: k.levels, Fed: k.fed, Items: k.each, Count: len(k.items)}
}

// feed counts a payoff, and estimates again at each tick.
func (k *knowledge) feed(i policy.Item, began int64, payoff, propensity, expected float64) {
	k.fed++
	tick := max(k.tick, k.grid.Tick(began))
	k.levels.Merge(&k.grid, tick)
	k.levels.Count(&k.grid, began, tick, ResidualOf(payoff, expected))
	k.items[i].Merge(&k.grid, tick)
	k.items[i].Count(&k.grid, began, tick, SelectionOf(payoff, propensity))
	if tick > k.tick {
		k.tick = tick
		k.Make(k.data(tick))
	}
}

func (k *knowledge) recent(i policy.Item) policy.Recent { return k.lately(Item{Rows: k.items[i]}) }

func (k *knowledge) lately(i Item) policy.Recent {
	recent, _ := k.Read(i)
	return recent
}

// world feeds a selection of one of some items a second: of a mean by item and second, expected to be expected.
func (k *knowledge) world(rng *rand.Rand, seconds int, mean func(i policy.Item, second int) float64, expected func(policy.Item) float64) {
	for s := range seconds {
		i := policy.Item(rng.IntN(len(k.items)))
		payoff := 0.0
		if rng.Float64() < mean(i, s) {
			payoff = 1
		}
		k.feed(i, int64(s)*1000, payoff, 1/float64(len(k.items)), expected(i))
	}
}

// Where nothing changes all of the past counts, there is no level, and means are plain.
func TestEstimate_WhereNothingChangesAllCounts(t *testing.T) {
	k := learns(t, 4)
	mean := func(i policy.Item) float64 { return 0.2 + 0.2*float64(i) }
	k.world(newRand(t, 3), 20_000, func(i policy.Item, _ int) float64 { return mean(i) }, mean)
	level, half := k.Level()
	require.InDelta(t, 0, level, 0.02)
	require.True(t, math.IsInf(half, 1))
	for i := range policy.Item(4) {
		r := k.recent(i)
		require.InDelta(t, mean(i), r.Mean, 0.05) // 7 deviations
		require.InDelta(t, 5000, r.Worth, 400)
		require.InDelta(t, 20_000, r.Chances, 1600)
	}
	require.InDelta(t, 0.5, k.Spread().Mean, 0.05)
	require.InDelta(t, math.Sqrt(0.2), k.Spread().Sigma, 0.02)
}

// Where all means fall together the level falls, from the block in which they did. Items' deviations stay, and selections from
// before add little.
func TestEstimate_WhatAllHaveInCommonIsNoItems(t *testing.T) {
	k := learns(t, 4)
	mean := func(i policy.Item) float64 { return 0.5 + 0.1*float64(i) }
	k.world(newRand(t, 4), 12_000, func(i policy.Item, s int) float64 {
		if s >= 10_000 {
			return mean(i) - 0.5
		}
		return mean(i)
	}, mean)
	level, half := k.Level()
	require.InDelta(t, -0.5, level, 0.05)
	require.Less(t, half, 4e6)
	for _, c := range k.Estimate.levels.of {
		switch {
		case c.End() <= 9_900_000:
			require.InDelta(t, 0, c.level, 0.1)
		case c.Start() >= 10_100_000:
			require.InDelta(t, -0.5, c.level, 0.1)
		}
	}
	for i := range policy.Item(4) {
		r := k.recent(i)
		require.InDelta(t, mean(i), r.Mean, 0.08)
		require.Greater(t, r.Worth, 2500.)
		require.Less(t, r.Chances, 6000.)
	}
}

// The estimate of an item that changes alone becomes its new mean, and the others' stay. The same holds after a long time without a
// payoff, with less evidence.
func TestRead_AnItemThatChangesIsSeen(t *testing.T) {
	k := learns(t, 10)
	mean := func(i policy.Item) float64 { return 0.2 + 0.02*float64(i) }
	k.world(newRand(t, 5), 23_000, func(i policy.Item, s int) float64 {
		if i == 3 && s >= 20_000 {
			return 0.9
		}
		return mean(i)
	}, mean)
	then := k.recent(3)
	require.Greater(t, then.Mean, 0.75)
	require.InDelta(t, mean(7), k.recent(7).Mean, 0.1)
	for s := range int64(20_000) {
		k.feed(7, (23_000+s)*1000, float64(s%5/4), 1, 0.2)
	}
	later := k.recent(3)
	require.Greater(t, later.Mean, 0.75)
	require.Less(t, later.Worth, then.Worth/2)
	require.Less(t, later.Chances, then.Chances/2)
}

// An item that is selected so rarely that no half-life holds more than one or two of its payoffs is seen to have changed too.
func TestRead_AnItemThatIsRareAndChangesIsSeen(t *testing.T) {
	k := learns(t, 2)
	rng := newRand(t, 6)
	mean := func(i policy.Item) float64 { return 0.1 + 0.4*float64(i) }
	k.world(rng, 4000, func(i policy.Item, _ int) float64 { return mean(i) }, mean)
	require.InDelta(t, 0.1, k.recent(0).Mean, 0.05)
	for n := range int64(30) {
		began := 4_000_000 + n*40_000_000 // 11 hours
		k.feed(0, began, 1, 1e-4, 0.1)
		for s := range int64(200) {
			k.feed(1, began+(s+1)*1000, float64(s%2), 1, 0.5)
		}
	}
	require.Greater(t, k.recent(0).Mean, 0.8)
	require.InDelta(t, 30, k.recent(0).Worth, 15)
	require.Equal(t, math.Trunc(k.recent(0).Worth), k.recent(0).Worth, "the last payoffs count without weights")
}

// An item's estimate depends neither on which source has which rows, nor on whether its rows are of the newest tick. Blocks that
// two sources have, or one of them longer than the other, count as though one source had them all.
func TestRead_SourcesAddUp(t *testing.T) {
	rng := newRand(t, 7)
	for range 50 {
		k := learns(t, 1)
		var own, others Rows
		end := rng.Int64N(1 << (12 + rng.IntN(22)))
		for n := range int64(400) {
			began, payoff := end*n/400, rng.Float64()
			k.feed(0, began, payoff, 0.5, 0.5)
			to := &own
			if rng.IntN(3) == 0 {
				to = &others
			}
			to.Count(&k.grid, began, k.tick, SelectionOf(payoff, 0.5))
			if rng.IntN(100) == 0 {
				to.Merge(&k.grid, k.tick)
			}
		}
		k.Make(k.data(k.tick))
		k.items[0].Merge(&k.grid, k.tick)
		want, got := k.recent(0), k.lately(Item{Rows: own.Add(others)})
		merged := own.Add(others)
		merged.Merge(&k.grid, k.tick)
		require.Equal(t, k.items[0], merged)
		require.InDelta(t, want.Mean, k.lately(Item{Rows: merged}).Mean, 1e-12)
		require.InDelta(t, want.Mean, got.Mean, 0.1, "tails may be cut elsewhere")
		require.InEpsilon(t, want.Chances, got.Chances, 0.1)
	}
}

// Empty rows give no estimate; those of a single payoff give that payoff, before there was an estimate too.
func TestRead_OfLittle(t *testing.T) {
	k := learns(t, 1)
	require.Equal(t, policy.Recent{}, k.recent(0))
	k.items[0].Count(&k.grid, 1e12, inflight.Never, SelectionOf(0.75, 0.25))
	require.Equal(t, policy.Recent{Mean: 0.75, Worth: 1, Chances: 4}, k.recent(0))
}

// A written estimate is read with the same values and gives the same results; one that cannot be written is refused.
func TestEstimate_Text(t *testing.T) {
	k := learns(t, 4)
	k.world(newRand(t, 8), 3000, func(i policy.Item, s int) float64 { return 0.2 + 0.1*float64(i) + 0.3*float64(s/2000) },
		func(i policy.Item) float64 { return 0.2 + 0.1*float64(i) })
	k.slope = 0.25 // as where payoffs do not confirm levels
	text := k.Append(nil)
	e, err := NewEstimate(DefaultHalfLives(), empirical)
	require.NoError(t, err)
	require.NoError(t, e.Load(text))
	require.Equal(t, string(text), string(e.Append(nil)))
	require.Equal(t, k.Spread(), e.Spread())
	require.Equal(t, k.slope, e.slope)
	for _, rows := range k.items {
		recent, allTime := k.Read(Item{Rows: rows})
		loaded, loadedAllTime := e.Read(Item{Rows: rows})
		require.Equal(t, recent, loaded)
		require.Equal(t, allTime, loadedAllTime)
	}
	_, half := k.Level()
	require.False(t, math.IsInf(half, 1), "the level has changed")
	other, err := NewEstimate([]time.Duration{7 * time.Second}, empirical)
	require.NoError(t, err)
	require.NoError(t, other.Load(text), "other half-lives")
	_, half = other.Level()
	require.True(t, math.IsInf(half, 1))
	for _, faulty := range []string{"", "0 0 0.5 0.5 0.5 1 0", "x 0 0.5 0.5 0.5 1 0 10:0:0", "0 -1 0.5 0.5 0.5 1 0 10:0:0", "0 0 NaN 0.5 0.5 1 0 10:0:0",
		"0 0 0.5 0 0.5 1 0 10:0:0", "0 0 0.5 0.5 0 1 0 10:0:0", "0 0 0.5 0.5 NaN 1 0 10:0:0", "0 0 0.5 Inf 1 1 0 10:0:0", "0 0 0.5 0.5 0.5 1 x 10:0:0",
		"0 0 0.5 0.5 0.5 1 0 10:0", "0 0 0.5 0.5 0.5 1 0 10:0:1:1", "0 0 0.5 0.5 0.5 1 0 10:0:99999999999999999", "99999999999999999 0 0.5 0.5 0.5 1 0 10:0:0",
		"0 0 0.5 0.5 0.5 1.1 0 10:0:0", "0 0 0.5 0.5 0.5 NaN 0 10:0:0", "0 0 0.5 0.5 0.5 -1 0 10:0:0"} {
		require.ErrorIs(t, e.Load([]byte(faulty)), ErrText, faulty)
	}
	require.Equal(t, string(text), string(e.Append(nil)), "what is refused changes nothing")
}

// Sums are read as they were written, and no others.
func TestSums_Text(t *testing.T) {
	g := Scheme(DefaultHalfLives(), 1e9)
	var rows Rows
	var levels history.Rows[Residual]
	for at := range int64(50) {
		rows.Count(&g, at*3000, g.Tick(150_000), SelectionOf(float64(at%3)/2, 0.001*float64(at%7)))
		levels.Count(&g, at*3000, g.Tick(150_000), ResidualOf(float64(at%3)/2, 0.7))
	}
	gotRows, err := words.Parse(rows.Append(nil), ' ', ReadSelections, ErrText)
	require.NoError(t, err)
	require.Equal(t, rows, gotRows)
	gotLevels, err := words.Parse(levels.Append(nil), ' ', ReadResiduals, ErrText)
	require.NoError(t, err)
	require.Equal(t, levels, gotLevels)
	for _, faulty := range []string{"", "10:0:1:1:1", "10:0:1:1:1:-1", "10:0:0:0:0:0", "10:0:1:1:1:1:1", "10:0:1:1:1:9223372036854775807"} {
		_, err := words.Parse([]byte(faulty), ' ', ReadSelections, ErrText)
		require.ErrorIs(t, err, ErrText, faulty)
	}
	for _, faulty := range []string{"", "10:0", "10:0:1", "10:0:0:0", "10:0:1:1:1", "10:0:1:9223372036854775807"} {
		_, err := words.Parse([]byte(faulty), ' ', ReadResiduals, ErrText)
		require.ErrorIs(t, err, ErrText, faulty)
	}
}

// A selection whose propensity is tiny counts as 1,000, and one without a propensity as one. Sums that would become too large are
// halved.
func TestSums(t *testing.T) {
	require.Equal(t, Selections{history.PayoffsOf(0.5), 2 << 10}, SelectionOf(0.5, 0.5))
	require.Equal(t, Selections{history.PayoffsOf(0.5), 1000 << 10}, SelectionOf(0.5, 1e-9))
	require.Equal(t, Selections{history.PayoffsOf(0.5), 1 << 10}, SelectionOf(0.5, 0))
	full := Selections{history.Payoffs{N: history.Full, R: 8, Q: 6}, 4}
	require.Equal(t, full, full.Bounded())
	require.Equal(t, full, full.Add(full).Bounded())
	require.Equal(t, Residual{history.Full, -8}, Residual{2 * history.Full, -16}.Bounded())
}

// Each branch of the rule, with numbers by hand: σ = 0.1, and three deviations.
func TestLongest(t *testing.T) {
	for _, x := range []struct {
		mean, worth []float64
		want        int
	}{
		{[]float64{0.5}, []float64{9}, 0},
		{[]float64{0.5, 0.59}, []float64{9, 100}, 0 + 1}, // 0.3/3 + 0.7/9 = 0.177
		{[]float64{0.5, 0.69}, []float64{9, 100}, 0},
		{[]float64{0.5, 1.4}, []float64{1, 100}, 1},          // a single payoff
		{[]float64{0.5, 1.6}, []float64{1, 100}, 0},          // beyond the range
		{[]float64{9, 0.5, 0.5}, []float64{0.9, 50, 100}, 2}, // worth too little
		{[]float64{0.5, 0.5, 0.9}, []float64{2, 400, 900}, 1},
		{[]float64{0.5, 0.51, 0.56}, []float64{400, 900, 1600}, 1}, // the first one contradicts the third
	} {
		require.Equal(t, x.want, longest(x.mean, x.worth, 1, 3, 0.1), "%v %v", x.mean, x.worth)
	}
}

// ownWeight is one selection in ten of ten seconds, from a time on, that counts as so much of a payoff of 0.
func ownWeight(g *inflight.Scheme, from, to int64, worth float64) (all []Silent) {
	for began := from; began < to; began += 10_000 {
		b := g.BucketOf(began, to)
		if last := len(all) - 1; last >= 0 && all[last].Bucket == b {
			all[last].W += worth
			continue
		}
		all = append(all, Silent{b, policy.Evidence{W: worth}})
	}
	return all
}

// Unpaid selections count with the paid, for a mean and for the spread of payoffs.
func TestRead_WhatIsSilentCounts(t *testing.T) {
	k := learns(t, 1)
	for s := range int64(1000) {
		if s%100 == 37 {
			k.feed(0, s*1000, 1, 0.5, 0.1)
		}
	}
	require.Equal(t, 1.0, k.recent(0).Mean+k.levels0())
	silent := ownWeight(&k.grid, 0, 1_000_000, 0.9)
	item := Item{Rows: k.items[0], Silent: silent}
	k.Make(&Data{Tick: k.tick + 1, Fed: 100, Items: func(yield func(uint64, func() Item) bool) {
		yield(0, func() Item { return item })
	}, Count: 1})
	r, allTime := k.Read(item)
	require.InDelta(t, 10./100, r.Mean+k.levels0(), 1e-9)
	require.InDelta(t, 100, r.Worth, 5)
	require.Equal(t, policy.AllTime{Mean: r.Mean, Worth: r.Worth}, allTime)
	require.InDelta(t, 20+90, r.Chances, 1e-9, "one that is awaited could have been selected once")
	require.InDelta(t, 0.3, k.Spread().Sigma, 0.1)
	for _, nothing := range []Item{{}, {Silent: []Silent{{silent[0].Bucket, policy.Evidence{}}}}} {
		r, allTime = k.Read(nothing)
		require.Zero(t, r)
		require.Zero(t, allTime)
	}
}

// TestWalk_Within: a selection in flight is within its bucket's row, and not within the next one's.
func TestWalk_Within(t *testing.T) {
	k := learns(t, 1)
	first := k.grid.BucketOf(0, 1_000_000)
	next := k.grid.BucketOf(first.End(), 1_000_000)
	require.Equal(t, first.End(), next.Start())
	w := k.walk(Item{Rows: Rows{{Bucket: first, Sum: Selections{Payoffs: history.Payoffs{N: 2}}}, {Bucket: next, Sum: Selections{Payoffs: history.Payoffs{N: 3}}}},
		Silent: []Silent{{first, policy.Evidence{W: 1}}}})
	var weights []float64
	var within []bool
	for s := w.next(); s != nil; s = w.next() {
		weights, within = append(weights, s.W), append(within, s.within)
	}
	require.Equal(t, []float64{3, 2, 1}, weights)
	require.Equal(t, []bool{false, true, false}, within)
}

// levels0 is the level of the first block.
func (k *knowledge) levels0() float64 { return k.Estimate.levels.of[0].level }

// Payoffs of a block with many unpaid selections give no change of the item without the counts of these, whatever was paid last.
// Where nearly all are paid they do.
func TestRead_NoTailEndsWhereMuchIsSilent(t *testing.T) {
	k := learns(t, 2)
	for s := range int64(4000) {
		k.feed(0, s*1000, float64(s%20/19), 0.5, 0.05)
	}
	b := inflight.Bucket{Level: 22, Index: 1} // 70 minutes, from 4,194 s on
	for n := range int64(8) {
		k.feed(0, b.Start()+n*100_000, 1, 0.5, 0.05)
	}
	for worth, changed := range map[float64]bool{150: false, 0.5: true} {
		r := k.lately(Item{Rows: k.items[0], Silent: []Silent{{b, policy.Evidence{W: worth}}}})
		require.Equal(t, changed, r.Worth < 100, "%v: %+v", worth, r)
	}
}

func TestNewEstimate_FaultsAreErrors(t *testing.T) {
	for _, lives := range [][]time.Duration{nil, {time.Millisecond}, {time.Minute, time.Minute}, {time.Second + 1}, {time.Hour, time.Minute},
		slices.Repeat([]time.Duration{time.Second}, 9)} {
		_, err := NewEstimate(lives, empirical)
		require.ErrorIs(t, err, ErrHalfLives)
	}
}

// A payoff of one of ten items a second, after a day of them, and a decision of all of them; an estimate, of 10 and 2,000 items.
func BenchmarkKnowledge(b *testing.B) {
	for _, n := range []int{10, 2000} {
		k := learns(b, n)
		rng := rand.New(rand.NewPCG(1, 1))
		k.world(rng, 86_400, func(i policy.Item, _ int) float64 { return 0.2 + 0.5*float64(i)/float64(n) },
			func(policy.Item) float64 { return 0.45 })
		b.Run(fmt.Sprintf("read/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k.recent(policy.Item(i % n))
			}
		})
		b.Run(fmt.Sprintf("feed/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				k.items[i%int64(n)].Count(&k.grid, k.tick, k.tick, SelectionOf(0.5, 0.1))
			}
		})
		b.Run(fmt.Sprintf("make/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k.Make(k.data(k.tick))
			}
		})
	}
}
