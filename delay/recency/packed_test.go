package recency

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// drawRows draws rows of few or many payoffs, as conversions or any numbers, of times before and after 0.
func drawRows(t *rapid.T) (rows Rows) {
	g := Scheme(DefaultHalfLives(), 1<<40)
	began := rapid.Int64Range(-1<<44, 1<<44).Draw(t, "from")
	tick := began + rapid.Int64Range(0, 1<<42).Draw(t, "span")
	payoff := rapid.OneOf(rapid.SampledFrom([]float64{0, 1}), rapid.Float64Range(0, 1))
	for range rapid.IntRange(0, 40).Draw(t, "payoffs") {
		at := began + rapid.Int64Range(0, 1<<40).Draw(t, "after")
		rows.Count(&g, at, tick, SelectionOf(payoff.Draw(t, "payoff"), rapid.Float64Range(0, 1).Draw(t, "propensity")))
	}
	return rows
}

// Packed rows are the rows, and add up as these.
func TestPacked_IsItsRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Scheme(DefaultHalfLives(), 1<<40)
		a, b := drawRows(t), drawRows(t)
		require.Equal(t, a, Pack(a).Rows(nil))
		require.Equal(t, Pack(a.Add(b)), Pack(a).Add(Pack(b)))
		by := append(Rows(nil), a...)
		by.Merge(&g, rapid.Int64Range(-1<<44, 1<<45).Draw(t, "tick"))
		by.Count(&g, rapid.Int64Range(-1<<44, 1<<44).Draw(t, "again"), inflight.Never, SelectionOf(1, 0.5))
		want, wantOK := a.Add(b).Replace(a, by)
		got, ok := Pack(a).Add(Pack(b)).Replace(Pack(a), Pack(by))
		require.Equal(t, wantOK || len(b) == 0, ok)
		if wantOK {
			require.Equal(t, Pack(want), got)
		}
	})
}

// The largest and least numbers that are read from text are packed.
func TestPacked_Extremes(t *testing.T) {
	for _, text := range []string{"46:-4:2147483648:2305843009213693952:2305843009213693952:2199023255552000", "10:0:1:-2305843009213693952:0:0",
		"10:-60000000000:1:-1:1:1 10:60000000000:7:1073741824:1073741823:9"} {
		rows, err := words.Parse([]byte(text), ' ', ReadSelections, ErrText)
		if err != nil { // beyond the bounds of this kind of row
			require.ErrorIs(t, err, ErrText)
			continue
		}
		require.Equal(t, text, string(Pack(rows).Rows(nil).Append(nil)))
	}
	x := Rows{{Bucket: inflight.Bucket{Level: 10}, Sum: Selections{history.Payoffs{N: history.Full, R: -history.Most, Q: history.Most}, math.MaxInt64 / 4}}}
	require.Equal(t, x, Pack(x).Rows(nil))
}
