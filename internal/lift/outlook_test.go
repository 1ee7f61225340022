package lift

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// TestOutlook_IsThatOfUnits: a report's outlook is that of run-offs into which the test puts each unit, with its payoff when it came; by user
// each impression. Young units count, and substitutes do not.
func TestOutlook_IsThatOfUnits(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := experiment.Settings{ByUser: rapid.Bool().Draw(t, "by user")}
		if s.ByUser {
			s.Period = 60_000
		}
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), s)
		w.play(rapid.IntRange(200, 600).Draw(t, "impressions"), 0.2)
		u := NewUnits(w.options(start + event.Millis(rapid.Int64Range(0, 2*int64(horizon)).Draw(t, "as of"))))
		log := w.read(t, dir, u)
		defer log.Close()
		got, due := u.Lags(u.AsOf)

		totals, parts := w.e.NewLagTotals(), map[int32]experiment.RunOffs{}
		for _, x := range w.units {
			if parts[x.partition] == nil {
				parts[x.partition] = w.e.NewRunOffs(int64(horizon))
			}
			of, _ := parts[x.partition].Of(x.group)
			of.Enter(x.arm, x.began, experiment.Unit(1, x.z))
			of.Pay(x.arm, x.began, x.paid, experiment.PaidInParts(0, x.worth, x.z, x.payoff))
		}
		for _, r := range parts {
			r.EndUpTo(u.AsOf)
			totals.AddAll(r)
		}
		require.Equal(t, totals, got)
		if o := u.outlook(1, got, due, u.AsOf); o.Units > 0 {
			require.Equal(t, u.Experiment.Outlook(1, totals, nil, "").Units, o.Units)
			require.Positive(t, due)
			require.Equal(t, due > u.AsOf, o.From != "")
			require.NotEmpty(t, o.SoFarIs)
		}
	})
}

// TestOutlook_BeforeTheHorizon: a lift is known before the first deadlines once the records have a horizon of the control's payoffs. They
// may be of the experiment or outside of it. The reasons why not are the worker's.
func TestOutlook_BeforeTheHorizon(t *testing.T) {
	for _, s := range []experiment.Settings{{}, {ByUser: true, Period: 60_000}} {
		t.Run(fmt.Sprintf("by user: %t", s.ByUser), func(t *testing.T) { testBeforeTheHorizon(t, s) })
	}
}

func testBeforeTheHorizon(t *testing.T, s experiment.Settings) {
	const alone, early = 3000, 3600 // of control's own impressions; seconds of the experiment
	w := newWorld(t, 4, s)
	for k := range alone + early {
		at, id, chance := start+horizon+event.Millis(k-alone)*1000, fmt.Sprint("i-", k), 0.3
		if k < alone {
			at = start + event.Millis(k)*event.Millis(horizon)/alone
			w.rank(id, at, int32(k%3), event.Assignment{Arm: "control"}, event.Verdict{})
		} else {
			unit, of := []byte(id), event.Assignment{Experiment: "feed", Run: 2}
			if s.ByUser {
				unit = experiment.AppendUnit(nil, k%experiment.GroupCount, experiment.PeriodOf(at, s.Period), true)
				of.Unit = unit
			}
			a := w.e.Arms[w.e.Arm(unit)]
			of.Arm, of.Probability = a.Name, a.Share
			w.rank(id, at, int32(k%3), of, event.Verdict{})
			if a.Name == "feed" {
				chance = 0.7
			}
		}
		byUtility := k%20 == 0 // the control learns from it, and it is no unit
		w.selected(id, at+5, byUtility)
		if w.random.Float64() < chance {
			w.paid(id, at+5+event.Millis(w.random.Int64N(1_200_000)), 1)
		}
	}
	end := start + horizon + early*1000
	outlook := func(law delay.SilenceLaw, learned event.Millis) *Outlook {
		o := w.options(end)
		o.Unpaid, o.Silence = -1, delay.Silence{Law: law, Horizon: learned}
		return w.report(t, t.TempDir(), o).Arms[1].Outlook
	}
	o := outlook(delay.SilenceAges, horizon)
	require.Equal(t, "better", o.EndIs, "%+v", o)
	require.Zero(t, o.Due)
	require.InDelta(t, 0.4, o.End.Estimate, 0.1)
	require.Equal(t, 1.0, o.End.Upper)
	require.NotEmpty(t, o.From)
	const short = "learner control has a history of delays of less than its payoff horizon"
	require.Contains(t, outlook(delay.SilenceAges, 2*horizon).EndWhy, short, "all rankings have the former horizon")
	o = outlook(delay.SilenceWaits, horizon)
	require.Contains(t, o.EndWhy, "learner control has no history of delays: its `silence` is not `ages`")
	w.records[event.Rankings] = w.records[event.Rankings][alone/2:]
	require.Contains(t, outlook(delay.SilenceAges, horizon).EndWhy, short)
}
