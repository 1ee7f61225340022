package recency

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// catalogue is so many items, of which each third has been paid twenty times, around a mean of its own: 0.3 to 0.5.
func catalogue(rng *rand.Rand, items int) *knowledge {
	e, err := NewEstimate(DefaultHalfLives(), empirical)
	if err != nil {
		panic(err)
	}
	k := &knowledge{Estimate: e, grid: Scheme(DefaultHalfLives(), 86_400_000), items: make([]Rows, items), tick: inflight.Never}
	for i := 0; i < items; i += 3 {
		mean := 0.3 + 0.2*rng.Float64()
		for range 20 {
			k.items[i].Count(&k.grid, 0, inflight.Never, SelectionOf(mean+0.2*rng.Float64()-0.1, 0.1))
			k.fed++
		}
	}
	return k
}

// spreadOfAll goes through all items.
func (k *knowledge) spreadOfAll() policy.Components {
	return k.belief.ComponentsOf(func(yield func(policy.Evidence) bool) {
		for _, rows := range k.items {
			if !yield(k.evidence(Item{Rows: rows}, &slope{})) {
				return
			}
		}
	})
}

// The spread is that of all items where they are no more than are looked at, to the last bit, and else near it.
func TestEstimate_SpreadOfManyItems(t *testing.T) {
	for _, items := range []int{0, 1, 2, 100, 3 * spreadItems, 3*spreadItems + 1, 20 * spreadItems} {
		k := catalogue(newRand(t, 71), items)
		k.Make(k.data(1))
		all := k.spreadOfAll()
		if items <= 3*spreadItems {
			require.Equal(t, all, *k.Spread(), "%d items", items)
			continue
		}
		require.NotEqual(t, all, *k.Spread())
		require.InEpsilon(t, all.Mean, k.Spread().Mean, 0.02)
		require.InEpsilon(t, all.Sigma, k.Spread().Sigma, 0.02)
		require.InEpsilon(t, all.Tau, k.Spread().Tau, 0.04)
		looked := 0
		for range k.sample(k.each, &slope{}) {
			looked++
		}
		require.Less(t, looked, spreadItems*21/20)
		require.Greater(t, looked, spreadItems/2*19/20)
	}
}

// An estimate, with the spread, of 200,000 items of which each third has been paid.
func BenchmarkEstimate_Spread(b *testing.B) {
	k := catalogue(rand.New(rand.NewPCG(72, 1)), 200_000)
	b.ReportAllocs()
	for b.Loop() {
		k.Make(k.data(1))
	}
}

// The spread is due after a sixteenth more payoffs, or as many as there are items, if these are fewer.
func TestEstimate_SpreadDue(t *testing.T) {
	e := &Estimate{spreadAt: 1600}
	for _, x := range []struct {
		fed   int64
		items int
		due   bool
	}{{1600, 1000, true}, {1601, 1000, false}, {1699, 1000, false}, {1700, 1000, true}, {1649, 50, false}, {1650, 50, true}, {1599, 1000, true}} {
		require.Equal(t, x.due, e.SpreadDue(x.fed, x.items), "%+v", x)
	}
}
