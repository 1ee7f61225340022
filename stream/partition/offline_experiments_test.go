package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// After resharding, counts of ended units go on, verdicts stay, and pending units are not counted.
func TestTransfer_CarriesExperiments(t *testing.T) {
	cfg := trialConfig(t, nil)
	for i := range cfg.Learners {
		cfg.Learners[i].New = func() delay.Learner { return &tally{changed: map[policy.Item]bool{}} }
	}
	from := newWorld(t, cfg)
	at := harm(from, day)
	from.ranked("pending-1", "", at)
	from.ranked("pending-2", "", at)
	from.save()
	for _, home := range []bool{true, false} {
		to := newWorld(t, cfg)
		transfer := NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{Additive: home})
		transfer.Watermark()
		transfer.Experiments()
		for _, id := range []string{"pending-1", "pending-2"} {
			found := from.store.find(from.text(id))
			to.text(id)
			require.NoError(t, transfer.Entry(from.text(id), from.store.pages[found.Page].bucket, found.Value, Found{}))
		}
		to.save()
		to.unsaved = nil
		to.crash()
		to.worth("pending-1", 1, at)
		to.pass(at + settled)
		x := to.m.trials.all[0]
		require.True(t, x.arms[1].verdict.tripped)
		if home {
			require.Equal(t, from.m.trials.all[0].sums.totals, x.sums.totals)
		} else {
			require.Zero(t, x.sums.totals[0].N+x.sums.totals[1].N)
		}
	}
}

// An experiment that was taken out keeps its run, definition and verdicts when partitions are resharded.
func TestTransfer_CarriesExperimentsThatAreGone(t *testing.T) {
	for _, saves := range []bool{false, true} {
		from := newWorld(t, trialConfig(t, nil))
		cfg := from.cfg
		harm(from, day)
		from.cfg.Experiments = nil
		from.start()
		if saves {
			from.save()
			from.start()
		}
		to := newWorld(t, from.cfg)
		for range 2 { // givers
			NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{Additive: true}).Experiments()
		}
		to.save()
		to.cfg = trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Definition = "otherwise" })
		require.ErrorIs(t, to.tryStart(), ErrExperiment)
		to.cfg = cfg
		to.start()
		require.True(t, to.m.trials.all[0].arms[1].verdict.tripped)
	}
}

// A configuration with a lower run than the stored one is refused: its verdict would be lost.
func TestTransfer_RefusesALowerRun(t *testing.T) {
	from := newWorld(t, trialConfig(t, func(_ *ExperimentConfig, s *experiment.Settings) { s.Run = 2 }))
	harm(from, day)
	from.save()
	from.cfg = trialConfig(t, nil)
	for i := range from.cfg.Learners {
		from.cfg.Learners[i].New = func() delay.Learner { return &tally{changed: map[policy.Item]bool{}} }
	}
	from.start()
	to := newWorld(t, from.cfg)
	transfer := NewTransfer(&Offline{Machine: from.m}, &Offline{Machine: to.m}, delay.Portion{Additive: true})
	require.ErrorIs(t, transfer.Statistics(), ErrTransfer)
	require.ErrorContains(t, transfer.Statistics(), "experiments.feed.run")
}

// A reset leaves the table of arms, which entries go by, and nothing else.
func TestResetExperiment(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	w.ranked("i", "", at)
	w.save()
	var fields []state.Field
	for f, v := range w.store.fields[ExperimentsHash] {
		fields = append(fields, state.Field{Hash: ExperimentsHash, Field: []byte(f), Value: []byte(v)})
	}
	changes, arms, err := ResetExperiment(fields, "feed")
	require.NoError(t, err)
	require.Equal(t, []string{"feed"}, arms)
	w.store.apply(&changes)
	require.Equal(t, []string{armsField}, keysOf(w.store.fields[ExperimentsHash]))
	_, _, err = ResetExperiment(nil, "feed")
	require.ErrorIs(t, err, ErrNotStored)

	w.start()
	w.walkKnown()
	require.False(t, w.m.trials.all[0].arms[1].verdict.tripped)
	w.worth("i", 1, at)
	w.ranked("j", "", at+1000)
	w.pass(at + 2*settled)
	w.ranked("k", "", at+2*settled)
	w.pass(at + 4*settled)
	totals := w.m.trials.all[0].sums.totals
	require.EqualValues(t, 2, totals[0].N+totals[1].N, "units before the reset are not counted")
	require.Zero(t, totals[0].X+totals[1].X)
}

// By user all givers have the totals of all partitions: they are carried over once. An operator is shown them once, too.
func TestTransfer_CarriesExperimentsByUser(t *testing.T) {
	worlds, end, want := periodsWorld(t)
	readOthers(worlds, end+60_000)
	readOthers(worlds, end+120_000)
	cfg := worlds[0].cfg
	for i := range cfg.Learners {
		cfg.Learners[i].New = func() delay.Learner { return &tally{changed: map[policy.Item]bool{}} }
	}
	to, shown := newWorld(t, cfg), make(experiment.Totals, len(want))
	for _, from := range worlds {
		giver := &Offline{Machine: from.m}
		transfer := NewTransfer(giver, &Offline{Machine: to.m}, delay.Portion{Additive: true})
		transfer.Watermark()
		transfer.Experiments()
		shown.Add(giver.Experiments()[0].Own)
	}
	require.Equal(t, want, shown)
	require.Equal(t, want, to.m.trials.all[0].sums.totals)
	to.save()
	to.start()
	require.Equal(t, want, to.m.trials.all[0].sums.totals)
}
