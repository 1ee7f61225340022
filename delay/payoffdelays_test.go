package delay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
)

// TestLateness_IsThatOfLearners: from two partitions' records it has the delays that a learner has, which reads the other's state. Payoffs come
// at once or in parts, some are returns, and some selections are never paid.
func TestLateness_IsThatOfLearners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		law := ageing(rapid.SampledFrom([]int64{1 << 20, 5_000_000}).Draw(t, "horizon"))
		law.InParts = rapid.Bool().Draw(t, "in parts")
		late, store, gone := NewPayoffDelays(law), (*store)(nil), map[fieldOf]bool{}
		var all [2]*Direct
		for n := range all {
			all[n] = NewDirect(policy.NewGreedy(), law)
			all[n].Grow(pooledItems)
		}
		store = newStore(all[1])
		type selection struct {
			Feedback
			of int
		}
		now, open := int64(1_784_000_000_000), []selection{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.Int64Range(0, law.Horizon/8).Draw(t, "later")
			if len(open) == 0 || rapid.Bool().Draw(t, "selected") {
				s := selection{Feedback{Began: now - rapid.Int64Range(0, 9000).Draw(t, "before")}, rapid.IntRange(0, 1).Draw(t, "of")}
				all[s.of].Advance(now)
				s.Item = rapid.Int32Range(0, pooledItems-1).Draw(t, "item")
				all[s.of].Selected(s.Feedback)
				late.Selected(int32(s.of)*7, now, s.Feedback)
				open = append(open, s)
				continue
			}
			k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			s := &open[k]
			all[s.of].Advance(now)
			fb, source := s.Feedback, int32(s.of)*7
			fb.Age, fb.Payoff = now-fb.Began, rapid.SampledFrom([]float64{0, 0.25, 0.5, 1}).Draw(t, "payoff")
			switch {
			case rapid.IntRange(0, 4).Draw(t, "how") == 0:
				all[s.of].Expired(fb)
				late.Expired(source, now, fb)
			case law.InParts:
				all[s.of].Partial(fb)
				late.Paid(source, now, fb)
				s.InParts, s.Before = true, fb.Payoff
				continue
			default:
				all[s.of].Paid(fb)
				late.Paid(source, now, fb)
			}
			open = append(open[:k], open[k+1:]...)
		}
		now += law.Horizon / 64
		all[1].Advance(now)
		publish(all[0], 7, store, gone)
		all[0].Advance(now)
		want, got := all[0].Status().Silence, late.Status(0, now)
		require.Equal(t, want.Known, got.Known)
		require.Equal(t, want.Covers, got.Covers)
		require.Equal(t, want.Returns, got.Returns)
		require.Equal(t, want.Delays, got.Delays)
	})
}
