package partition

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// harm has an arm pay much less than the control until its guard trips.
func harm(w *world, from event.Millis) event.Millis { return harmBy(w, from, 0, 1) }

func harmBy(w *world, from event.Millis, arm, control float64) event.Millis {
	at := from
	for i := 0; !w.m.trials.all[0].arms[1].verdict.tripped; i++ {
		require.Less(w.t, i, 40, "the guard never trips")
		for k := range 100 {
			id := fmt.Sprintf("h-%d-%d-%d", from, i, k)
			r := w.ranked(id, "", at)
			pay := arm
			if r.Decision.Assignment.Arm == "control" {
				pay = control
			}
			w.worth(id, pay, at)
		}
		at += settled
		w.pass(at)
		w.out.Reset()
	}
	return at
}

// TestExperiment_GuardOnAWideRange: the margin is a share of the control's mean payoff, which is a fiftieth of the range here.
func TestExperiment_GuardOnAWideRange(t *testing.T) {
	cfg := trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Margin = 0.5 })
	for i := range cfg.Learners {
		cfg.Learners[i].PayoffMin, cfg.Learners[i].PayoffMax = -10, 40
	}
	w := newWorld(t, cfg)
	harm(w, day)
	v := w.m.trials.all[0].arms[1].verdict
	require.Less(t, v.upper, -0.01)
	require.Greater(t, v.upper, -0.03)
}

// TestExperiment_GuardOfARangeAboveZero: the least payoff of the range is more than nothing, of which the margin is a share.
func TestExperiment_GuardOfARangeAboveZero(t *testing.T) {
	cfg := trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Margin = 0.5 })
	for i := range cfg.Learners {
		least := 10.0
		cfg.Learners[i].PayoffMin, cfg.Learners[i].PayoffMax, cfg.Learners[i].ExpiryDefault = least, 60, &least
	}
	w := newWorld(t, cfg)
	harmBy(w, day, 10, 40)
	require.Less(t, w.m.trials.all[0].arms[1].verdict.upper, -0.5*40/50)
}

// TestExperiment_GuardNeedsTheShares: by user, groups that do not fit the shares have no bounds, and impressions are not held against them.
func TestExperiment_GuardNeedsTheShares(t *testing.T) {
	for _, fit := range []bool{true, false} {
		w := newWorld(t, trialConfig(t, func(_ *ExperimentConfig, s *experiment.Settings) { s.ByUser, s.Period = true, 3_600_000 }))
		x, at := w.m.trials.all[0], event.Millis(day)
		for i := range 40 {
			for k := range 100 {
				id := fmt.Sprintf("i-%d-%d", i, k)
				pay := 0.0
				if w.ranked(id, fmt.Sprint("u-", i*100+k), at).Decision.Assignment.Arm == "control" {
					pay = 1
				}
				w.worth(id, pay, at)
			}
			if !fit {
				x.sums.totals[1].N = 1 << 20
			}
			at += 3_600_000
			w.pass(at)
			w.out.Reset()
		}
		require.Equal(t, fit, x.arms[1].verdict.tripped)
	}
}

// An arm that is certainly worse is taken out of service. The experiment's next ranking carries the verdict. From then on the control
// ranks the arm's units, and they are not counted.
func TestExperiment_GuardTakesAnArmOutOfService(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	v := w.m.trials.all[0].arms[1].verdict
	require.Less(t, v.upper, -0.02)
	said := 0
	counted := w.m.trials.all[0].sums.totals[1].N
	for i := range 50 {
		r := w.ranked(fmt.Sprint("after-", i), "", at)
		require.Equal(t, "control", string(r.Learner))
		require.Equal(t, r.Decision.Assignment.Arm == "feed", r.Decision.Assignment.Fallback)
		if r.Decision.Verdict.Arm != "" {
			said++
			require.Zero(t, i, "the first")
			require.Equal(t, event.Verdict{Run: 1, Arm: "feed", Units: v.units, Lower: v.lower, Upper: v.upper}, r.Decision.Verdict)
		}
	}
	require.Equal(t, 1, said)
	w.pass(at + settled)
	require.Equal(t, counted, w.m.trials.all[0].sums.totals[1].N)
	st := w.m.Experiments()[0].Arms[1]
	require.True(t, st.Tripped)
	require.Equal(t, experiment.Outlook{}, st.Outlook, "only the control goes on")
	require.False(t, st.OffShares)
	require.Equal(t, experiment.Worse, st.Lift.Verdict)
	require.InDelta(t, v.upper, st.Lift.Upper, 0)
	require.Positive(t, st.Fallback)

	w.crash()
	r := w.ranked("again", "", at+settled)
	require.Empty(t, r.Decision.Verdict.Arm, "recorded once, as the state knows")
	require.Equal(t, "control", string(r.Learner))
}

// The verdict is in the log before it is in the store: after a crash the next owner finds it there.
func TestExperiment_VerdictIsFoundInTheLog(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	delete(w.store.fields[ExperimentsHash], "feed"+verdictField+"feed") // a store that went back to before it was saved
	w.start()
	w.m.trials.all[0].Guarded = false // the verdict comes from the log only
	w.m.trials.all[0].arms[1].verdict = verdictOf{tripped: true, units: 7, lower: -0.5, upper: -0.25}
	w.walkKnown()
	r := w.ranked("i", "", at)
	require.NotEmpty(t, r.Decision.Verdict.Arm)
	w.crash()
	v := w.m.trials.all[0].arms[1].verdict
	require.Equal(t, verdictOf{tripped: true, said: true, changed: true, units: 7, lower: -0.5, upper: -0.25}, v)
	w.save()
	require.Equal(t, "1 1 7 -0.5 -0.25 1", w.store.fields[ExperimentsHash]["feed"+verdictField+"feed"])
}

// Behind a store that went back, the guard decides once more before the ranking with the verdict is found. The log's verdict prevails:
// other partitions and lift have read it.
func TestExperiment_TheVerdictInTheLogPrevails(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	w.save()
	said := w.ranked("i", "", at).Decision.Verdict
	require.Equal(t, "feed", said.Arm)
	w.store.fields[ExperimentsHash]["feed"+verdictField+"feed"] = "1 1 7 -0.5 -0.25 0"
	w.crash()
	w.save()
	require.Equal(t, fmt.Sprintf("1 1 %d %v %v 1", said.Units, said.Lower, said.Upper), w.store.fields[ExperimentsHash]["feed"+verdictField+"feed"])
}

// A worker dies after a ranking with the verdict, which the store has as not written yet. The next worker finds the ranking, and the one
// after that does not read it again: no second ranking carries the verdict.
func TestExperiment_AVerdictFoundInTheLogIsStoredAsWritten(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	w.save()
	require.Regexp(t, " 0$", w.store.fields[ExperimentsHash]["feed"+verdictField+"feed"])
	require.NotEmpty(t, w.ranked("i", "", at).Decision.Verdict.Arm)
	w.crash()
	w.save()
	require.Regexp(t, " 1$", w.store.fields[ExperimentsHash]["feed"+verdictField+"feed"])
	w.start()
	w.walkKnown()
	require.Empty(t, w.ranked("j", "", at).Decision.Verdict.Arm)
}

// Other partitions read a verdict and keep it, whatever is published later.
func TestExperiment_OtherPartitionsKeepAVerdict(t *testing.T) {
	cfg := trialConfig(t, nil)
	deciding := newWorld(t, cfg)
	at := harm(deciding, day)
	cfg.Partition, cfg.Partitions = 5, 6
	w := pooledWorld(t, cfg)
	w.ranked("before", "", at)
	readAll(w, 0, deciding.store.fields[ExperimentsHash])
	r := w.ranked("i", "", at)
	require.Equal(t, "feed", r.Decision.Verdict.Arm)
	require.Equal(t, "control", string(r.Learner))
	w.save()
	readAll(w, 0, map[string]string{"feed" + verdictField + "feed": "1 1 9 -0.9 -0.8 0"})
	w.start()
	w.walkKnown()
	require.Equal(t, deciding.m.trials.all[0].arms[1].verdict.units, w.m.trials.all[0].arms[1].verdict.units)
	require.Empty(t, w.ranked("j", "", at).Decision.Verdict.Arm, "recorded once by each partition")
}

// The deciding partition uses the counts of all partitions: no single one would be certain.
func TestExperiment_DecidesByAllPartitions(t *testing.T) {
	var worlds []*world
	for p := range int32(4) {
		cfg := trialConfig(t, nil)
		cfg.Partition, cfg.Partitions = p, 4
		w := pooledWorld(t, cfg)
		for k := range 60 {
			id := fmt.Sprintf("p%d-%d", p, k)
			r := w.ranked(id, "", day)
			pay := 0.2
			if r.Decision.Assignment.Arm == "control" {
				pay = 0.8
			}
			w.worth(id, pay, day)
		}
		w.pass(day + settled)
		worlds = append(worlds, w)
	}
	first := worlds[0]
	require.False(t, first.m.trials.all[0].arms[1].verdict.tripped)
	want := slices.Clone(first.m.trials.all[0].sums.totals)
	for p, w := range worlds[1:] {
		readAll(first, int32(p+1), w.store.fields[ExperimentsHash])
		want.Add(w.m.trials.all[0].sums.totals)
	}
	require.Equal(t, want, first.m.trials.all[0].sums.all())
	first.pass(day + 2*settled)
	require.True(t, first.m.trials.all[0].arms[1].verdict.tripped)
}

// An impression that a fallback ranked is no unit, also where its ranking is adopted from the log.
func TestExperiment_AdoptedFallbacksAreNoUnits(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	w.save()
	counted, fallbacks := w.m.trials.all[0].sums.totals[1].N, 0
	for i := range 50 {
		if w.ranked(fmt.Sprint("after-", i), "", at).Decision.Assignment.Fallback {
			fallbacks++
		}
	}
	require.Positive(t, fallbacks)
	w.crash()
	w.pass(at + settled)
	require.Equal(t, counted, w.m.trials.all[0].sums.totals[1].N)
}
