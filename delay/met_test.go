package delay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// fading makes learners that look at items' ages.
func fading(t require.TestingT) *Direct {
	space, err := features.New(features.Declaration{Age: true})
	require.NoError(t, err)
	l, err := NewContextual(policy.NewGreedy(), ContextualConfig{Space: space, Silence: Silence{Law: SilenceAtOnce},
		Belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}})
	require.NoError(t, err)
	return l
}

const anHour = int64(3_600_000)

// The mean by age of items is known of a new item. An item keeps the time at which it was first met, also when it is loaded. An
// item that has ended and comes again is new.
func TestMet_AgeIsAFeature(t *testing.T) {
	d := fading(t)
	d.Grow(40)
	require.NoError(t, d.Loaded())
	s := newStore(d)
	now := int64(0)
	for i := range policy.Item(39) {
		d.Meet([]policy.Item{i}, now)
		for age := range int64(12) {
			fb := Feedback{Item: i, Began: now + age*anHour, X: onlyIntercept, Payoff: 1 / float64(1+age)}
			d.Selected(fb)
			d.Paid(fb)
		}
		now += anHour
		d.Advance(now)
	}
	expects := func(d *Direct, i policy.Item, at int64) float64 {
		return d.Explain([]policy.Item{i}, &policy.Context{X: onlyIntercept, At: at}, 1).Why[0].Mean
	}
	now += 1000 * anHour
	d.Meet([]policy.Item{39}, now)
	require.Greater(t, expects(d, 39, now), 0.8)
	require.Less(t, expects(d, 39, now+11*anHour), 0.3)
	d.Meet([]policy.Item{39}, now+5*anHour)
	require.Less(t, expects(d, 39, now+11*anHour), 0.3, "it was met before")

	s.harvest()
	again := fading(t)
	s.loadSorted(t, 40, again)
	for _, age := range []int64{0, 3, 11} {
		require.InDelta(t, expects(d, 39, now+age*anHour), expects(again, 39, now+age*anHour), 1e-12)
	}
	for _, fields := range faultyFields[hashMet] {
		l := fading(t)
		l.Grow(3)
		require.ErrorIs(t, loadAll(l, fields), ErrState, "%v", fields)
	}

	d.Forget(39)
	s.harvest()
	require.NotContains(t, s.hashes[hashMet], "39")
	d.Meet([]policy.Item{39}, now+11*anHour)
	require.Greater(t, expects(d, 39, now+11*anHour), 0.8)
}

// A new partition takes over when items were first met, beside that which takes over the sums. The earlier of two times counts.
func TestMet_PartitionsTakeOverAges(t *testing.T) {
	from, to := fading(t), fading(t)
	from.Grow(2)
	to.Grow(3)
	from.Meet([]policy.Item{0}, 500)
	from.Meet([]policy.Item{1}, 700)
	to.Meet([]policy.Item{2}, 600)
	require.True(t, to.NamesItems(), "a reshard numbers items then")
	s := newStore(to)
	require.NoError(t, Merge(to, from, []policy.Item{1, 2}, Portion{}, nil))
	s.harvest()
	require.Equal(t, map[string]string{"1": "500", "2": "600"}, s.hashes[hashMet])
}

// An import brings earlier times of items that have selections in flight, whether they were met here or a reshard has carried them. These are
// taken away as they were added: the state loads. An item without any takes the earlier time over.
func TestMet_ImportBesideSelectionsInFlight(t *testing.T) {
	for _, carried := range []bool{false, true} {
		t.Run(fmt.Sprint("carried ", carried), func(t *testing.T) {
			from, to := fading(t), fading(t)
			from.Grow(2)
			to.Grow(2)
			from.Meet([]policy.Item{0, 1}, anHour)
			fb := Feedback{Began: 100*anHour + anHour/30, X: onlyIntercept, Payoff: 1}
			if !carried {
				to.Meet([]policy.Item{0, 1}, 100*anHour)
			}
			for range 3 {
				if carried {
					to.Carry(fb, true)
				} else {
					to.Selected(fb)
				}
			}
			s := newStore(to)
			require.NoError(t, Merge(to, from, []policy.Item{0, 1}, Portion{Additive: true, Of: 1}, func(policy.Item) {}))
			to.Paid(fb)
			to.Paid(fb)
			s.harvest()
			s.loadSorted(t, 2, fading(t))
			require.Equal(t, "3600000", s.hashes[hashMet]["1"])
		})
	}
}
