package delay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// turned are payoffs of four items, a second apart, in which the effect of predicted is reversed after the first half, if at all.
func turned(seed uint64, n int, turns bool) (all []Feedback) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for k := range n {
		x := []int8{features.One, int8(rng.IntN(255) - 127), int8(rng.IntN(255) - 127), 0}
		theta := 0.3
		if turns && k >= n/2 {
			theta = -theta
		}
		payoff := 0.5 + theta*float64(x[2])/features.One + 0.2*rng.NormFloat64()
		all = append(all, Feedback{Ref: int64(k), Began: int64(k) * 1000, Item: policy.Item(k % 4), Payoff: min(max(payoff, 0), 1), X: x})
	}
	return all
}

// fed is a learner that was paid, in the order given.
func fed(t require.TestingT, all []Feedback) *Direct {
	d := contextualKinds()[0].make(t).(*Direct)
	d.Grow(4)
	require.NoError(t, d.Loaded())
	for _, fb := range all {
		d.Selected(fb)
		d.Paid(fb)
		d.Advance(fb.Began)
	}
	return d
}

// of returns the effect of predicted that a learner has found.
func (d *Direct) of() float64 { return d.Coefficients()[2].Value }

// After the effect of a feature changes, only payoffs since a stored time count. Where nothing changes, all do: by chance
// they do not in less than one of e⁵ runs at each look, and the seeds are given.
func TestTurning_ForgetsWhatWasBefore(t *testing.T) {
	for seed := range uint64(5) {
		still := fed(t, turned(seed, 1200, false))
		require.EqualValues(t, contextual.Always, still.contexts.model.Since(), "seed %d", seed)
		require.InDelta(t, 0.3, still.of(), 0.08)

		d := fed(t, turned(seed, 1200, true))
		since := d.contexts.model.Since()
		require.InDelta(t, 600_000, since, 60_000, "seed %d", seed)
		require.InDelta(t, -0.3, d.of(), 0.08, "seed %d", seed)
		require.EqualValues(t, 1, d.contexts.turns)
		require.Less(t, d.contexts.model.Total.N, int64(640))
	}
}

// A change of the level or the scale of all payoffs ranks nothing otherwise, and nothing is forgotten for it.
func TestTurning_KeepsWhatOnlyMoves(t *testing.T) {
	for seed := range uint64(5) {
		all := turned(seed, 1200, false)
		for k := range all[600:] {
			all[600+k].Payoff *= 0.6
		}
		require.EqualValues(t, contextual.Always, fed(t, all).contexts.model.Since(), "seed %d", seed)
	}
}

// The state does not depend on the order of payoffs. A learner that is loaded, with fields in any order, decides as the one that stored.
func TestTurning_IsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := turned(rapid.Uint64Range(0, 99).Draw(t, "seed"), 800, true)
		d := fed(t, all)
		if d.contexts.model.Since() == contextual.Always {
			t.Skip("found later")
		}
		s := newStore(d)
		s.harvest()
		again := contextualKinds()[0].make(t).(*Direct)
		s.load(t, 4, again)
		require.NoError(t, again.Loaded())
		require.Equal(t, d.contexts.model.Since(), again.contexts.model.Since())
		require.Equal(t, d.contexts.model.Total, again.contexts.model.Total)
		about := contextOf(d, 5, 4)
		require.Equal(t, d.Explain(allItems(4), about, 1).Why, again.Explain(allItems(4), about, 1).Why)

		shuffled := slices.Clone(all)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		other := newStore(fed(t, shuffled))
		other.harvest()
		for _, hash := range []string{hashCells, hashLinear} {
			require.Equal(t, s.hashes[hash], other.hashes[hash])
		}
	})
}

// Partitions with half of the payoffs each find the same change together as one with all. A learner that reads both counts the same.
func TestTurning_OverPartitions(t *testing.T) {
	all := turned(3, 1200, true)
	one := fed(t, all)
	var halves [2][]Feedback
	for k, fb := range all {
		halves[k/4%2] = append(halves[k/4%2], fb)
	}
	pooled := contextualKinds()[0].make(t).(*Direct)
	pooled.Grow(4)
	require.NoError(t, pooled.Loaded())
	for source, half := range halves {
		d := fed(t, half)
		s := newStore(d)
		s.harvest()
		for i := range policy.Item(4) {
			pooled.SetSource(int32(source), i, d.Sums(i))
		}
		for _, hash := range []string{hashCells, hashLinear} {
			for field, value := range s.hashes[hash] {
				pooled.SetSourceField(int32(source), hash, []byte(field), []byte(value), sameNumber)
			}
		}
	}
	pooled.Advance(1_200_000)
	require.EqualValues(t, 1, pooled.contexts.turns)
	require.InDelta(t, one.contexts.model.Since(), pooled.contexts.model.Since(), 80_000)
	require.InDelta(t, one.of(), pooled.of(), 0.05)
	require.False(t, math.IsNaN(pooled.of()))
}

// A global learner that goes on from a snapshot, with the fields of its sources, makes the same estimates. The effects change after it.
func TestTurning_GoesOnFromASnapshot(t *testing.T) {
	source := contextualKinds()[0].make(t).(*Direct)
	source.Grow(4)
	s, one := newStore(source), globalOfFour(t)
	var replays []*Direct
	for k, fb := range turned(7, 1200, true) {
		source.Selected(fb)
		source.Paid(fb)
		source.Advance(fb.Began)
		if k%10 > 0 {
			continue
		}
		s.harvest()
		made := one.Estimate(readWhole(one, s))
		for _, d := range replays {
			readWhole(d, s)
			require.Equal(t, made, d.Estimate(made))
			require.Equal(t, string(one.AppendEstimate(nil)), string(d.AppendEstimate(nil)), "payoff %d", k)
		}
		if k%200 == 40 {
			d := globalOfFour(t)
			readWhole(d, s)
			_, err := d.TakeEstimate(one.AppendEstimate(nil))
			require.NoError(t, err)
			replays = append(replays, d)
		}
	}
	require.EqualValues(t, 1, one.contexts.turns)
}

// A record of epochs leaves out some that estimate nothing. A replay searches at other epochs then, with other payoffs, and may find a change
// that the recorded learner did not, as with this seed. It turns where the recorded one has turned.
func TestTurning_EpochsThatAreLeftOut(t *testing.T) {
	source, one, replay := contextualKinds()[0].make(t).(*Direct), globalOfFour(t), globalOfFour(t)
	source.Grow(4)
	s, early := newStore(source), false
	for k, fb := range turned(22, 900, true) {
		fb.Began = int64(k) * one.contexts.grid.TickLength() / 8 // several epochs a tick
		source.Selected(fb)
		source.Paid(fb)
		source.Advance(fb.Began)
		if k < 450 && k%24 > 0 || k%2 > 0 {
			continue
		}
		s.harvest()
		if made := one.Estimate(readWhole(one, s)); made&OfVariances != 0 || k%24 == 6 {
			early = readWhole(replay, s)&OfChange != 0 && made&OfChange == 0 || early
			require.Equal(t, made, replay.Estimate(made))
			require.Equal(t, one.contexts.model.Since(), replay.contexts.model.Since(), "payoff %d", k)
		}
	}
	require.True(t, early)
	require.EqualValues(t, 1, one.contexts.turns)
}

func globalOfFour(t *testing.T) *Direct {
	d := contextualKinds()[0].make(t).(*Direct)
	d.BeGlobal(func(i policy.Item) uint64 { return uint64(i) })
	d.Grow(4)
	return d
}

// readWhole has a global learner read all that its only source has stored, and returns the estimates that are due.
func readWhole(d *Direct, s *store) Estimates {
	d.BeginResync(0)
	s.publish(d, 0, sameNumber)
	d.EndResync(0, func(string, policy.Item) bool { return true })
	return d.Commit(4)
}
