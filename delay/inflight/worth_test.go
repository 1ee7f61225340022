package inflight

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sidedSpans are awaited selections of one list, by any shares of both kinds of payoffs.
func sidedSpans(t *rapid.T, least int) Intervals {
	var spans Intervals
	share := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, 1e-9}))
	for range rapid.IntRange(least, 6).Draw(t, "spans") {
		spans = append(spans, Interval{N: rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 100_000)).Draw(t, "n"),
			Above: share.Draw(t, "above"), Below: share.Draw(t, "below")})
		spans[len(spans)-1].Come = spans[len(spans)-1].Above
	}
	return spans
}

// Let there be as many selections as in the mean, at any age. Their paid part and the weights of the unpaid then come to the share
// F of a finished selection, and to that share of its worth. Payoffs below the default are the later ones.
func TestWeigh_MakesMeansRightAtAnyAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paid := rapid.Float64Range(0.001, 0.95).Draw(t, "paid")
		below := rapid.Float64Range(0, 1).Draw(t, "below")
		soon := rapid.Float64Range(0, 1).Draw(t, "share of the others that has come")
		late := rapid.Float64Range(0, soon).Draw(t, "share of those below that has come")
		const n = 1 << 40
		high, low := paid*(1-below)*soon, paid*below*late
		awaited := Intervals{{N: int64(n * (1 - high - low)), Above: soon, Below: late}}
		mix(below, []Intervals{awaited})
		w := Weigh(paid, below, awaited)
		require.InDelta(t, soon, high+low+w.Sum()/n, 1e-6, "weight")
		// With 1, −1 and a default of 0.25.
		want := soon * (paid*(1-below) - paid*below + 0.25*(1-paid))
		require.InDelta(t, want, high-low+0.25*w.Unpaid/n-w.Below/n, 1e-6, "worth")
	})
}

// Whatever has come, shares are shares, and nothing weighs less than nothing or more than a finished selection.
func TestShares_AreShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settled, ofAll := outcomes(t), outcomes(t)
		for _, o := range []*Outcomes{&settled, &ofAll} {
			o.Below = rapid.Int64Range(0, o.Paid).Draw(t, "below")
		}
		spans, others := sidedSpans(t, 0), sidedSpans(t, 0)
		c, b := Shares(ofAll, slices.Clone(spans), others)
		require.True(t, c > 0 && c < 1 && b >= 0 && b <= 1, "%v %v", c, b)
		require.Equal(t, ofAll.Below > 0, b > 0)
		ci, bi := ItemShares(c, b, settled, spans, others)
		require.True(t, ci > 0 && ci < 1 && bi >= 0 && bi <= 1, "%v %v", ci, bi)
		if b == 0 {
			require.Zero(t, bi)
			require.Equal(t, ItemShare(c, settled, spans, others), ci)
		}
		w := Weigh(ci, bi, spans, others)
		require.True(t, w.Unpaid >= 0 && w.Below >= 0 && w.Sum() <= float64(spans.Count()+others.Count())+1e-5, "%v", w)
		for _, x := range []float64{w.Unpaid, w.Below} {
			require.Equal(t, math.Trunc(x*(1<<20)), x*(1<<20), "a multiple of 2⁻²⁰")
		}
	})
}

// Of very many selections that are known to a few ages, the shares that they were made with are found: of all, and of an item.
func TestShares_AreTheLikeliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paid := rapid.Float64Range(0.01, 0.7).Draw(t, "paid")
		below := rapid.Float64Range(0.02, 0.3).Draw(t, "below") // of more, so few rounds are not enough
		const n = 1 << 44
		settled := Outcomes{Unpaid: int64(n * (1 - paid)), Paid: int64(n * paid), Below: int64(n * paid * below)}
		var spans Intervals
		for range rapid.IntRange(1, 4).Draw(t, "ages") {
			soon := rapid.Float64Range(0.1, 1).Draw(t, "above")
			late := rapid.Float64Range(soon/5, soon).Draw(t, "below")
			high, low := paid*(1-below)*soon, paid*below*late
			settled.Paid += int64(n * (high + low))
			settled.Below += int64(n * low)
			spans = append(spans, Interval{N: int64(n * (1 - high - low)), Above: soon, Below: late, Come: soon})
		}
		c, b := Shares(settled, spans)
		require.InEpsilon(t, paid, c, 0.002)
		require.InEpsilon(t, below, b, 0.005)
		c, b = ItemShares(0.3, 0.3, settled, spans)
		require.InEpsilon(t, paid, c, 0.002)
		require.InEpsilon(t, below, b, 0.005)
	})
}

// The weight of a span is a function of the stored and estimated values, not of the time of the last estimate of shares.
func TestWeigh_DoesNotGoByCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 0.99)
		x := Interval{N: rapid.Int64Range(1, 9).Draw(t, "n"), Above: share.Draw(t, "above"), Below: share.Draw(t, "below")}
		c, below := share.Draw(t, "c"), share.Draw(t, "share below")
		y := x
		mix(below, []Intervals{{x}})
		y.Come = share.Draw(t, "come")
		require.Equal(t, x.Weigh(c, below), y.Weigh(c, below))
	})
}
