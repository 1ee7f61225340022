package evaluate

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/journal"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// population is a small platform, an impression a minute.
func population(seed uint64) simulate.Config {
	c := simulate.Defaults(seed)
	c.Items, c.Candidates, c.Interval, c.MaxDelay, c.Horizon = 20, 8, time.Minute, 24*time.Hour, 48*time.Hour
	return c
}

// witness notes what a target's learner decides.
type witness struct {
	delay.Learner
	orders [][]int32
}

func (w *witness) Decide(candidates []policy.Item, key policy.Key, d *delay.Decision) {
	w.Learner.Decide(candidates, key, d)
	w.orders = append(w.orders, append([]int32(nil), d.Order...))
}

func (w *world) targets(texts ...string) (all []*Target) {
	cfg := &config.Config{Learners: []config.Learner{w.learner}}
	cfg.Kafka.Topics.Selections = "selections"
	for _, text := range texts {
		t, err := ParseTarget(text, &w.learner, cfg)
		require.NoError(w.t, err)
		all = append(all, t)
	}
	return all
}

// truth is what rankings would have been worth on the impressions that were judged, to the users that there were, in the mean.
func (w *world) truth(orders [][]int32, judged func(k int) bool) float64 {
	q, err := admissible.Geometric(0.7, 20)
	require.NoError(w.t, err)
	var sum, n float64
	for k, order := range orders {
		if !judged(k) {
			continue
		}
		n++
		if !w.paid[k] { // whatever would have been selected
			continue
		}
		im := w.users.Impression(k)
		for at, p := range propensity.Of(nil, order, q.Fold(make([]float64, len(order))), w.noise) {
			sum += p * im.Means[w.byUtility(im)[order[at]]]
		}
	}
	return sum / n
}

// byUtility are the positions of candidates in increasing utility.
func (w *world) byUtility(im *simulate.Impression) []int32 {
	names, utilities, by := make([][]byte, len(im.Candidates)), make([]float64, len(im.Candidates)), make([]int32, len(im.Candidates))
	for i, c := range im.Candidates {
		names[i], utilities[i] = []byte(c.Item), c.Utility
	}
	var ws policy.Workspace
	policy.SortByUtility(by, utilities, names, &ws)
	return by
}

// TestLog_Values: what targets are said to be worth is what they would have been worth, with users who go by utility and with some who take
// anything. Bounds are 5.5 standard errors of a normal law, and seeds fixed: one of the twelve values is beyond them by chance in less than
// one draw of seeds in a million.
func TestLog_Values(t *testing.T) {
	const impressions = 12_000
	for _, noise := range []float64{0, 0.1} {
		for _, settings := range [][]config.Setting{
			{{"payoffs", "stochastic"}, {"policy", "egreedy"}},
			{{"payoffs", "stochastic"}, {"policy", "moss"}},
		} {
			w := newWorld(t, population(3), noise, append(settings, config.Setting{"payoff_horizon", "48h"})...)
			w.play(impressions)
			log := w.journal()
			texts := []string{"utility", "greedy", "moss,prior=none"}
			targets := w.targets(append(texts, Logging)...)
			var seen []*witness
			for _, target := range targets[:len(texts)] {
				made := target.new
				target.new = func() delay.Learner {
					seen = append(seen, &witness{Learner: made()})
					return seen[len(seen)-1]
				}
			}
			r, err := Log(context.Background(), log, &w.learner, targets, unit())
			require.NoError(t, err)
			require.InDelta(t, noise, r.Windows.Noise, 0.03)
			require.Greater(t, r.Log.Immature, int64(0))
			require.EqualValues(t, impressions, r.Log.Judged+r.Log.Immature+r.Log.Unselected)
			for i, got := range r.Targets {
				if got.Target == Logging {
					require.InDelta(t, *r.Log.Logged, got.DR.Value, 1e-9)
					require.Equal(t, [2]float64{1, 1}, [2]float64{got.MeanWeight, got.MaxWeight})
					continue
				}
				truth := w.truth(seen[i].orders, func(k int) bool { return log.Outcomes[k].Selected >= 0 && log.Outcomes[k].How != 0 })
				t.Logf("noise %v, %s: %s is worth %.4f, dr %.4f ± %.4f, snips %.4f, sequence [%.3f, %.3f], %.0f effective, %v", noise, w.learner.Policy, got.Target, truth,
					got.DR.Value, got.DR.Stderr, got.SNIPS.Value, got.Sequence.Lower, got.Sequence.Upper, got.EffectiveSamples, got.Reasons)
				if got.Verdict == Refused {
					require.NotEqual(t, "utility", got.Target)
					continue
				}
				require.InDelta(t, truth, got.DR.Value, 5.5*got.DR.Stderr, got.Target)
				require.True(t, got.Sequence.Lower < truth && truth < got.Sequence.Upper, "%+v", got)
			}
		}
	}
}

// TestLog_Weights: the log's own policy has weight 1 in every row, bit for bit, whatever it is.
func TestLog_Weights(t *testing.T) {
	for _, kind := range policy.Kinds {
		payoffs := "stochastic"
		if kind.IsAdversarial() {
			payoffs = "adversarial"
		}
		for _, windows := range []string{"", "{geometric: 0.7}"} {
			w := newWorld(t, population(4), 0, config.Setting{"payoffs", payoffs}, config.Setting{"policy", kind.Name}, config.Setting{"payoff_horizon", "48h"},
				config.Setting{"windows", windows}, config.Setting{"on_expiry", "{default: 0}"})
			w.play(4000)
			r, err := Log(context.Background(), w.journal(), &w.learner, w.targets(Logging), unit())
			require.NoError(t, err)
			require.Zero(t, r.Check.LoggingMaxDeviation, kind.Name)
			require.Equal(t, OK, r.Targets[0].Verdict, "%s: %v", kind.Name, r.Targets[0].Reasons)
			require.Equal(t, 1.0, r.Targets[0].MeanWeight)
		}
	}
}

// TestLog_Refusals: logs that cannot tell.
func TestLog_Refusals(t *testing.T) {
	settings := []config.Setting{{"payoffs", "stochastic"}, {"policy", "moss"}, {"payoff_horizon", "48h"}}
	judge := func(w *world, opt *Options, target string) TargetReport {
		r, err := Log(context.Background(), w.journal(), &w.learner, w.targets(target), opt)
		require.NoError(t, err)
		return r.Targets[0]
	}
	slowly := population(5)
	slowly.Interval = 10 * time.Minute
	w := newWorld(t, slowly, 0, settings...)
	w.play(900)
	require.Contains(t, judge(w, unit(), "utility").Reasons[0], "how far users look cannot be learned from")

	w = newWorld(t, population(5), 0.4, settings...)
	w.play(5000)
	require.Contains(t, judge(w, unit(), "utility").Reasons[0], "of users take anything they look at")

	w = newWorld(t, population(5), 0, append(settings, config.Setting{"on_expiry", "drop"})...)
	w.play(5000)
	require.Contains(t, judge(w, unit(), Logging).Reasons[0], "were never paid, and nothing says what that is worth; give --unpaid")
	opt := unit()
	zero := 0.0
	opt.Unpaid = &zero
	require.Equal(t, OK, judge(w, opt, Logging).Verdict)
	half := 0.5
	opt.Unpaid = &half
	low, high := judge(w, unitUnpaid(&zero), Logging), judge(w, opt, Logging)
	require.Greater(t, high.DR.Value, low.DR.Value+0.02) // one in twenty is never paid
	opt.PerImpression = true
	require.Less(t, judge(w, opt, Logging).DR.Value, high.DR.Value) // nor is one in fifty selected

	w = newWorld(t, population(5), 0, append(settings, config.Setting{"windows", "{list: [0.5, 0.5]}"})...)
	w.play(5000) // they look further than that
	require.Contains(t, judge(w, unit(), "utility").Reasons[0], "cannot be by the configured windows: nobody looks that far")
}

func unitUnpaid(x *float64) *Options {
	o := unit()
	o.Unpaid = x
	return o
}

func TestParseTarget(t *testing.T) {
	w := newWorld(t, population(1), 0, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_range", "[0, 5]"}, config.Setting{"seed", "7"})
	cfg := &config.Config{Learners: []config.Learner{w.learner}}
	cfg.Kafka.Topics.Selections = "selections"
	for text, want := range map[string]string{
		"best":              `target "best": there is no policy "best"; there are moss, `,
		"learner:other":     `target "learner:other": no learner of this name is configured, there are feed`,
		"moss,prior":        `target "moss,prior": "prior" is not of the form key=value`,
		"moss,prior=nobody": `target "moss,prior=nobody": prior: `,
		"moss,colour=red":   `target "moss,colour=red": `,
	} {
		_, err := ParseTarget(text, &w.learner, cfg)
		require.ErrorContains(t, err, want)
	}
	for _, text := range []string{"moss,prior={mean: 0.5, sd: 0.2},sigma=0.3", "learner:feed", "robust", "osmd,windows={geometric: 0.7}", "egreedy", "thompson"} {
		target, err := ParseTarget(text, &w.learner, cfg)
		require.NoError(t, err, text)
		require.Equal(t, config.Range{Min: 0, Max: 5}, target.learner.PayoffRange)
		require.EqualValues(t, 7, target.learner.Seed)
		require.NotNil(t, target.new())
	}
	target, err := ParseTarget("moss,prior={mean: 0.5, sd: 0.2},sigma=0.3", &w.learner, cfg)
	require.NoError(t, err)
	require.InDelta(t, 0.3, target.learner.Sigma, 1e-12)
	require.False(t, math.IsNaN(target.learner.Prior.Mean))
}

// BenchmarkLog is what a row of 20 candidates costs: read from files, and judged for 1 and for 4 targets.
func BenchmarkLog(b *testing.B) {
	t := &testing.T{}
	c := population(7)
	c.Items, c.Candidates = 200, 20
	w := newWorld(t, c, 0.01, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_horizon", "48h"})
	w.play(40_000)
	dir := b.TempDir()
	open := func() (all []journal.Source) {
		for topic := range event.Topic(event.Topics) {
			s, err := journal.OpenLines(topic, filepath.Join(dir, string('0'+rune(topic))))
			require.NoError(b, err)
			all = append(all, s)
		}
		return all
	}
	for topic := range event.Topic(event.Topics) {
		require.NoError(b, os.WriteFile(filepath.Join(dir, string('0'+rune(topic))), w.records[topic].Bytes(), 0o600))
	}
	read := func() *journal.Log {
		log, err := journal.Read(context.Background(), open(), &journal.Query{Learner: &w.learner, HasSelections: true, Parking: time.Hour})
		require.NoError(b, err)
		return log
	}
	perRow := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/40_000/1000, "µs/row")
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, read().Close())
		}
		perRow(b)
	})
	log := read()
	for _, targets := range [][]string{{"utility"}, {"utility", "greedy", "moss,prior=none", "thompson"}} {
		b.Run(fmt.Sprintf("%d targets", len(targets)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Log(context.Background(), log, &w.learner, w.targets(targets...), unit())
				require.NoError(b, err)
			}
			perRow(b)
		})
	}
}
