package partition

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// The status equals its definition, as selections end.
func TestDrops_AreTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d unattributed
		all := map[policy.Item]outcomesOf{}
		payoffs := map[float64]bool{}
		var paid, expired int64
		for range rapid.IntRange(0, 200).Draw(t, "selections") {
			i := policy.Item(rapid.IntRange(0, 9).Draw(t, "item"))
			o := all[i]
			if rapid.Bool().Draw(t, "paid") {
				x := rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "payoff")
				payoffs[x] = true
				d.paid(i, x)
				o.paid++
				paid++
			} else {
				d.expired(i)
				o.expired++
				expired++
			}
			all[i] = o
		}
		got := d.status()
		want := UnattributedStatus{Paid: paid, Expired: expired, AllEqual: paid >= fairPayoffs && len(payoffs) == 1}
		if paid > 0 && expired > 0 {
			c := float64(paid) / float64(paid+expired)
			for _, o := range all {
				if n := float64(o.n()); n >= fairSelections {
					want.Items++
					want.Statistic += math.Pow(float64(o.paid)-c*n, 2) / (c * (1 - c) * n)
				}
			}
		}
		require.InDelta(t, want.Statistic, got.Statistic, 1e-6)
		got.Statistic = want.Statistic
		require.Equal(t, want, got)
	})
}

// Items with equal paid shares, however low, do not mislead. Unequal shares, or equal payoffs, do.
func TestDrops_MisleadWhereSilenceIsInformative(t *testing.T) {
	play := func(items int, selections int, paid func(item, n int) bool, payoff func(n int) float64) UnattributedStatus {
		var d unattributed
		for n := range selections {
			if i := n % items; paid(i, n/items) {
				d.paid(policy.Item(i), payoff(n))
			} else {
				d.expired(policy.Item(i))
			}
		}
		return d.status()
	}
	varied := func(n int) float64 { return float64(n%7) / 7 }
	alike := func(_, n int) bool { return n%5 == 0 }
	for name, c := range map[string]struct {
		status   UnattributedStatus
		misleads bool
	}{
		"paid alike":             {play(10, 1000, alike, varied), false},
		"paid differently":       {play(10, 1000, func(i, n int) bool { return n%10 <= i }, varied), true},
		"too few for a verdict":  {play(10, 39, func(i, n int) bool { return i < 5 }, varied), false},
		"equal payoffs":          {play(10, 1000, alike, func(int) float64 { return 1 }), true},
		"equal, and most are":    {play(10, 1000, func(_, n int) bool { return n%10 > 0 }, func(int) float64 { return 1 }), false},
		"equal, and hardly any":  {play(10, 50, alike, func(int) float64 { return 1 }), false},
		"none is paid":           {play(10, 1000, func(int, int) bool { return false }, varied), false},
		"all are paid, and vary": {play(10, 1000, func(int, int) bool { return true }, varied), false},
	} {
		require.Equal(t, c.misleads, c.status.Misleads(), "%s: %+v", name, c.status)
	}
}

// Selections that expired under drop are counted as untaught once there is a default.
func TestUntaught_IsWhatWasDropped(t *testing.T) {
	w := newWorld(t, testConfig())
	for _, id := range []string{"paid", "lost"} {
		require.NoError(t, w.read(event.Impressions, id, []byte(`{"impression_id":"`+id+`","candidates":[{"item":"a","utility":1}]}`), day))
		require.NoError(t, w.read(event.Selections, id, []byte(`{"impression_id":"`+id+`","item":"a"}`), day))
	}
	require.NoError(t, w.read(event.Payoffs, "paid", []byte(`{"impression_id":"paid","payoff":1}`), day))
	w.tick(day+2*w.cfg.Learners[0].PayoffHorizon, [event.Inputs]bool{true, true, true})
	w.settleAll()
	require.Equal(t, outcomesOf{1, 1}, w.m.byName["feed"].observer.drops.all)
	require.Zero(t, w.m.Learners()[0].Untaught, "it would be dropped again")
	w.save()
	w.cfg.Learners[0].ExpiryDefault = new(float64)
	require.NoError(t, w.tryStart())
	require.EqualValues(t, 1, w.m.Learners()[0].Untaught)
}
