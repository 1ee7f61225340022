package delay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// hourly makes learners that look at the hour.
func hourly(t require.TestingT) *Direct {
	space, err := features.New(features.Declaration{Clock: features.Clock{Hour: true}})
	require.NoError(t, err)
	l, err := NewContextual(policy.NewGreedy(), ContextualConfig{Space: space, Silence: Silence{Law: SilenceAtOnce},
		Belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}})
	require.NoError(t, err)
	return l
}

// day gives the payoffs of a day: item 0 pays in the first half of it, item 1 in the second, and item 2 now and then.
func day(d *Direct, days int) {
	for k := range int32(24 * days) {
		hour := k % 24
		give(d, 0, hour, float64(1-hour/12))
		give(d, 1, hour, float64(hour/12))
		give(d, 2, hour, float64(k%7/5))
		d.Advance(int64(k))
	}
}

// Where items pay by the hour, the grouping separates hours; elsewhere it has one group. Payoffs are given, and nothing is random.
func TestGrouping_IsWhatPayoffsSay(t *testing.T) {
	d := hourly(t)
	d.Grow(3)
	require.NoError(t, d.Loaded())
	require.EqualValues(t, 1, d.contexts.groups)
	day(d, 20)
	require.EqualValues(t, 4, d.contexts.groups)
	require.Equal(t, []Groups{{"hour", 4}}, d.Status().Contextual.Groups)
	require.Zero(t, d.Status().Contextual.Since)
	parts := d.contexts.parts([]policy.Item{0}, &policy.Context{Segment: 13, X: []int8{features.One}})[0]
	require.Equal(t, "12–18 h", parts[len(parts)-1].Group)
	require.Empty(t, parts[0].Group)
	early, _ := expected(d, 0, 3)
	late, _ := expected(d, 0, 20)
	require.Greater(t, early, 0.9)
	require.Less(t, late, 0.1)

	same := hourly(t)
	same.Grow(3)
	require.NoError(t, same.Loaded())
	for k := range int32(24 * 20) {
		for i := range policy.Item(3) {
			give(same, i, k%24, float64((k*7+i*3)%10/(3+i)%2))
		}
		same.Advance(int64(k))
	}
	require.EqualValues(t, 1, same.contexts.groups)
}

// A learner that is loaded decides as the one that was stored, with fields in any order.
func TestGrouping_IsStored(t *testing.T) {
	d := hourly(t)
	d.Grow(3)
	require.NoError(t, d.Loaded())
	s := newStore(d)
	day(d, 20)
	s.harvest()
	for _, fitFirst := range []bool{true, false} {
		again := hourly(t)
		again.Grow(3)
		for i, sums := range s.sums {
			again.LoadSums(i, sums)
		}
		load := func(fit bool) {
			for hash, fields := range s.hashes {
				for field, value := range fields {
					if (hash == HashLearner) == fit {
						require.NoError(t, again.LoadField(hash, []byte(field), []byte(value)))
					}
				}
			}
		}
		load(fitFirst)
		load(!fitFirst)
		require.NoError(t, again.Loaded())
		for _, hour := range []int32{0, 11, 12, 23} {
			for i := range policy.Item(3) {
				mean, worth := expected(d, i, hour)
				same, alike := expected(again, i, hour)
				require.InDelta(t, mean, same, 1e-12)
				require.InDelta(t, worth, alike, 1e-9)
			}
		}
	}
}

// Partitions of a whole decide as one learner with all payoffs, by the whole's grouping.
func TestGrouping_PartsGoByTheWholes(t *testing.T) {
	one := hourly(t)
	one.Grow(sharedItems)
	m := &mallOf{t: t, global: hourly(t)}
	m.global.Grow(sharedItems)
	m.global.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	for source := range int32(2) {
		d := hourly(t)
		d.Share(m.global, source, func(i policy.Item) policy.Item { return i })
		d.Grow(sharedItems)
		m.parts, m.store = append(m.parts, d), append(m.store, newStore(d))
		require.NoError(t, d.Loaded())
	}
	require.NoError(t, one.Loaded())
	for source := range m.parts {
		day(m.parts[source], 10)
		m.resync(source)
	}
	day(one, 10)
	day(one, 10)
	require.EqualValues(t, 4, m.global.contexts.groups)
	text := m.global.AppendEstimate(nil)
	for _, d := range m.parts {
		require.EqualValues(t, 4, d.contexts.groups)
	}
	alike := hourly(t)
	alike.Grow(sharedItems)
	alike.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	for source := range m.parts {
		m.store[source].publish(alike, int32(source), sameNumber)
	}
	_, err := alike.TakeEstimate(text)
	require.NoError(t, err)
	give(m.parts[0], 0, 3, 1)
	for _, hour := range []int32{3, 20} {
		for i := range policy.Item(3) {
			require.Equal(t, knownAt(m.global, i, hour), knownAt(alike, i, hour))
			require.Equal(t, knownAt(m.global, i, hour), knownAt(m.parts[1], i, hour))
			mean, _ := expected(one, i, hour)
			require.InDelta(t, mean, knownAt(m.global, i, hour)[0], 0.02)
		}
	}
	require.NotEqual(t, knownAt(m.global, 0, 3), knownAt(m.parts[0], 0, 3), "its own payoff counts at once")
}

func knownAt(d *Direct, i policy.Item, segment int32) [2]float64 {
	mean, worth := expected(d, i, segment)
	return [2]float64{mean, worth}
}

// TestSilence_BelongsToTheHoursThatAreOld: of selections that are awaited in two hours, those of the older hour have nearly all silence of
// their item, and shares add up to 1. By numbers of selections each hour would have half.
func TestSilence_BelongsToTheHoursThatAreOld(t *testing.T) {
	const hour = 3_600_000
	space, err := features.New(features.Declaration{Clock: features.Clock{Hour: true}})
	require.NoError(t, err)
	d, err := NewContextual(policy.NewGreedy(), ContextualConfig{Space: space, Expires: true, Silence: Silence{Law: SilenceAges, Horizon: 40 * hour},
		Belief: policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}})
	require.NoError(t, err)
	d.Grow(1)
	require.NoError(t, d.Loaded())
	selected := func(at int64) Feedback {
		return Feedback{X: []int8{features.One}, Segment: space.At(0, at), Began: at}
	}
	d.Advance(0)
	for at := int64(0); at < 10*hour; at += hour / 10 { // every other selection is paid, three hours later
		fb := selected(at)
		d.Selected(fb)
		if fb.Age, fb.Payoff = 3*hour, 1; at/(hour/10)%2 == 0 {
			d.Paid(fb)
		}
		d.Advance(at)
	}
	d.contexts.by(len(d.contexts.choices) - 1)
	require.EqualValues(t, 24, d.contexts.groups)
	d.Advance(10 * hour)
	d.contexts.settle(d.table)
	old, young, sum := d.contexts.silentShare(0, 1), d.contexts.silentShare(0, 9), 0.0
	for within := range d.contexts.groups {
		sum += d.contexts.silentShare(0, within)
	}
	require.InDelta(t, 1, sum, 1e-12)
	require.Greater(t, old, 0.1)
	require.Less(t, young, old/4)
	require.Equal(t, d.contexts.sumsOf(1).awaited, d.contexts.sumsOf(9).awaited)
}
