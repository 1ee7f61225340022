package recency

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
)

// literalLevels are the levels by their definition. For each block and half-life it takes the mean surprise of all blocks, each
// weighted by the distance of its middle. The longest half-life that no shorter one contradicts gives the level.
func literalLevels(h *halves, all history.Rows[Residual], sigma float64) (of []float64, now int) {
	past := func(at int, counts func(j int) bool) (mean, worth []float64) {
		for k := range h.count() {
			var n, u float64
			for j, e := range all {
				if counts(j) {
					w := 1.0
					if k < len(h.lives) {
						w = math.Exp2(-math.Abs(float64(e.Middle()-all[at].Middle())) / float64(h.lives[k]))
					}
					n += w * float64(e.Sum.N)
					u += w * float64(e.Sum.U) / history.Units
				}
			}
			mean, worth = append(mean, u/n), append(worth, n)
		}
		return mean, worth
	}
	for at := range all {
		mean, worth := past(at, func(int) bool { return true })
		k := longest(mean, worth, 4, 3, sigma)
		of = append(of, mean[k]*worth[k]/(worth[k]+4))
	}
	last := len(all) - 1
	mean, worth := past(last, func(j int) bool { return j <= last })
	return of, longest(mean, worth, 4, 3, sigma)
}

func TestLevels_AreTheLiteralOnes(t *testing.T) {
	rng := newRand(t, 11)
	h, err := newHalves(DefaultHalfLives())
	require.NoError(t, err)
	g := Scheme(DefaultHalfLives(), 1e9)
	changed := 0
	for trial := range 30 {
		var l levels
		var rows history.Rows[Residual]
		span := int64(1) << (10 + rng.IntN(20))
		for n := range 1 + rng.IntN(100) {
			at := rng.Int64N(span)
			surprise := 0.3 * rng.NormFloat64()
			if trial%2 == 0 && at > span/2 {
				surprise++
			}
			rows.Count(&g, at, g.Tick(span), ResidualOf(surprise, 0))
			if n%10 == 0 { // the rows from before are used again
				l.estimate(&h, rows, nil, 0.3, 1)
			}
		}
		l.estimate(&h, rows, nil, 0.3, 1)
		of, now := literalLevels(&h, rows, 0.3)
		require.Equal(t, now, l.now)
		if now < h.count()-1 {
			changed++
		}
		for j, want := range of {
			require.InDelta(t, want, l.of[j].level, 2e-9)
			require.Equal(t, rows[j].Bucket, l.of[j].Bucket)
			age := rows[len(of)-1].Middle() - rows[j].Middle()
			for k := range h.count() {
				require.InDelta(t, h.weight(k, age), l.of[len(of)-1].since(&l.of[j].stamp, k), 1e-12)
			}
		}
	}
	require.NotZero(t, changed, "no level changed")
}

// Unpaid weight goes to rows within its block, all of it, wherever the block lies. Where there are payoffs, their blocks are used.
func TestLevels_WhatIsSilentIsSpread(t *testing.T) {
	rng := newRand(t, 12)
	for range 300 {
		var l levels
		var rows history.Rows[Residual]
		g, coarse := Scheme(DefaultHalfLives(), 1e9), inflight.NewScheme(1e9)
		const end = 1 << 23
		n, u := 0.0, 0.0
		for range rng.IntN(20) {
			rows.Count(&g, rng.Int64N(end), g.Tick(end), ResidualOf(0.5, 0))
			n, u = n+1, u+0.5
		}
		var spans inflight.Intervals
		for range rng.IntN(20) {
			spans.Begin(&coarse, rng.Int64N(end), coarse.Tick(end), 0)
		}
		var silent []FlightResidual
		for _, x := range spans {
			silent = append(silent, FlightResidual{x.Bucket, 0.3 * float64(x.N), -0.1 * float64(x.N)})
			n, u = n+0.3*float64(x.N), u-0.1*float64(x.N)
		}
		l.gather(rows, silent)
		for j, x := range l.merged {
			n, u = n-x.n, u-x.u
			require.True(t, j == 0 || l.merged[j-1].End() <= x.Start())
		}
		require.InDelta(t, 0, n, 1e-9)
		require.InDelta(t, 0, u, 1e-9)
		require.True(t, len(l.merged) <= 1 || l.merged[len(l.merged)-1].n >= 1)
	}
	var l levels
	l.gather(history.Rows[Residual]{{Bucket: inflight.Bucket{Level: 10, Index: 2}, Sum: Residual{2, 0}}, {Bucket: inflight.Bucket{Level: 10, Index: 5}, Sum: Residual{1, 0}}},
		[]FlightResidual{{inflight.Bucket{Level: 13, Index: 0}, 8, -4}})
	require.Equal(t, []residuals{{inflight.Bucket{Level: 10, Index: 2}, 7, -2.5}, {inflight.Bucket{Level: 10, Index: 5}, 4, -1.5}}, l.merged)
}

// Each payoff is reduced by the level of its time: the earliest one up to the start of the second, and the latest one from its start on.
func TestEstimate_EvidenceIsReducedByItsLevel(t *testing.T) {
	e, err := NewEstimate(DefaultHalfLives(), empirical)
	require.NoError(t, err)
	g := Scheme(DefaultHalfLives(), 86_400_000)
	var rows Rows
	want := 0.0
	e.levels.of = nil
	for k, level := range []float64{0.125, 0.25, 0.5} {
		start := 2 * int64(k) * g.Unit()
		e.levels.of = append(e.levels.of, common{Bucket: g.BucketOf(start, inflight.Never), level: level})
		for _, time := range []int64{start, start + g.Unit()} {
			rows.Count(&g, time, inflight.Never, SelectionOf(0.75, 1))
			want += 0.75 - level
		}
	}
	rows.Count(&g, -g.Unit(), inflight.Never, SelectionOf(0.75, 1))
	x := e.evidence(Item{Rows: rows}, &slope{})
	require.Equal(t, []float64{7, want + 0.75 - 0.125}, []float64{x.W, x.R})
}
