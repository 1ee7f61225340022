package partition

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// sameFingerprint has sets of learners that may follow each other under one name.
var sameFingerprint = [][]string{{"moss", "klucb", "egreedy"}, {"robust", "robust waits"}, {"contextual"}, {"elimination", "qpmd egreedy"}}

// reconfigure draws all settings of a learner that may change under its name. Kinds are the learners that may follow.
func reconfigure(t *rapid.T, l *LearnerConfig, kinds []string) {
	l.PayoffHorizon = rapid.SampledFrom([]int64{130_000, 600_000, 4_000_000, 5 * 86_400_000}).Draw(t, "horizon")
	l.SelectionTimeout = rapid.SampledFrom([]int64{1, 60_000, 130_000, 86_400_000}).Draw(t, "timeout")
	l.RefuseOutOfRange = rapid.Bool().Draw(t, "refuse")
	s := delay.Silence{Horizon: l.PayoffHorizon, InParts: l.AggregateSum, Law: rapid.SampledFrom([]delay.SilenceLaw{
		delay.SilenceWaits, delay.SilenceAtOnce, delay.SilenceAges}).Draw(t, "law")}
	l.ExpiryDefault = nil
	if rapid.Bool().Draw(t, "default") {
		s.Default = rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "value")
		l.ExpiryDefault = &s.Default
	}
	s.Drift = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "drift")
	l.PolicyName, l.DelayName, l.Context = rapid.SampledFrom(kinds).Draw(t, "kind"), "direct", nil
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	windows := delay.WindowsConfig{Max: 4, EstimateEvery: 20_000}
	moss, err := policy.NewMOSS(belief)
	require.NoError(t, err)
	var made func() (delay.Learner, error)
	switch l.PolicyName {
	case "moss":
		made = func() (delay.Learner, error) { return delay.NewDirect(moss, s), nil }
	case "klucb":
		made = func() (delay.Learner, error) { return delay.NewDirect(policy.NewKLUCB(), s), nil }
	case "egreedy":
		made = func() (delay.Learner, error) { return delay.NewExploringDirect(policy.NewEpsilonGreedy(), windows, s) }
	case "contextual":
		l.Context, s.Drift = grouped(t), 0
		c := delay.ContextualConfig{Space: l.Context.space, Silence: s, Belief: belief, Expires: l.ExpiryDefault != nil}
		made = func() (delay.Learner, error) { return delay.NewContextual(moss, c) }
	case "robust", "robust waits":
		p, err := policy.NewRobust(50)
		require.NoError(t, err)
		c := delay.RobustConfig{Policy: p, Belief: belief, HalfLives: []time.Duration{time.Minute, 8 * time.Minute}, Horizon: l.PayoffHorizon, Windows: windows}
		if l.PolicyName == "robust" {
			c.Silence = delay.Silence{Horizon: l.PayoffHorizon, Default: s.Default, Law: delay.SilenceAges}
		}
		made = func() (delay.Learner, error) { return delay.NewRobust(c) }
	case "elimination":
		l.DelayName, l.New = "qpmd", qpmdConfig(t).Learners[0].New
	case "qpmd egreedy":
		l.DelayName = "qpmd"
		made = func() (delay.Learner, error) { return delay.NewExploringQPMD(policy.NewEpsilonGreedy(), windows) }
	}
	if made != nil {
		l.New = func() delay.Learner {
			d, err := made()
			require.NoError(t, err)
			if a, learns := d.(interface{ LearnAttraction(nothing float64) }); learns {
				a.LearnAttraction(0)
			}
			return d
		}
	}
	l.ItemRetention, l.FindsUtilities = 0, false
	switch keeps := rapid.SampledFrom([]string{"for ever", "retention", "finds utilities"}).Draw(t, "items"); {
	case keeps == "retention" && l.DelayName == "direct":
		l.ItemRetention = max(l.PayoffHorizon, testRetention)
	case keeps == "finds utilities" && l.Context == nil:
		l.FindsUtilities = true
		findUtilities(t, l)
	}
}

// TestReconfigured: everything about a configuration changes while impressions are pending, item_retention and the learners included. The
// state always loads, and flights are those of the entries. In the end all impressions have ended, and none is stored.
func TestReconfigured(t *testing.T) {
	for range 15 { // some faults need two changes, each between certain records
		rapid.Check(t, checkReconfigured)
	}
}

func checkReconfigured(t *rapid.T) {
	cfg, run := drawConfig(t), int32(0)
	all := []LearnerConfig{cfg.Learners[0], cfg.Learners[0], cfg.Learners[0]}
	kinds := make([][]string, len(all))
	for k, name := range []string{"feed", "control", "third"} {
		all[k].Name = name
		kinds[k] = rapid.SampledFrom(sameFingerprint).Draw(t, "kinds")
		reconfigure(t, &all[k], kinds[k])
	}
	all[0].Default = true
	cfg.Learners = slices.Clone(all)
	w := newWorld(t, cfg)
	w.now = day
	load := func() {
		w.save()
		w.crash()
		w.save()
		w.checkIndex()
		w.checkFlights()
	}
	for range rapid.SampledFrom([]int{20, 100}).Draw(t, "steps") {
		switch rapid.IntRange(0, 11).Draw(t, "step") {
		default:
			topic, record := drawRecord(t, &w.cfg, w.now)
			if imp, ok := record.(*event.Impression); ok {
				imp.Learner = []byte(rapid.SampledFrom([]string{"", "feed", "control", "third"}).Draw(t, "learner"))
				drawRules(t, imp)
				imp.Context.Segment = []byte(rapid.SampledFrom([]string{"", "new", "x"}).Draw(t, "segment"))
				imp.Context.Features = []float64{rapid.Float64Range(-10, 110).Draw(t, "age")}
				imp.User = []byte(rapid.SampledFrom([]string{"", "u1", "u2"}).Draw(t, "user"))
			}
			id, value := encodeRecord(record)
			require.NoError(t, w.read(topic, id, value, w.now))
		case 4, 5:
			by := drawTime(t, "passes", 0, 150_000) + rapid.SampledFrom([]int64{0, 2 * testRetention, 0, 86_400_000}).Draw(t, "far")
			w.tick(w.now+by, [event.Inputs]bool{rapid.Bool().Draw(t, "at end"), true, true})
		case 6:
			w.walkSome(rapid.IntRange(1, 5).Draw(t, "chunk"), rapid.IntRange(1, 4).Draw(t, "chunks"))
		case 2, 7:
			w.save()
			for k := range all {
				if rapid.Bool().Draw(t, "changes") {
					reconfigure(t, &all[k], kinds[k])
				}
			}
			first := rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "first")
			w.cfg.Learners, w.cfg.Experiments = slices.Clone(all[first:rapid.IntRange(first+1, 3).Draw(t, "last")]), nil
			if l := w.cfg.Learners; len(l) > 1 && l[0].FindsUtilities == l[1].FindsUtilities && rapid.Bool().Draw(t, "experiment") {
				run++
				x, err := experiment.New(experiment.Settings{Name: l[0].Name, Run: run, Control: l[1].Name, ByUser: rapid.Bool().Draw(t, "by user"),
					Arms: []experiment.Arm{{Name: l[0].Name, Share: 0.5}, {Name: l[1].Name, Share: 0.5}}})
				require.NoError(t, err)
				w.cfg.Experiments = []ExperimentConfig{{Experiment: x, Definition: string(rune('a' + run)), Margin: 0.02, To: l[1].Name, Guarded: true}}
			}
			w.cfg.Learners[0].Default = true
			w.cfg.ParkingTime = rapid.SampledFrom([]int64{0, 60_000, 100_000}).Draw(t, "parking")
			w.cfg.Remember = rapid.SampledFrom([]int64{UntilHorizon, w.cfg.ParkingTime, 10_000_000}).Draw(t, "remember")
			w.cfg.HasSelections = w.cfg.HasSelections != (rapid.IntRange(0, 3).Draw(t, "toggles") == 0)
			load()
		}
	}
	w.save()
	w.cfg.Learners, w.cfg.Experiments = slices.Clone(all), nil
	load()
	for range 2 { // the impressions end, then their tombstones
		w.tick(w.now+30*86_400_000, [event.Inputs]bool{true, true, true})
		w.walk(5)
		w.checkFlights()
	}
	w.checkLearnerAccounts(t)
	require.Zero(t, w.m.Account().Impressions.Pending)
	require.Zero(t, w.m.Account().ParkedBytes)
	require.Empty(t, w.store.entries())
	for hash, fields := range w.store.fields {
		require.False(t, strings.HasSuffix(hash, ":"+missedHash) && len(fields) > 0, hash)
	}
	load()
}
