package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// TestTrialSums_UnitsAreTotalledOnceAllOfTheirCohortHaveEnded, and only those that began in this run.
func TestTrialSums_UnitsAreTotalledOnceAllOfTheirCohortHaveEnded(t *testing.T) {
	of, err := experiment.New(experiment.Settings{Name: "feed", Run: 1, Control: "a", Arms: []experiment.Arm{{Name: "a", Share: 0.5}, {Name: "b", Share: 0.5}}})
	require.NoError(t, err)
	const horizon = 600_000
	s := newTrialSums(of, horizon)
	s.since = 1000
	for _, began := range []int64{999, 1000} {
		e := &entry{began: began, payoffDeadline: began + horizon}
		s.count(1, e, experiment.Unit(1, 0))
		s.count(1, e, experiment.Of(0.5, 0))
	}
	floor := int64(0)
	for s.walked(floor) <= 1000+horizon {
		s.closeUp(floor)
		require.Zero(t, s.totals[1].N)
		floor++
	}
	s.closeUp(floor + 10*horizon/tick)
	require.EqualValues(t, 1, s.totals[1].N)
	require.Equal(t, 0.5, s.totals[1].Mean())
	require.Zero(t, s.totals[0].N)
	s.idle = true
	require.False(t, s.counts(&entry{began: 1000}))
}

// TestTrialField_NamesAreReadBack: a field's name identifies it, and names with other numbers than its kind has are refused.
func TestTrialField_NamesAreReadBack(t *testing.T) {
	for kind, has := range trialKinds {
		for _, byUser := range []bool{false, true} {
			want := trialField{kind: kind}
			if has.numbered {
				want.n = -5
			}
			if has.inBlocks && byUser {
				want.block = 7
			}
			got, ok := parseField(want.name(byUser), byUser)
			require.True(t, ok, kind)
			require.Equal(t, want, got)
			for _, more := range []string{":", ":1"} {
				_, ok = parseField(want.name(byUser)+more, byUser)
				require.False(t, ok, "%s by user %v", want.name(byUser)+more, byUser)
			}
		}
	}
	for _, name := range []string{":cohort", ":cohort:", ":cohort:x", ":bucket:1", ":groups::1", ":lags"} {
		_, ok := parseField(name, true)
		require.False(t, ok, name)
	}
}
