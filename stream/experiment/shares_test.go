package experiment

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// sharesOf plays an experiment with each share in turn, and reports whether lifts by share certainly differ after some cohort of the last.
func sharesOf(t *testing.T, seed uint64, lifts ...float64) (all []AtShare, ever bool) {
	var runs []RunTotals
	for k, lift := range lifts {
		share := []float64{0.1, 0.5, 0.9}[k]
		e := feed(t, Settings{Run: int32(k + 1), Arms: []Arm{{"feed", share}, {"control", 1 - share}}})
		runs = append(runs, RunTotals{e, nil})
		play(e, seed*10+uint64(k), lift, func(sum Totals) {
			runs[k].Totals = sum
			var differ bool
			if all, differ = AtShares("feed", runs); k == len(lifts)-1 {
				ever = ever || differ
			}
		})
	}
	return all, ever
}

// TestAtShares: with one lift at two shares, at most mostWrong of the runs say at some look that they differ, which happens by chance once
// in a million times. With lifts 0.4 apart all do: bounds are more than ten standard errors away from where they would meet.
func TestAtShares(t *testing.T) {
	wrong := 0
	for seed := range uint64(runs) {
		if _, ever := sharesOf(t, seed, 0.1, 0.1); ever {
			wrong++
		}
	}
	t.Logf("%d of %d runs are wrong at some look", wrong, runs)
	require.LessOrEqual(t, wrong, mostWrong)
	for seed := range uint64(20) {
		all, ever := sharesOf(t, seed, 0.2, -0.2)
		require.True(t, ever, "seed %d: %+v", seed, all)
		require.Equal(t, []float64{0.1, 0.5}, []float64{all[0].Share, all[1].Share})
	}
	all, ever := sharesOf(t, 7, 0.2, 0.2, -0.2)
	require.True(t, ever)
	require.Equal(t, [][]int32{{1}, {2}, {3}}, [][]int32{all[0].Runs, all[1].Runs, all[2].Runs})
}

// TestAtShares_ByHand: runs of one share add up, and the intervals of the j-th share are those of Bounds with α/2ʲ, however many follow. A
// run without the arm or with units that do not fit its shares is left out.
func TestAtShares_ByHand(t *testing.T) {
	arms := []Arm{{"a", 0.6}, {"b", 0.2}, {"control", 0.2}}
	e := feed(t, Settings{Arms: arms})
	totals := Totals{{N: 600, X: 300 << 20, D: 30 << 20, E: 150 << 20}, {N: 200, X: 100 << 20, E: 50 << 20}, {N: 200, X: 80 << 20, D: -20 << 20, E: 40 << 20}}
	first := func(totals Totals) Interval {
		n, s, v := e.sums(0, totals)
		return mean(s, boundOf(Alpha/2/2, e.rivals[0].arm, e.rivals[0].control).Bound(v), n) // of two rivals
	}
	lift := first(totals)
	all, differ := AtShares("a", []RunTotals{{e, totals}})
	require.False(t, differ)
	require.InDelta(t, 0.75, all[0].Share, 1e-12)
	require.Equal(t, []AtShare{{all[0].Share, []int32{1}, 800, lift.Estimate, lift.Lower, lift.Upper}}, all)
	second := feed(t, Settings{Run: 5, Arms: []Arm{{"a", 0.5}, {"control", 0.5}}})
	halves := Totals{{N: 500, X: 300 << 20, D: 30 << 20, E: 150 << 20}, {N: 500, X: 80 << 20, D: -20 << 20, E: 40 << 20}}
	two, _ := AtShares("a", []RunTotals{{e, totals}, {second, halves}})
	require.Equal(t, all[0], two[1], "an interval that was printed stays")
	n, s, v := second.sums(0, halves)
	require.InDelta(t, mean(s, boundOf(Alpha/4, 0.5, 0.5).Bound(v), n).Lower, two[0].Lower, 1e-12)

	again := feed(t, Settings{Run: 2, Arms: arms})
	both := make(Totals, 3)
	both.Add(totals)
	both.Add(totals)
	lift = first(both)
	others := feed(t, Settings{Run: 3, Arms: []Arm{{"b", 0.5}, {"control", 0.5}}})
	lost := feed(t, Settings{Run: 4, Arms: []Arm{{"a", 0.5}, {"control", 0.5}}})
	all, _ = AtShares("a", []RunTotals{{e, totals}, {again, totals}, {others, Totals{{N: 10}, {N: 10}}}, {lost, Totals{{N: 1000}, {N: 10}}}})
	require.Len(t, all, 1)
	require.InDelta(t, lift.Estimate, all[0].Lift, 1e-12)
	require.InDelta(t, lift.Lower, all[0].Lower, 1e-12)
	require.Equal(t, []int32{1, 2}, all[0].Runs)
}
