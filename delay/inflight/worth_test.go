package inflight

import (
	"math"
	"math/rand/v2"
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

// Of as many selections as in the mean, at any ages, the share below the default of their payoffs so far is found. It is far from the
// final one where those are the later ones.
func TestBelowSoFar_IsOfPayoffsThatHaveCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paid := rapid.Float64Range(0.01, 0.9).Draw(t, "paid")
		below := rapid.Float64Range(0.02, 0.9).Draw(t, "below")
		const n = 1 << 40
		settled := Outcomes{Unpaid: int64(n * (1 - paid))}
		high, low := n*paid*(1-below), n*paid*below
		var spans Intervals
		for range rapid.IntRange(0, 4).Draw(t, "ages") {
			soon := rapid.Float64Range(0.1, 1).Draw(t, "above")
			late := rapid.Float64Range(0, soon).Draw(t, "below")
			come := n * paid * (1 - below) * soon
			back := n * paid * below * late
			high, low = high+come, low+back
			spans = append(spans, Interval{N: int64(n - come - back), Above: soon, Below: late})
		}
		mix(below, []Intervals{spans})
		require.InEpsilon(t, low/(low+high), BelowSoFar(paid, below, settled.Unpaid, spans), 1e-4)
	})
	require.Equal(t, 0.3, BelowSoFar(0.5, 0.3, 0))
}

// Where items are paid alike below the default, an item's few old selections must not decide the worth of its many young ones. With 40
// old ones and 400 young the error of a mean is 0.28 of it, ±6%. It is 0.74 of it
// if the share of all counts four selections in the item's. The bound is 13 standard errors above the first, and 5 below the second. A share of its own prevails after many old selections.
func TestItemShares_FewOldSelectionsDoNotDecide(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const paid, below, come, items, old, young = 0.08, 0.3, 0.8, 300, 40, 400
	const mean = paid * (1 - 2*below)
	var squares float64
	for range items {
		var settled Outcomes
		var net, soon float64
		for range old {
			switch luck := r.Float64(); {
			case luck < paid*below:
				settled, net = settled.Add(Outcomes{Paid: 1, Below: 1}), net-1
			case luck < paid:
				settled, net = settled.Add(Outcomes{Paid: 1}), net+1
			default:
				settled = settled.Add(Outcomes{Unpaid: 1})
			}
		}
		for range young {
			if r.Float64() < paid*(1-below)*come {
				soon++
			}
		}
		settled = settled.Add(Outcomes{Paid: int64(soon)})
		awaited := Intervals{{N: young - int64(soon), Above: come}}
		c, b := ItemShares(paid, below, settled, awaited)
		w := Weigh(c, b, awaited)
		off := (net+soon-w.Below)/(float64(old)+soon+w.Sum()) - mean
		squares += off * off
	}
	require.Less(t, math.Sqrt(squares/items), mean/2)

	_, b := ItemShares(paid, below, Outcomes{Unpaid: 9200, Paid: 800, Below: 640}, Intervals{})
	require.Greater(t, b, (below+0.8)/2)
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
