package lift

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// rerun ends a run and begins the next, with another share of feed and another gain.
func (w *world) rerun(t *testing.T, run int32, share, lift float64, impressions int) {
	s := w.e.Settings
	s.Run, s.Arms = run, []experiment.Arm{{Name: "feed", Share: share}, {Name: "control", Share: 1 - share}}
	e, err := experiment.New(s)
	require.NoError(t, err)
	w.e, w.began, w.units = e, w.end+1000, nil
	w.play(impressions, lift)
}

// TestShares: the runs of a log with other shares are compared with shared learning, and only there. With one lift at both,
// the report is that of the run alone; with two the arm is refused, and both are shown. The two lifts differ by
// 0.22 payoff ranges or more, which is more than six standard errors beyond both bounds.
func TestShares(t *testing.T) {
	for _, by := range []experiment.Settings{{}, {ByUser: true, Period: 1_800_000}} {
		w := newWorld(t, 8, by)
		w.play(10_000, 0.3)
		o := w.options(w.end + 2*horizon)
		o.Shared = true
		require.Contains(t, strings.Join(w.report(t, t.TempDir(), o).Notes, "; "), "had one share each")
		second := w.e
		w.rerun(t, 3, 0.2, 0.3, 10_000)
		o = w.options(w.end + 2*horizon)
		alone := w.report(t, t.TempDir(), o)
		require.Contains(t, strings.Join(alone.Notes, "; "), "rankings of run 2 left out")
		require.Empty(t, alone.Arms[1].Shares)

		o.Shared = true
		r := w.report(t, t.TempDir(), o)
		require.Equal(t, alone.Units, r.Units)
		require.Equal(t, alone.Immature, r.Immature)
		shares := r.Arms[1].Shares
		require.Len(t, shares, 2)
		require.Equal(t, [][]int32{{3}, {2}}, [][]int32{shares[0].Runs, shares[1].Runs})
		require.InDelta(t, 0.2, shares[0].Share, 1e-9)
		require.InDelta(t, 0.6, shares[1].Share, 1e-9)
		require.Equal(t, *alone.Arms[1].Lift, shares[0].Lift)
		require.Less(t, shares[0].Lower, *alone.Arms[1].Lower, "two intervals share α")
		third := w.e
		w.e = second
		o = w.options(w.end + 2*horizon)
		o.Shared = true
		require.Equal(t, shares, w.report(t, t.TempDir(), o).Arms[1].Shares, "of whichever run the report is")
		w.e = third
		require.NotContains(t, strings.Join(r.Notes, "; "), "one share each")
		r.Arms[1].Shares, r.Notes, alone.Notes = nil, nil, nil
		require.Equal(t, alone, r)

		w.rerun(t, 4, 0.2, -0.3, 10_000)
		o = w.options(w.end + 2*horizon)
		same := w.report(t, t.TempDir(), o)
		require.NotEqual(t, "refused", same.Arms[1].Verdict, "arms that learn apart are compared within a run")
		o.Shared = true
		r = w.report(t, t.TempDir(), o)
		shares = r.Arms[1].Shares
		require.Equal(t, []int32{3, 4}, shares[0].Runs, "runs of one share count together")
		require.InDelta(t, 0, shares[0].Lift, 0.1)

		w.rerun(t, 5, 0.5, -0.3, 10_000)
		o = w.options(w.end + 2*horizon)
		o.Shared = true
		r = w.report(t, t.TempDir(), o)
		a := r.Arms[1]
		require.Len(t, a.Shares, 3)
		require.Equal(t, "refused", a.Verdict)
		require.Contains(t, a.Why, "lifts at different shares differ")
		require.Nil(t, a.Lower)
		require.Less(t, a.Shares[1].Upper, a.Shares[2].Lower, "50 % and 60 %")
		require.Error(t, r.Err(errors.New("refused")))
		require.Contains(t, a.DescribeShares()[0], "feed with 20 % of its own and the control's units (run 3 4): ")
	}
}

// TestShares_UnfitRuns: runs are left out whose units are of another kind, whose shares change, or that lack an arm. After a guard's verdict in another run, its units do not count.
func TestShares_UnfitRuns(t *testing.T) {
	w := newWorld(t, 8, experiment.Settings{})
	at := event.Millis(start)
	rank := func(id string, a event.Assignment) {
		at += 1000
		a.Experiment = "feed"
		w.rank(id, at, 0, a, event.Verdict{})
	}
	rank("unit", event.Assignment{Run: 6, Arm: "feed", Probability: 0.5, Unit: []byte("1f3")})
	rank("share-1", event.Assignment{Run: 7, Arm: "feed", Probability: 0.5})
	rank("share-2", event.Assignment{Run: 7, Arm: "feed", Probability: 0.6})
	rank("half", event.Assignment{Run: 8, Arm: "feed", Probability: 0.5})
	rank("other-control-1", event.Assignment{Run: 9, Arm: "feed", Probability: 0.5})
	rank("other-control-2", event.Assignment{Run: 9, Arm: "base", Probability: 0.5})
	w.began = at + 1000
	w.play(2000, 0.3)
	units := w.units
	w.rerun(t, 3, 0.2, 0.3, 4000)
	tripped := w.end + 1000
	w.rank("instead", tripped, 0, event.Assignment{Experiment: "feed", Run: 3, Arm: "feed", Probability: 0.2, Fallback: true}, event.Verdict{})
	counted := int64(0)
	for _, u := range w.units {
		if (u.deadline/experiment.Width(horizon)+1)*experiment.Width(horizon) <= tripped {
			counted++
		}
	}
	w.e, w.units = newWorld(t, 8, experiment.Settings{}).e, units
	o := w.options(w.end + 2*horizon)
	o.Shared = true
	r := w.report(t, t.TempDir(), o)
	notes := strings.Join(r.Notes, "; ")
	for _, want := range []string{"run 6 is left out: its units or shares", "run 7 is left out: its units or shares", "run 8 is left out: there must be two arms",
		`run 9 is left out: the control "control" is none of the arms`} {
		require.Contains(t, notes, want)
	}
	require.Positive(t, counted)
	require.Equal(t, counted, r.Arms[1].Shares[0].Units)
}
