package delay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// BenchmarkContextual times a decision of 20 of 2,000 items, and a payoff with its share of fits, by number of features.
func BenchmarkContextual(b *testing.B) {
	for _, dim := range []int{8, 16, 32, 64} {
		d := features.Declaration{}
		for k := range dim - 1 {
			d.Item = append(d.Item, features.Feature{Name: fmt.Sprint(k), Low: -1, High: 1})
		}
		space, err := features.New(d)
		require.NoError(b, err)
		belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
		p, err := policy.NewMOSS(belief)
		require.NoError(b, err)
		rng := rand.New(rand.NewPCG(5, uint64(dim)))
		l, err := NewContextual(p, ContextualConfig{Space: space, Belief: belief})
		require.NoError(b, err)
		l.Grow(2000)
		lists, contexts := make([][]policy.Item, 256), make([]*policy.Context, 256)
		for k := range lists {
			for _, i := range rng.Perm(2000)[:20] {
				lists[k] = append(lists[k], policy.Item(i))
			}
			contexts[k] = &policy.Context{}
			for range 20 {
				row := make([]int8, dim)
				row[0] = features.One
				for j := range row[1:] {
					row[1+j] = int8(rng.IntN(255) - 127)
				}
				contexts[k].X = append(contexts[k].X, row...)
			}
		}
		ref := int64(0)
		pay := func() {
			ref++
			k := int(ref) & 255
			i := rng.IntN(20)
			fb := Feedback{Ref: ref, Item: lists[k][i], X: contexts[k].Row(i, 20), Payoff: rng.Float64()}
			l.Selected(fb)
			l.Paid(fb)
			l.Advance(ref)
		}
		b.Run(fmt.Sprintf("payoff/d=%d", dim), func(b *testing.B) {
			for b.Loop() {
				pay()
			}
		})
		for range 20_000 {
			pay()
		}
		decide := func(what string, l *Direct) {
			b.Run(fmt.Sprintf("%s/d=%d", what, dim), func(b *testing.B) {
				b.ReportAllocs()
				var out Decision
				for k := 0; b.Loop(); k++ {
					l.Decide(lists[k&255], contexts[k&255], policy.Key(k), &out)
				}
			})
		}
		decide("decision", l)
		decide("decision of a part", partOf(b, l, p, ContextualConfig{Space: space, Belief: belief, Silence: Silence{Law: SilenceAtOnce}}))
	}
}

// partOf is a part of a pool with the same knowledge as a learner.
func partOf(b *testing.B, l *Direct, p policy.Policy, c ContextualConfig) *Direct {
	var made [2]*Direct
	for k := range made {
		d, err := NewContextual(p, c)
		require.NoError(b, err)
		made[k] = d
	}
	global, part := made[0], made[1]
	global.Grow(2000)
	global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	part.Share(global, 1, func(i policy.Item) policy.Item { return i })
	part.Grow(2000)
	require.NoError(b, part.Loaded())
	store := newStore(l)
	store.harvest()
	store.publish(global, 0, sameNumber)
	global.Estimate(global.Commit(2000))
	part.Refresh(slices.Values(allItems(0)))
	return part
}
