package partition

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// trialConfig has the learners "feed", "control" and "third", of which the first ranks impressions that name none, and an experiment.
func trialConfig(t require.TestingT, change func(*ExperimentConfig, *experiment.Settings)) Config {
	cfg := testConfig()
	cfg.Partition, cfg.Partitions = 0, 1
	cfg.Learners[0].Default = true
	zero := 0.0
	cfg.Learners[0].ExpiryDefault = &zero
	for _, name := range []string{"control", "third"} {
		l := cfg.Learners[0]
		l.Name, l.Default = name, false
		cfg.Learners = append(cfg.Learners, l)
	}
	s := experiment.Settings{Name: "feed", Run: 1, Control: "control", Arms: []experiment.Arm{{Name: "feed", Share: 0.5}, {Name: "control", Share: 0.5}}}
	x := ExperimentConfig{Definition: "as it is", Margin: 0.02, To: "control", Guarded: true}
	if change != nil {
		change(&x, &s)
	}
	var err error
	x.Experiment, err = experiment.New(s)
	require.NoError(t, err)
	cfg.Experiments = []ExperimentConfig{x}
	return cfg
}

// predictionOf is the prediction of an impression's best candidate, hence its covariate: payoffs are from 0 to 1.
func predictionOf[ID string | []byte](id ID) float64 {
	h := fnv.New32()
	_, _ = h.Write([]byte(id))
	return float64(h.Sum32()%1000) / 1000
}

// ranked reads an impression of a user and gives its ranking.
func (w *world) ranked(id, user string, at event.Millis) (r event.Ranking) {
	imp := event.Impression{ID: []byte(id), HasUtilities: true, Candidates: []event.Candidate{{Item: []byte("a")}, {Item: []byte("b"), Utility: 1}},
		User: []byte(user), HasTime: true, Time: at,
		Context: event.Context{Candidates: []event.CandidateContext{{Predicted: math.NaN()}, {Predicted: predictionOf(id)}}}}
	offset := w.next[event.Impressions]
	w.now = max(w.now, at)
	require.NoError(w.t, w.read(event.Impressions, id, event.AppendImpression(nil, &imp), at))
	require.NoError(w.t, event.NewDecoder(event.Limits{}).Ranking(&r, w.decided[offset]))
	return r
}

// worth selects an item of an impression and pays for it.
func (w *world) worth(id string, payoff float64, at event.Millis) {
	sel := event.Selection{ID: []byte(id), Item: []byte("a")}
	require.NoError(w.t, w.read(event.Selections, id, event.AppendSelection(nil, &sel), at))
	if payoff >= 0 {
		require.NoError(w.t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: payoff}), at))
	}
}

// pass lets event time pass, and the walk come by.
func (w *world) pass(to event.Millis) {
	w.tick(to, [event.Inputs]bool{true, true, true})
	w.walk(100)
}

// settled is long enough that all that was ranked before is walked over.
const settled = 600_000 + 120_000

// Each impression is ranked by the arm that its id is given, and its payoff is that learner's; the entry keeps the arm.
func TestExperiment_ImpressionsAreRankedByTheirArm(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	x := w.cfg.Experiments[0]
	by := map[string]int{}
	for i := range 200 {
		id := fmt.Sprint("i-", i)
		r := w.ranked(id, "", day)
		a := r.Decision.Assignment
		require.Equal(t, event.Assignment{Experiment: "feed", Run: 1, Arm: x.Arms[x.Arm([]byte(id))].Name, Probability: 0.5,
			Covariate: int32(event.Millionths(predictionOf(id)))}, a)
		require.Equal(t, a.Arm, string(r.Learner))
		require.Equal(t, 1, r.Decision.Layout)
		by[a.Arm]++
		if i%3 == 0 {
			w.save()
		}
		w.worth(id, 1, day)
	}
	require.Greater(t, min(by["feed"], by["control"]), 50)
	for _, l := range w.m.Learners() {
		require.EqualValues(t, by[l.Name], l.Account.Payoffs.Applied, l.Name)
	}
	imp := event.Impression{ID: []byte("other"), Learner: []byte("third"), HasUtilities: true, Candidates: []event.Candidate{{Item: []byte("a")}}}
	offset := w.next[event.Impressions]
	require.NoError(t, w.read(event.Impressions, "other", event.AppendImpression(nil, &imp), day))
	require.NotContains(t, string(w.decided[offset]), "experiment", "a learner without an experiment")
	require.Contains(t, string(w.decided[offset]), `"layout":1`)
	st := w.m.Experiments()[0]
	require.Equal(t, []int64{int64(by["control"]), int64(by["feed"])}, []int64{st.Arms[0].Ranked, st.Arms[1].Ranked})
	require.Equal(t, 0.5, st.Arms[0].Share)
	require.InDelta(t, day+w.cfg.Learners[0].PayoffHorizon, st.Next, float64(experiment.Width(w.cfg.Learners[0].PayoffHorizon)), "the first deadline")
}

// A unit's covariate is the greatest prediction in payoff ranges, else the greatest utility, brought to 0 to 1.
func TestExperiment_Covariates(t *testing.T) {
	l := &learner{cfg: &LearnerConfig{PayoffMin: -1, PayoffMax: 3}}
	imp := event.Impression{Candidates: []event.Candidate{{}, {}, {}}}
	require.Zero(t, covariateOf(&imp, l), "nothing is known")
	imp.HasUtilities = true
	require.EqualValues(t, 500_000, covariateOf(&imp, l))
	imp.Candidates[1].Utility, imp.Candidates[2].Utility = 3, -9
	require.EqualValues(t, 875_000, covariateOf(&imp, l))
	imp.Candidates[0].Utility, imp.Candidates[1].Utility = -1, -4
	require.EqualValues(t, 250_000, covariateOf(&imp, l))
	imp.Context.Candidates = []event.CandidateContext{{Predicted: math.NaN()}, {Predicted: 0.5}, {Predicted: math.NaN()}}
	require.EqualValues(t, 375_000, covariateOf(&imp, l))
	imp.Context.Candidates[2].Predicted = math.Inf(1)
	require.EqualValues(t, 1_000_000, covariateOf(&imp, l))
}

// By user a group keeps its arm for a period; an impression without a user is ranked by the control, outside of the experiment.
func TestExperiment_ByUser(t *testing.T) {
	w := newWorld(t, trialConfig(t, func(_ *ExperimentConfig, s *experiment.Settings) { s.ByUser, s.Period = true, 3_600_000 }))
	arms := map[string]map[string]bool{}
	for i := range 600 {
		user := fmt.Sprint("u-", i%40)
		at := day + event.Millis(i)*60_000
		r := w.ranked(fmt.Sprint("i-", i), user, at)
		a := r.Decision.Assignment
		require.Equal(t, string(experiment.AppendUnit(nil, experiment.GroupOf([]byte(user)), experiment.PeriodOf(at, 3_600_000), true)), string(a.Unit))
		require.Zero(t, a.Covariate, "users may come back to an arm with other impressions")
		of := fmt.Sprint(user, " ", string(a.Unit))
		if arms[of] == nil {
			arms[of] = map[string]bool{}
		}
		arms[of][a.Arm] = true
	}
	for of, seen := range arms {
		require.Len(t, seen, 1, of)
	}
	for i := range 10 {
		r := w.ranked(fmt.Sprint("nobody-", i), "", day)
		require.Zero(t, r.Decision.Assignment)
		require.Equal(t, "control", string(r.Learner))
	}
	st := w.m.Experiments()[0]
	require.EqualValues(t, 10, st.Outside)
	require.Equal(t, (experiment.PeriodOf(day, 3_600_000)+1)*3_600_000+w.cfg.Learners[0].PayoffHorizon, st.Next,
		"the first period counts once the deadlines of all its units are past")
}

// unitsOf returns the payoffs of all logged units by cohort and arm, from the test's own payoffs.
func unitsOf(t *testing.T, w *world, paid map[string]float64) map[int64][]experiment.Counts {
	x := w.cfg.Experiments[0]
	width := experiment.Width(w.cfg.Learners[0].PayoffHorizon)
	all := map[int64][]experiment.Counts{}
	for _, value := range w.decided {
		var r event.Ranking
		require.NoError(t, event.NewDecoder(event.Limits{}).Ranking(&r, value))
		if a := r.Decision.Assignment; a.Experiment == "" || a.Fallback {
			continue
		}
		n := r.Decision.PayoffDeadline / width
		if all[n] == nil {
			all[n] = make([]experiment.Counts, len(x.Arms))
		}
		k := x.Index(r.Decision.Assignment.Arm)
		z := predictionOf(r.ID)
		all[n][k] = all[n][k].Add(experiment.Unit(1, z)).Add(experiment.Of(paid[string(r.ID)], z))
	}
	return all
}

// The machine's totals are the log's units, folded in the order of deadlines: paid, never paid, and never selected.
func TestExperiment_TotalsAreThoseOfTheLog(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Guarded = false }))
	paid, at := map[string]float64{}, event.Millis(day)
	for i := range 500 {
		at += random.Int64N(20_000)
		id := fmt.Sprint("i-", i)
		w.ranked(id, "", at)
		switch random.IntN(4) {
		case 0:
		case 1:
			w.worth(id, -1, at)
		default:
			paid[id] = random.Float64()
			w.worth(id, paid[id], at)
		}
		if i%50 == 0 {
			w.pass(at)
		}
	}
	w.pass(at + settled)
	cohorts := unitsOf(t, w, paid)
	want := make(experiment.Totals, 2)
	for _, n := range slices.Sorted(maps.Keys(cohorts)) {
		want.Fold(cohorts[n])
	}
	require.Equal(t, want, w.m.trials.all[0].sums.totals)
	require.EqualValues(t, 500, want[0].N+want[1].N)
	require.Zero(t, w.m.trials.all[0].sums.cohorts.Len())
	require.NotContains(t, strings.Join(keysOf(w.store.fields[ExperimentsHash]), " "), cohortField)
}

func keysOf(fields map[string]string) (keys []string) {
	for k := range fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// An impression that was shown in another order than its ranking is no unit.
func TestExperiment_SubstitutesAreLeftOut(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	for i := range 40 {
		id := fmt.Sprint("i-", i)
		w.ranked(id, "", day)
		if i%2 == 0 {
			sel := event.Selection{ID: []byte(id), Item: []byte("a"), ByUtility: true}
			require.NoError(t, w.read(event.Selections, id, event.AppendSelection(nil, &sel), day))
			require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1}), day))
		}
	}
	w.pass(day + settled)
	totals := w.m.trials.all[0].sums.totals
	require.EqualValues(t, 20, totals[0].N+totals[1].N)
	require.Zero(t, totals[0].X+totals[1].X)
}

// Crashes do not change the stored experiments.
func TestExperiment_CrashesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) {
			s.ByUser = rapid.Bool().Draw(t, "by user")
			s.Period = 600_000
		})
		crashing, calm := newWorld(t, cfg), newWorld(t, cfg)
		both := func(do func(w *world)) { do(crashing); do(calm) }
		at := event.Millis(day)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := fmt.Sprint("i-", i)
			at += rapid.Int64Range(0, 30_000).Draw(t, "later")
			user := rapid.SampledFrom([]string{"", "u-1", "u-2", "u-3"}).Draw(t, "user")
			both(func(w *world) { w.ranked(id, user, at) })
			if pay := rapid.SampledFrom([]float64{-2, -1, 0, 0.5, 1}).Draw(t, "payoff"); pay > -2 {
				both(func(w *world) { w.worth(id, pay, at) })
			}
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0:
				both((*world).save)
			case 1:
				crashing.crash()
			case 2:
				both(func(w *world) { w.pass(at) })
			}
		}
		both(func(w *world) { w.pass(at + settled + 600_000) })
		require.Equal(t, calm.store.fields[ExperimentsHash], crashing.store.fields[ExperimentsHash])
	})
}

// readAll has a machine read all fields that a partition has stored, as a follower would.
func readAll(w *world, source int32, fields map[string]string) {
	reader := NewPublishedReader(w.cfg.Learners, w.m.Names())
	var all []state.Field
	for f, v := range fields {
		all = append(all, state.Field{Hash: ExperimentsHash, Field: []byte(f), Value: []byte(v)})
	}
	w.cfg.Pooled.Update(source, reader.Read(source, all, func(err error) { require.NoError(w.t, err) }))
	w.cfg.Pooled.Commit()
	w.m.follow()
}

// pooledWorld is newWorld with a pooled state of its own.
func pooledWorld(t require.TestingT, cfg Config) *world {
	cfg.Names = NewNameTable()
	cfg.Pooled = NewPooledState(cfg.Learners, cfg.Names)
	return newWorld(t, cfg)
}

// A higher run starts from zero: earlier counts and verdicts are gone, and earlier units are
// not counted. A lower run counts nothing. Another experiment under the same run is refused.
func TestExperiment_Runs(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	w.ranked("of run 1", "", at)
	w.save()

	w.cfg = trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Definition = "otherwise" })
	require.ErrorIs(t, w.tryStart(), ErrExperiment)
	require.ErrorContains(t, w.tryStart(), "raise experiments.feed.run")
	var fields []state.Field
	for name, value := range w.store.fields[ExperimentsHash] {
		fields = append(fields, state.Field{Hash: ExperimentsHash, Field: []byte(name), Value: []byte(value)})
	}
	refusal, err := Unfit(nil, w.cfg.Experiments, fields)
	require.NoError(t, err)
	require.ErrorContains(t, refusal, "raise experiments.feed.run")

	before := w.store.fields[ExperimentsHash]["feed"+totalsField]
	w.cfg = trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) { x.Definition, s.Run = "otherwise", 2 })
	refusal, err = Unfit(nil, w.cfg.Experiments, fields)
	require.NoError(t, errors.Join(refusal, err))
	w.start()
	w.walkKnown()
	require.False(t, w.m.trials.all[0].arms[1].verdict.tripped)
	r := w.ranked("of run 2", "", at)
	require.EqualValues(t, 2, r.Decision.Assignment.Run)
	w.pass(at + settled)
	totals := w.m.trials.all[0].sums.totals
	require.EqualValues(t, 1, totals[0].N+totals[1].N)
	require.NotEqual(t, before, w.store.fields[ExperimentsHash]["feed"+totalsField])

	stored := fmt.Sprint(w.store.fields[ExperimentsHash])
	w.cfg = trialConfig(t, nil)
	w.start()
	w.walkKnown()
	r = w.ranked("of run 1 again", "", at+settled)
	require.EqualValues(t, 1, r.Decision.Assignment.Run)
	w.pass(at + 2*settled)
	require.Equal(t, stored, fmt.Sprint(w.store.fields[ExperimentsHash]), "a worker with an earlier configuration leaves it alone")
}

// Impressions that a lower run assigns are units of that run, not of the first arm in the table: back at the stored run they do not count.
func TestExperiment_UnitsOfALowerRun(t *testing.T) {
	later := trialConfig(t, func(_ *ExperimentConfig, s *experiment.Settings) { s.Run = 2 })
	w := newWorld(t, later)
	w.ranked("of run 2", "", day)
	w.save()
	for _, cfg := range []Config{trialConfig(t, nil), later} {
		w.cfg = cfg
		w.start()
		w.walkKnown()
		if cfg.Experiments[0].Run == 1 {
			for i := range 20 {
				w.ranked(fmt.Sprint("i-", i), "", day)
			}
			w.save()
		}
	}
	for i := range 20 {
		w.worth(fmt.Sprint("i-", i), 1, day)
	}
	w.pass(day + settled)
	totals := w.m.trials.all[0].sums.totals
	require.EqualValues(t, 1, totals[0].N+totals[1].N)
	require.Zero(t, totals[0].X+totals[1].X)
}

// An experiment that is not configured any more leaves nothing but its verdicts and its definition; entries keep their arms. Back again it
// is refused with another definition, and counts units from then on.
func TestExperiment_Gone(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	at := harm(w, day)
	w.ranked("i", "", at)
	w.save()
	cfg := w.cfg
	w.cfg.Experiments = nil
	w.start()
	w.walkKnown()
	w.worth("i", 1, at)
	w.save()
	require.Equal(t, []string{armsField, "feed" + runField, "feed" + verdictField + "feed"}, keysOf(w.store.fields[ExperimentsHash]))
	w.start()
	w.save()
	w.cfg = trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) {
		x.Definition, s.Control, x.To = "otherwise", "feed", "feed"
	})
	require.ErrorIs(t, w.tryStart(), ErrExperiment)
	w.cfg = cfg
	for range 2 {
		w.start()
		require.True(t, w.m.trials.all[0].arms[1].verdict.tripped)
		require.Equal(t, at+1, w.m.trials.all[0].sums.since)
		w.save()
	}
}

// An experiment under a lower run than that of one that was taken out would count nothing: it is refused.
func TestExperiment_LowerRunThanOneGone(t *testing.T) {
	w := newWorld(t, trialConfig(t, func(_ *ExperimentConfig, s *experiment.Settings) { s.Run = 2 }))
	w.save()
	w.cfg.Experiments = nil
	w.start()
	w.save()
	w.cfg = trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) { x.Definition = "otherwise" })
	require.ErrorIs(t, w.tryStart(), ErrExperiment)
	require.ErrorContains(t, w.tryStart(), "raise experiments.feed.run above it")
	w.cfg = trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) { x.Definition, s.Run = "otherwise", 3 })
	w.start()
	w.walkKnown()
	harm(w, day)
}

// Units from before an experiment came back, was reset or was resharded do not count, also where event time lags behind their beginning.
func TestExperiment_UnitsFromBefore(t *testing.T) {
	for name, change := range map[string]func(w *world) *world{
		"left out": func(w *world) *world {
			left := w.cfg.Experiments
			w.cfg.Experiments = nil
			w.start()
			w.save()
			w.cfg.Experiments = left
			return w
		},
		"adopted without it": func(w *world) *world {
			w.store.fields[ExperimentsHash] = map[string]string{armsField: w.store.fields[ExperimentsHash][armsField]}
			return w
		},
		"resharded": func(w *world) *world {
			to := newWorld(t, w.cfg)
			transfer := NewTransfer(&Offline{Machine: w.m}, &Offline{Machine: to.m}, delay.Portion{Additive: true})
			transfer.Watermark()
			transfer.Experiments()
			for n, page := range w.store.pages {
				for id, value := range page.entries {
					to.store.texts[id] = w.store.texts[id]
					require.NoError(t, transfer.Entry(id, w.store.pages[n].bucket, []byte(value), Found{}))
				}
			}
			to.save()
			return to
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, trialConfig(t, nil))
			w.tick(day, [event.Inputs]bool{true, true, true})
			at := event.Millis(day + 60_000) // selections and payoffs are not read as far
			for i := range 20 {
				w.ranked(fmt.Sprint("i-", i), "", at)
			}
			w.save()
			w = change(w)
			for range 2 {
				w.start()
				w.walkKnown()
				w.save()
			}
			for i := range 20 {
				sel := event.Selection{ID: []byte(fmt.Sprint("i-", i)), Item: []byte("a"), ByUtility: true}
				if w.now = at; i%2 == 0 {
					require.NoError(t, w.read(event.Selections, string(sel.ID), event.AppendSelection(nil, &sel), at))
				} else {
					w.worth(string(sel.ID), 1, at)
				}
			}
			w.ranked("new", "", at)
			w.pass(at + settled)
			require.EqualValues(t, 20, w.m.Account().Selections.Joined)
			totals := w.m.trials.all[0].sums.totals
			require.EqualValues(t, 1, totals[0].N+totals[1].N)
			require.Zero(t, totals[0].X+totals[1].X)
		})
	}
}

// An experiment comes back before a reshard and behind it: each number of an arm keeps a name of its own, by which the table is read again.
func TestExperiment_BackBeforeAndBehindAReshard(t *testing.T) {
	w := newWorld(t, trialConfig(t, nil))
	back := func() {
		left := w.cfg.Experiments
		w.cfg.Experiments = nil
		w.start()
		w.walkKnown()
		w.save()
		w.cfg.Experiments = left
		w.start()
		w.walkKnown()
		w.save()
	}
	rank := func(of string) {
		for i := range 20 {
			w.ranked(fmt.Sprint(of, i), "", day)
		}
		w.save()
	}
	rank("first ")
	back()
	to := newWorld(t, w.cfg)
	transfer := NewTransfer(&Offline{Machine: w.m}, &Offline{Machine: to.m}, delay.Portion{Additive: true})
	transfer.Experiments()
	for _, page := range w.store.pages {
		for id, value := range page.entries {
			to.store.texts[id] = w.store.texts[id]
			require.NoError(t, transfer.Entry(id, page.bucket, []byte(value), Found{}))
		}
	}
	to.save()
	w = to
	back()
	rank("second ")
	names := w.m.trials.arms.all
	w.start()
	w.walkKnown()
	require.Equal(t, names, w.m.trials.arms.all)
	for i := range 20 {
		w.worth(fmt.Sprint("second ", i), 1, day)
	}
}

// sharedConfig is an experiment whose arms decide by the control's statistics, with a shadow on half of the impressions.
func sharedConfig(t require.TestingT) Config {
	cfg := trialConfig(t, func(x *ExperimentConfig, _ *experiment.Settings) {
		x.Shared, x.Guarded = true, false
		x.Policies = []policy.Policy{policy.NewGreedy(), policy.NewUtility()} // by name: control, feed
		x.Shadows = []ShadowConfig{{Name: "third", Share: 0.5, Policy: policy.NewUtility()}}
	})
	for i := range cfg.Learners {
		cfg.Learners[i].New = func() delay.Learner { return delay.NewDirect(policy.NewGreedy(), delay.Silence{}) }
		cfg.Learners[i].PolicyName = []string{"utility", "greedy", "utility"}[i]
	}
	return cfg
}

// Under shared learning the control is fed everything, whichever arm ranked,
// and arms rank by its statistics. The shadow logs its ranking, on its share.
func TestExperiment_SharedLearning(t *testing.T) {
	w := newWorld(t, sharedConfig(t))
	shadowed, units := 0, 400
	for i := range units {
		id := fmt.Sprint("i-", i)
		r := w.ranked(id, "", day)
		require.Equal(t, r.Decision.Assignment.Arm, string(r.Learner))
		order := []string{string(r.Items[0]), string(r.Items[1])}
		if i > 50 { // item a is the only one that pays; b is the favourite
			want := map[string][]string{"control": {"a", "b"}, "feed": {"b", "a"}}[r.Decision.Assignment.Arm]
			require.Equal(t, want, order, "greedy knows what all have learned, and utility does not look at it")
		}
		require.Equal(t, map[string]string{"control": "greedy", "feed": "utility"}[string(r.Learner)], r.Decision.Policy)
		if len(r.Decision.Shadows) > 0 {
			shadowed++
			require.Equal(t, "third", r.Decision.Shadows[0].Name)
			require.Equal(t, "b", string(r.Items[r.Decision.Shadows[0].Order[0]]), "the shadow ranks by utility")
		}
		item, payoff := "a", 1.0
		if i%2 == 0 {
			item, payoff = "b", 0
		}
		sel := event.Selection{ID: []byte(id), Item: []byte(item)}
		require.NoError(t, w.read(event.Selections, id, event.AppendSelection(nil, &sel), day))
		require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: payoff}), day))
		if i%97 == 0 {
			w.crash() // adopts the logged decisions
		}
		if i%31 == 0 {
			w.save()
		}
	}
	// Of 400 draws of a half none but 1 in 10^7 is farther than 107 from 200.
	require.InDelta(t, units/2, shadowed, 107)
	for _, l := range w.m.Learners() {
		want := int64(0)
		if l.Name == "control" {
			want = int64(units)
		}
		require.Equal(t, want, l.Account.Payoffs.Applied, l.Name)
	}
	w.pass(day + settled)
	totals := w.m.trials.all[0].sums.totals
	require.EqualValues(t, units, totals[0].N+totals[1].N)
}

// Neither arms nor shadows can read a learner that does not let them.
func TestExperiment_SharedNeedsAReadableControl(t *testing.T) {
	cfg := sharedConfig(t)
	for i := range cfg.Learners {
		cfg.Learners[i].New = func() delay.Learner { return &tally{changed: map[policy.Item]bool{}} }
	}
	_, err := New(cfg)
	require.ErrorIs(t, err, errConfig)
}
