package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// moment is a time at which a payoff came.
type moment struct {
	at event.Millis
	x  float64
}

// runOffOfLog is the run-off of all logged units, each block's up to the end of others, from the test's own payoffs.
func runOffOfLog(t *testing.T, w *world, paid map[string][]moment, ends experiment.RunOffs) experiment.LagTotals {
	x := w.cfg.Experiments[0]
	all := x.NewRunOffs(w.cfg.Learners[0].PayoffHorizon)
	for _, value := range w.decided {
		var rk event.Ranking
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&rk, value))
		d := &rk.Decision
		arm, sum := x.Index(d.Assignment.Arm), 0.0
		z, group := predictionOf(rk.ID), 0
		if x.ByUser {
			var ok bool
			group, _, _, ok = experiment.ParseUnit(string(d.Assignment.Unit))
			require.True(t, ok)
			z = 0
		}
		r, _ := all.Of(group)
		r.Enter(arm, d.Began, experiment.Unit(1, z))
		for _, m := range paid[string(rk.ID)] {
			r.Pay(arm, d.Began, m.at, experiment.PaidInParts(min(sum, 1), min(sum+m.x, 1), z, true))
			sum += m.x
		}
	}
	for block, r := range all {
		r.EndUpTo(ends[block].Ended())
	}
	totals := x.NewLagTotals()
	totals.AddAll(all)
	return totals
}

// passAll walks in steps, until the buckets of all blocks have ended.
func (w *world) passAll(to event.Millis) {
	for step := range event.Millis(4) {
		w.pass(to + step*tick)
	}
}

// A partition's run-offs are those of the log's units and their payoffs, single or in parts, by impression and by user, through crashes.
func TestRunOff_IsThatOfTheLog(t *testing.T) {
	for k := range 4 {
		inParts, byUser := k&1 != 0, k&2 != 0
		t.Run(fmt.Sprint("in parts ", inParts, ", by user ", byUser), func(t *testing.T) {
			cfg := trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) {
				if x.Guarded, s.InParts, s.ByUser = false, inParts, byUser; byUser {
					s.Period = 60_000
				}
			})
			for i := range cfg.Learners {
				cfg.Learners[i].AggregateSum = inParts
			}
			const seed = 11
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			w, paid, at := newWorld(t, cfg), map[string][]moment{}, event.Millis(day)
			var waiting []string
			pay := func(id string) {
				m := moment{at, random.Float64()}
				require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: m.x}), at))
				paid[id] = append(paid[id], m)
			}
			for i := range 400 {
				at += random.Int64N(4000)
				id := fmt.Sprint("i-", i)
				w.ranked(id, fmt.Sprint("u-", random.IntN(60)), at)
				if random.IntN(4) > 0 {
					w.worth(id, -1, at)
					waiting = append(waiting, id)
				}
				if len(waiting) > 100 { // some 200 s later, or never
					for range 2 {
						if k := random.IntN(len(waiting)); inParts || len(paid[waiting[k]]) == 0 {
							pay(waiting[k])
						}
					}
					waiting = slices.Delete(waiting, 0, 1)
				}
				switch i % 50 {
				case 20:
					w.pass(at)
					got, ends := w.m.trials.all[0].sums.allLags(), w.m.trials.all[0].sums.runOffs
					require.Equal(t, runOffOfLog(t, w, paid, ends), got, "at %d", at-day)
				case 40:
					w.crash()
				}
			}
			w.passAll(at + settled + w.cfg.Experiments[0].LagHorizon(0))
			sums := &w.m.trials.all[0].sums
			require.Equal(t, runOffOfLog(t, w, paid, sums.runOffs), sums.allLags())
			lags := sums.allLags()
			units, x, want := int64(0), int64(0), int64(0)
			for _, of := range lags {
				units += of.Entered[experiment.Lags-1].N
				for _, paid := range of.Paid {
					x += paid.X
				}
			}
			require.EqualValues(t, 400, units)
			for _, of := range sums.totals {
				want += of.X
			}
			if !byUser { // the payoffs are those of the totals by deadline
				require.InDelta(t, want, x, 2*(experiment.Lags+20))
			}
			require.NotContains(t, fmt.Sprint(keysOf(w.store.fields[ExperimentsHash])), bucketField)
		})
	}
}

// The deciding partition adds up the run-offs of all, by user of each block of groups, also after it has begun again, or another has gone back.
func TestRunOff_IsPooled(t *testing.T) {
	for _, byUser := range []bool{false, true} {
		t.Run(fmt.Sprint("by user ", byUser), func(t *testing.T) { pooledRunOff(t, byUser) })
	}
}

func pooledRunOff(t *testing.T, byUser bool) {
	cfg := trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) {
		if x.Guarded, s.ByUser = false, byUser; byUser {
			s.Period = 60_000
		}
	})
	sum := func(worlds []*world) experiment.LagTotals {
		all := cfg.Experiments[0].NewLagTotals()
		for _, w := range worlds {
			all.AddAll(w.m.trials.all[0].sums.runOffs)
		}
		return all
	}
	var worlds []*world
	for p := range int32(3) {
		cfg.Partition, cfg.Partitions = p, 3
		w := pooledWorld(t, cfg)
		for k := range 50 {
			id := fmt.Sprintf("p%d-%d", p, k)
			w.ranked(id, fmt.Sprint("u-", k%7), day+event.Millis(k)*1000)
			w.worth(id, float64(k%2), day+event.Millis(k)*2000)
		}
		w.passAll(day + 300_000 + event.Millis(p)*200_000) // each at its own time
		w.save()
		worlds = append(worlds, w)
	}
	first, earlier := worlds[0], worlds[1].store.copied()
	pooled := func() {
		t.Helper()
		for p, w := range worlds[1:] {
			readAll(first, int32(p+1), w.store.fields[ExperimentsHash])
		}
		require.Equal(t, sum(worlds), first.m.trials.all[0].sums.allLags())
	}
	pooled()
	before := sum(worlds)
	first.crash()
	pooled()
	worlds[1].pass(day + 900_000)
	worlds[1].save()
	pooled()
	require.NotEqual(t, before, sum(worlds))
	worlds[1].rollBack(earlier)
	pooled()
	require.Equal(t, before, sum(worlds))
	bytes := 0
	for field, value := range first.store.fields[ExperimentsHash] {
		if strings.HasPrefix(field, "feed"+lagsField) {
			bytes += len(field) + len(value)
		}
	}
	t.Logf("%d bytes", bytes)
	require.Less(t, bytes, 2000*cfg.Experiments[0].Blocks())
}

// A checkpoint publishes few blocks, with many arms as well, and all are ended after some steps of the walk.
func TestRunOff_EndsInSlices(t *testing.T) {
	const arms, horizon, bucket = 10, 32 * 60_000, 60_000
	settings := experiment.Settings{Name: "feed", Run: 1, Control: "arm-0", ByUser: true, Period: 60_000}
	for arm := range arms {
		settings.Arms = append(settings.Arms, experiment.Arm{Name: fmt.Sprint("arm-", arm), Share: 1.0 / arms})
	}
	of, err := experiment.New(settings)
	require.NoError(t, err)
	s, atOnce := newTrialSums(of, horizon), of.NewRunOffs(horizon)
	end := event.Millis(day)
	for range 40 {
		for block, r := range atOnce {
			for arm := range arms {
				paid := experiment.Paid{K: 1 << 20, X: 1 << 50, Q: 1 << 50, U: 1 << 50, M: 1 << 50}
				for lag := range event.Millis(experiment.Lags) {
					for _, r := range []*experiment.RunOff{r, s.runOffs[block]} {
						r.Enter(arm, end, experiment.Counts{N: 1 << 20})
						r.Pay(arm, end-lag*bucket, end, paid)
					}
				}
			}
		}
		end += bucket
		atOnce.EndUpTo(end)
		for range 30 {
			s.endBuckets(end)
			var stored state.Changes
			s.seal(&stored)
			published := 0
			for _, w := range stored.Writes {
				if w.Publish {
					published += len(w.Field) + len(w.Value)
				}
			}
			require.Less(t, published, 256<<10/2)
		}
		require.Equal(t, atOnce, s.runOffs)
	}
}

// A unit that is withdrawn with partial payoffs leaves them behind: the run-off drops all units until then, and counts later ones.
func TestRunOff_BeginsAgainAfterAWithdrawal(t *testing.T) {
	of, err := experiment.New(experiment.Settings{Name: "feed", Run: 1, Control: "a", InParts: true,
		Arms: []experiment.Arm{{Name: "a", Share: 0.5}, {Name: "b", Share: 0.5}}})
	require.NoError(t, err)
	s := newTrialSums(of, 600_000)
	unit := func(began event.Millis) *entry { return &entry{began: began, payoffDeadline: began + 600_000} }
	early, late := unit(1000), unit(2000)
	for _, e := range []*entry{early, late} {
		s.enter(1, e, 1)
		s.pay(1, e, e.began+5, experiment.PaidInParts(0, 0.5, 0, true))
		e.count = 1
	}
	var stored state.Changes
	s.seal(&stored)
	require.Len(t, stored.Writes, 2, "an open bucket, and a cohort")
	s.leaveOut(1, early)
	s.pay(1, late, 3000, experiment.PaidInParts(0.5, 1, 0, true))
	next := unit(40_000)
	s.enter(0, next, 1)
	s.pay(0, next, 50_000, experiment.PaidInParts(0, 1, 0, true))
	stored = state.Changes{}
	s.seal(&stored)
	again := newTrialSums(of, 600_000)
	for _, f := range stored.Writes {
		if f.Value != nil {
			require.NoError(t, again.load(string(f.Field[len("feed"):]), string(f.Value)))
		}
	}
	for _, s := range []*trialSums{&s, &again} {
		s.endBuckets(2_000_000)
		lags := s.allLags()
		require.Zero(t, lags[1])
		require.EqualValues(t, 1, lags[0].Entered[experiment.Lags-1].N)
		require.EqualValues(t, 1<<20, lags[0].Paid[0].X)
	}
}

// A run-off begins again before its sums overflow, and its stored value is read.
func TestRunOff_BeginsAgainWhenFull(t *testing.T) {
	of, err := experiment.New(experiment.Settings{Name: "feed", Run: 1, Control: "a", Arms: []experiment.Arm{{Name: "a", Share: 0.5}, {Name: "b", Share: 0.5}}})
	require.NoError(t, err)
	s, again := newTrialSums(of, 32_000), newTrialSums(of, 32_000)
	for k := range event.Millis(5) {
		s.runOffs[0].Enter(1, k*1000, experiment.Unit(1<<31, 1))
		s.runOffs[0].Enter(1, k*1000+1000, experiment.Unit(1, 1)) // in a bucket that is open
		s.endBuckets(k*1000 + 1000)
		var stored state.Changes
		s.seal(&stored)
		for _, f := range stored.Writes {
			if f.Value != nil {
				require.NoError(t, again.load(string(f.Field[len("feed"):]), string(f.Value)))
			}
		}
		lags := s.allLags()[1]
		require.Equal(t, lags, again.allLags()[1])
		var n, z int64
		for _, e := range lags.Entered {
			n, z = n+e.N, z+e.Z
		}
		require.Less(t, n, int64(1<<32))
		require.Equal(t, n<<20, z)
	}
}

// The status compares arms before the first deadlines once the control has learned the delays of a whole horizon, and says why it cannot
// before.
func TestRunOff_ComparesBeforeTheHorizon(t *testing.T) {
	cfg := trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Guarded = false })
	of := cfg.Experiments
	cfg.Experiments = nil
	horizon := cfg.Learners[0].PayoffHorizon
	for i := range cfg.Learners {
		cfg.Learners[i].New = func() delay.Learner {
			return delay.NewDirect(policy.NewUtility(), delay.Silence{Law: delay.SilenceAges, Horizon: horizon})
		}
	}
	const seed = 3
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, cfg)
	type due struct {
		at event.Millis
		id string
	}
	var dues []due
	minute := func(from event.Millis, chance func(arm string) float64) {
		for k := range 120 {
			at, id := from+event.Millis(k)*500, fmt.Sprintf("i-%d-%d", from, k)
			r := w.ranked(id, "", at)
			w.worth(id, -1, at)
			if random.Float64() < chance(string(r.Learner)) {
				dues = append(dues, due{at + event.Millis(80_000*random.ExpFloat64()), id})
			}
		}
		slices.SortFunc(dues, func(a, b due) int { return int(a.at - b.at) })
		for len(dues) > 0 && dues[0].at < from+60_000 {
			require.NoError(t, w.read(event.Payoffs, dues[0].id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(dues[0].id), Payoff: 1}), from+60_000))
			dues = dues[1:]
		}
		w.pass(from + 60_000)
	}
	at := event.Millis(day)
	w.cfg.Learners[0].Default, w.cfg.Learners[1].Default = false, true // the control ranks alone
	w.start()
	for range 14 {
		minute(at, func(string) float64 { return 0.3 })
		at += 60_000
	}
	w.cfg.Learners[0].Default, w.cfg.Learners[1].Default, w.cfg.Experiments = true, false, of
	w.save()
	w.start()
	w.walkKnown()
	better := func(arm string) float64 {
		if arm == "feed" {
			return 0.8
		}
		return 0.3
	}
	for k := range 8 {
		minute(at, better)
		at += 60_000
		st := w.m.Experiments()[0]
		o := st.Arms[1].Outlook
		require.Zero(t, o.Due)
		if k == 0 {
			require.Equal(t, experiment.Refused, o.End.Verdict)
			continue
		}
		require.InDelta(t, day+14*60_000+horizon, st.FirstDue, float64(2*experiment.BucketWidth(horizon)))
	}
	o := w.m.Experiments()[0].Arms[1].Outlook
	require.Equal(t, experiment.Better, o.End.Verdict, "%+v", o)
	require.Equal(t, "ahead", o.Ahead())
	require.Zero(t, w.m.trials.all[0].sums.totals[1].N, "no unit has passed its deadline")
	w.m.trials.all[0].arms[0].learner.delay = &tally{}
	require.Contains(t, w.m.Experiments()[0].Arms[1].Outlook.End.Why, "silence")
	w.m.trials.all[0].arms[0].learner.delay = &returning{}
	require.Contains(t, w.m.Experiments()[0].Arms[1].Outlook.End.Why, "taken back")
}

// returning has a long history with returns.
type returning struct{ tally }

func (*returning) Status() delay.Status {
	return delay.Status{Silence: delay.SilenceStatus{Law: delay.SilenceAges, Known: true, Covers: 1 << 40, Returns: true}}
}
