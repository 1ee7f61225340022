package delay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// partsLearner is a learner of three items whose payoffs come in parts.
func partsLearner(law SilenceLaw, d float64) *Direct {
	l := NewDirect(policy.NewGreedy(), Silence{Law: law, Default: d, Horizon: lifeHorizon, InParts: true})
	l.Grow(3)
	return l
}

// A payoff that is in so far counts at once by its difference from the default, on top of the selection's weight as a default.
// Corrections count too. At the end the whole payoff replaces all of it.
func TestParts_CountAtOnce(t *testing.T) {
	for law, want := range map[SilenceLaw][2]policy.Evidence{
		// Two in flight, of which one has come to 0.75 and then to 0.125.
		SilenceWaits:  {{Open: 2}, {Open: 2}},
		SilenceAtOnce: {{W: 2, R: 1, Q: 0.625}, {W: 2, R: 0.375, Q: 0.078125}},
		SilenceAges:   {{W: 1, R: 0.75, Q: 0.5625, Open: 1}, {W: 1, R: 0.125, Q: 0.015625, Open: 1}},
	} {
		l := partsLearner(law, 0.25)
		fb := Feedback{Item: 1, Began: 1}
		l.Selected(fb)
		l.Selected(fb)
		if law == SilenceAges {
			l.flights.awaiting.worth.At(1).Unpaid = 1 // as though both were old enough for half of the payoffs
		}
		fb.Payoff = 0.75
		l.flights.replacePart(1, history.Payoffs{}, history.PayoffsOf(0.75))
		require.Equal(t, want[0], l.table.Evidence(1), "law %d", law)
		fb.InParts, fb.Before = true, 0.75
		l.flights.replacePart(1, history.PayoffsOf(0.75), history.PayoffsOf(0.125))
		require.Equal(t, want[1], l.table.Evidence(1), "law %d", law)
		fb.Before, fb.Payoff = 0.125, 0.5
		l.Paid(fb)
		l.Paid(Feedback{Item: 1, Began: 1, Payoff: 0.25, Defaulted: true})
		require.Equal(t, policy.Evidence{W: 2, R: 0.75, Q: 0.3125}, l.table.Evidence(1), "law %d", law)
		require.Zero(t, l.flights.parts.Own(1))
	}
}

// Selections weigh as much as should have come by their age, and their sums are taken for so much smaller as returns will make them.
func TestParts_WeighByAgesOfWhatComes(t *testing.T) {
	l := partsLearner(SilenceAges, 0)
	l.Advance(1 << 20)
	for range 400 { // each pays 0.8 early, of which it takes 0.2 back late
		fb := Feedback{Item: 0, Began: 1, Payoff: 0.8, Age: 5000}
		l.Selected(fb)
		l.Partial(fb)
		fb.InParts, fb.Before, fb.Payoff, fb.Age = true, 0.8, 0.6, 150_000
		l.Partial(fb)
		fb.Before = 0.6
		l.Paid(fb)
	}
	l.Advance(2 << 20)
	l.flights.awaiting.newest = 2 << 20
	l.Advance(2<<20 + l.flights.awaiting.grid.TickLength())
	fb := Feedback{Item: 1, Began: 2<<20 - 100_000, Payoff: 0.8, Age: 5000}
	l.Selected(fb)
	require.InDelta(t, 1, l.table.Evidence(1).W, 0.01, "all has come but for returns")
	require.True(t, l.Status().Silence.Returns)
	l.Partial(fb)
	require.InDelta(t, 0.6, l.table.Evidence(1).R, 0.01, "the rest will be taken back")
	require.InDelta(t, 0.36, l.table.Evidence(1).Q, 0.01)
	require.Equal(t, 400.0, l.table.Evidence(0).W)
	require.InDelta(t, 240, l.table.Evidence(0).R, 1e-9)
	require.NotContains(t, l.Hashes(), hashSettled, "nothing is silent")
}

// Whatever has been paid, and however small the selections' weights are: means lie within the range of payoffs, and weights within
// the number in flight.
func TestParts_MeansStayWithinTheRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]float64{0, 1, 0.25, 0.9}).Draw(t, "default")
		s := Silence{Law: SilenceAges, Default: d}
		var sums policy.Sums
		payoff := rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1))
		for _, r := range rapid.SliceOfN(payoff, 0, 4).Draw(t, "paid") {
			sums = sums.Add(policy.Sums{N: 1, R: r, Q: r * r})
		}
		var come history.Payoffs
		for _, r := range rapid.SliceOfN(payoff, 0, 6).Draw(t, "come") {
			come = come.Add(history.PayoffsOf(r))
		}
		n := policy.Count(come.N) + policy.Count(rapid.IntRange(0, 4).Draw(t, "more"))
		weight := float64(rapid.Int64Range(0, int64(n)<<20).Draw(t, "weight")) / (1 << 20)
		back := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1)).Draw(t, "taken back")
		of := inFlight{Worth: inflight.Worth{Unpaid: weight, Back: back}}
		e := s.begun(s.silent(sums.Evidence(), of), n, of, come)
		w, r := e.W, e.R
		awaited := e.W - float64(sums.N)
		require.True(t, awaited >= weight && awaited <= float64(n), "%+v", e)
		require.Equal(t, e.W, float64(int64(e.W*(1<<20)))/(1<<20))
		require.True(t, r >= -1e-8 && r <= w+1e-8, "sum %v of %v", r, w)
	})
}

// An impression that is pending elsewhere takes its payoff so far along, and ends there without a trace.
func TestParts_AreCarried(t *testing.T) {
	from, to := partsLearner(SilenceAges, 0), partsLearner(SilenceAges, 0)
	fb := Feedback{Item: 1, Began: 1000, Payoff: 0.7, Age: 2000}
	from.Selected(fb)
	from.Partial(fb)
	fb.InParts, fb.Before = true, 0.7
	require.NoError(t, Merge(to, from, allItems(3), Portion{Additive: true}, func(policy.Item) {}))
	to.Carry(fb, true)
	a, b := newStore(from), newStore(to)
	a.harvest()
	b.harvest()
	require.Equal(t, "1 751619277 526133494", a.hashes[hashOpen]["1"])
	require.Equal(t, a.hashes[hashOpen], b.hashes[hashOpen])
	require.Equal(t, a.hashes[hashAges]["10:0"], b.hashes[hashAges]["10:0"])
	require.Equal(t, from.table.Evidence(1), to.table.Evidence(1))
	to.Expired(fb)
	b.harvest()
	require.Empty(t, b.hashes[hashOpen])
	require.Zero(t, to.table.Evidence(1))
}
