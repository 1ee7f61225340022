package delay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Explaining a decision shows the decision that is made next, and changes nothing.
func TestExplain_ShowsTheNextDecisionAndChangesNothing(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			l := k.make(t).(Inspector)
			l.Grow(4)
			items := []policy.Item{3, 0, 2, 1}
			for ref := range int64(40) {
				key := policy.Key(ref)
				before := l.Inspect()
				about := contextOf(l.(Learner), key, len(items))
				x := l.Explain(items, about, key)
				require.Equal(t, before, l.Inspect())
				var d Decision
				l.Decide(items, about, key, &d)
				require.Equal(t, d.Order, x.Decision.Order)
				require.Equal(t, len(d.Propensities), len(x.Decision.Propensities))
				for k := range d.Propensities {
					require.Equal(t, d.Propensities[k], x.Decision.Propensities[k])
				}
				require.Equal(t, d.Instance, x.Decision.Instance)
				require.Len(t, x.Why, len(items))
				require.NotEmpty(t, x.Rule)
				require.Equal(t, about != nil, x.Parts != nil)
				for k, parts := range x.Parts {
					sum := 0.0
					for _, p := range parts {
						require.Equal(t, p.Cause == OfFeatures, p.Feature != "")
						sum += p.Adds
					}
					require.InDelta(t, x.Why[k].Mean, sum, 1e-9, "what a candidate's payoff is made of adds up to it")
				}
				fb := Feedback{Ref: ref, Item: items[d.Order[0]], Candidates: items, Order: d.Order, Instance: d.Instance,
					Payoff: float64(ref%3) / 2, Began: ref * lifeHorizon / 10}
				if len(d.Propensities) > 0 {
					fb.Propensity = d.Propensities[0]
				}
				if about != nil {
					fb.X = about.Row(int(d.Order[0]), len(items))
				}
				l.Selected(fb)
				if ref%4 != 0 {
					l.Paid(fb)
				} else {
					l.Partial(fb)
				}
			}
			l.Advance(4 * lifeHorizon)
			i, s := l.Inspect(), l.Status()
			if items := s.Contextual.Deviations[OfItem]; s.Contextual.Known && items >= 0 {
				require.Equal(t, items, i.Beliefs.Tau, "means of items differ by what items add, not by what segments of theirs do")
			}
			silent, flights := 0.0, int64(0)
			for _, item := range i.Items {
				silent += item.Silent
				flights += item.InFlight
			}
			require.Equal(t, s.Silence.Weight, silent)
			require.Equal(t, s.Silence.Law != SilenceWaits, silent > 0)
			require.LessOrEqual(t, silent, float64(s.Flights))
			inParts := strings.Contains(k.name, "in parts")
			if s.Silence.Known {
				require.InDelta(t, map[bool]float64{false: 0.75}[inParts], s.Silence.Share, 0.1)
				require.LessOrEqual(t, s.Silence.Median, s.Silence.P90)
			}
			require.Equal(t, s.Silence.Law == SilenceAges, s.Silence.Known)
			for _, one := range i.Instances {
				flights += int64(one.Outstanding)
			}
			require.Equal(t, s.Flights, flights)
		})
	}
}

// The estimates of a learner's policy are shown, and equal those of its statistics.
func TestInspect_ShowsBeliefs(t *testing.T) {
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	base, err := policy.NewMOSS(belief)
	require.NoError(t, err)
	direct := NewDirect(base, Silence{})
	direct.Grow(3)
	table := policy.NewTable(3)
	for k := range 12 {
		fb := Feedback{Ref: int64(k), Item: policy.Item(k % 3), Payoff: float64(k%5) / 4}
		direct.Selected(fb)
		direct.Paid(fb)
		table.Add(fb.Item, fb.Payoff)
	}
	require.Equal(t, belief.Components(table), *direct.Inspect().Beliefs)
	require.Nil(t, NewDirect(policy.NewGreedy(), Silence{}).Inspect().Beliefs)
}

// Payoffs come within a tenth of a second, and all selections are a few seconds old: the delays of nine tenths are beyond the ages seen, by
// assumption. With older selections they are known.
func TestStatus_DelaysAreSeenAtAgesOfSelections(t *testing.T) {
	const minute = 60_000
	d, now := NewDirect(policy.NewGreedy(), ageing(30*24*60*minute)), int64(1_784_000_000_000)
	d.Grow(1)
	sell := func(until int64) SilenceStatus {
		for ; now < until; now += 1000 {
			d.Advance(now)
			fb := Feedback{Item: 0, Began: now}
			d.Selected(fb)
			if now/1000%2 == 0 {
				fb.Age, fb.Payoff = 100, 1
				d.Advance(now + 100)
				d.Paid(fb)
			}
		}
		return d.Status().Silence
	}
	require.False(t, sell(now+10_000).Seen)
	s := sell(now + 24*60*minute)
	require.True(t, s.Seen)
	require.InDelta(t, 0.5, s.Share, 0.05)
	require.LessOrEqual(t, s.P90, int64(minute))
}
