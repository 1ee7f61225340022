package delay

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// A learner reads the global one again, which knows all items from 24 sources, while 500 items of its own have changed.
func BenchmarkDirect_Refresh(b *testing.B) {
	const sources, items, fresh, horizon = 24, 2000, 500, 600_000
	rng := rand.New(rand.NewPCG(3, 24))
	make := func() *Direct {
		p, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
		require.NoError(b, err)
		d := NewDirect(p, Silence{Law: SilenceAges, Horizon: horizon})
		d.LearnAttraction(0)
		return d
	}
	global := make()
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	global.Grow(items)
	now := int64(1 << 40)
	play := func(d *Direct, n int) {
		for range n {
			i := policy.Item(rng.IntN(items))
			fb := Feedback{Ref: 1, Began: now, Item: i, Payoff: float64(rng.IntN(2)), Candidates: []policy.Item{i, (i + 1) % items}, Order: []int32{0, 1}}
			d.Selected(fb)
			if rng.IntN(8) > 0 {
				fb.Age = rng.Int64N(100)
				d.Paid(fb)
			}
		}
		d.Advance(now)
	}
	var part *Direct
	for source := range int32(sources) {
		part = make()
		part.Share(global, source, func(i policy.Item) policy.Item { return i })
		part.Grow(items)
		require.NoError(b, part.Loaded())
		for range 4 {
			play(part, items/4)
			now += horizon / 16
		}
		s := newStore(part)
		part.Harvest(s)
		s.publish(global, source, sameNumber)
	}
	global.Estimate(global.Commit(items))
	part.Refresh(slices.Values(allItems(items)))
	play(part, fresh)
	arrived := slices.Values([]policy.Item{})
	part.Refresh(arrived)
	b.ReportAllocs()
	for b.Loop() {
		part.Refresh(arrived)
	}
	b.ReportMetric(float64(part.table.Fresh()), "fresh")
}
