package lift

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// TestOutlook_IsThatOfUnits: a report's outlook is that of run-offs into which the test puts each unit, with its payoff when it came. Young units
// count, and substitutes do not.
func TestOutlook_IsThatOfUnits(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), experiment.Settings{})
		w.play(rapid.IntRange(200, 600).Draw(t, "impressions"), 0.2)
		u := NewUnits(w.options(start + event.Millis(rapid.Int64Range(0, 2*int64(horizon)).Draw(t, "as of"))))
		log := w.read(t, dir, u)
		defer log.Close()
		got, due := u.lags(u.AsOf)

		totals, parts := experiment.NewLagTotals(2), map[int32]*experiment.RunOff{}
		for _, x := range w.units {
			if parts[x.partition] == nil {
				parts[x.partition] = experiment.NewRunOff(2, int64(horizon), false)
			}
			parts[x.partition].Enter(x.arm, x.began, experiment.Unit(1, x.z))
			parts[x.partition].Pay(x.arm, x.began, x.paid, experiment.PaidOnce(x.worth, x.z, x.payoff))
		}
		for _, r := range parts {
			r.EndUpTo(u.AsOf)
			totals.Add(r)
		}
		require.Equal(t, totals, got)
		if o := u.outlook(1, got, due, u.AsOf); o.Units > 0 {
			require.Equal(t, u.Experiment.Outlook(1, totals, nil, noHistory).Units, o.Units)
			require.Positive(t, due)
			require.Equal(t, due > u.AsOf, o.From != "")
			require.NotEmpty(t, o.SoFarIs)
		}
	})
}
