package delay

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// A decision of 20 of 1,000 items by moss, and an impression with its decision, selection and payoff while event time stands still. All users
// select, or half of them leave.
func BenchmarkDirect_Impression(b *testing.B) {
	const items, n, late = 1000, 20, 1000
	for _, leave := range []float64{0, 0.5} {
		p, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
		require.NoError(b, err)
		d, rng := NewDirect(p, Silence{Law: SilenceAges, Horizon: 20 * late * 50}), rand.New(rand.NewPCG(7, 20))
		d.LearnAttraction(0)
		d.Grow(items)
		lists := make([][]policy.Item, 1024)
		for k := range lists {
			for _, i := range rng.Perm(items)[:n] {
				lists[k] = append(lists[k], policy.Item(i))
			}
		}
		var decision Decision
		var awaited [late]Feedback
		ref, now := int64(0), int64(0)
		decide := func() []policy.Item {
			ref++
			list := lists[ref%int64(len(lists))]
			d.Decide(list, nil, policy.Key(ref), &decision)
			return list
		}
		impression := func() {
			list := decide()
			fb := &awaited[ref%late]
			if fb.Ref > 0 {
				fb.Age = now - fb.Began
				d.Paid(*fb)
			}
			*fb = Feedback{Began: now, Candidates: list, Order: decision.Order, Item: list[decision.Order[0]], Instance: -1}
			if rng.Float64() < leave {
				d.Unselected(*fb)
				return
			}
			if fb.Ref = ref; rng.Float64()*items < float64(fb.Item) {
				fb.Payoff = 1
			}
			d.Selected(*fb)
		}
		for range 50_000 {
			impression()
			now += 50
			d.Advance(now)
		}
		b.Run(fmt.Sprintf("decision, %v leave", leave), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
		})
		b.Run(fmt.Sprintf("impression, %v leave", leave), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				impression()
			}
		})
	}
}
