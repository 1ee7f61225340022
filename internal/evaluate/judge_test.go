package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// population is a small platform, an impression a minute.
func population(seed uint64) simulate.Config {
	c := simulate.Defaults(seed)
	c.Items, c.Candidates, c.Interval, c.MaxDelay, c.Horizon = 20, 8, time.Minute, 24*time.Hour, 48*time.Hour
	return c
}

// played is a world in which so many impressions were played, and its log.
func played(t testing.TB, c simulate.Config, noise float64, impressions int, settings ...config.Setting) (*syntheticlog.World, *joinedlog.Log) {
	w, err := syntheticlog.New(c, noise, settings...)
	require.NoError(t, err)
	require.NoError(t, w.Play(impressions, 9))
	log, err := w.Journal(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return w, log
}

func targets(t testing.TB, w *syntheticlog.World, texts ...string) (all []*Target) {
	cfg := &config.Config{Learners: []config.Learner{w.Learner}}
	cfg.Kafka.Topics.Selections = "selections"
	for _, text := range texts {
		target, err := ParseTarget(text, &w.Learner, cfg)
		require.NoError(t, err)
		all = append(all, target)
	}
	return all
}

// TestLog_Refusals: logs without enough evidence.
func TestLog_Refusals(t *testing.T) {
	settings := []config.Setting{{"payoffs", "stochastic"}, {"policy", "moss"}, {"payoff_horizon", "48h"}}
	judge := func(c simulate.Config, noise float64, impressions int, target string, more ...config.Setting) TargetReport {
		w, log := played(t, c, noise, impressions, append(settings, more...)...)
		return judged(t, w, log, target).Targets[0]
	}
	slowly := population(5)
	slowly.Interval = 10 * time.Minute
	require.Contains(t, judge(slowly, 0, 900, "utility").Reasons[0], "attention windows cannot be estimated from")
	require.Contains(t, judge(population(5), 0.4, 5000, "utility").Reasons[0], "of users take anything they look at")

	w, log := played(t, population(5), 0, 5000, append(settings, config.Setting{"on_expiry", "drop"})...)
	require.Contains(t, judged(t, w, log, Logging).Targets[0].Reasons[0], "never paid, without a known payoff; set --unpaid")
	zero, half := 0.0, 0.5
	w.Learner.OnExpiry.Default = &zero
	low := judged(t, w, log, Logging).Targets[0]
	require.Equal(t, OK, low.Verdict)
	w.Learner.OnExpiry.Default = &half
	high := judged(t, w, log, Logging).Targets[0]
	require.Greater(t, high.DR.Value, low.DR.Value+0.02) // one in twenty is never paid

	w.Learner.PayoffRange.Max = 0.5
	r := judged(t, w, log, Logging)
	require.Contains(t, r.Notes[len(r.Notes)-1], "payoffs outside [0, 0.5] counted as its nearer end")

	// They look further than that.
	short := judge(population(5), 0, 5000, "utility", config.Setting{"windows", "{list: [0.5, 0.5]}"})
	require.Contains(t, short.Reasons[0], "outside the configured windows, which no user can make")

	w, err := syntheticlog.New(population(5), 0, append(settings, config.Setting{"policy", "egreedy"})...)
	require.NoError(t, err)
	require.NoError(t, w.Play(5000, 9))
	rankings := &w.Records[event.Rankings]
	certain := regexp.MustCompile(`"propensities":\[[^]]*]`).ReplaceAll(rankings.Bytes(), []byte(`"propensities":[1,0,0,0,0,0,0,0]`))
	rankings.Reset()
	rankings.Write(certain)
	log, err = w.Journal(context.Background())
	require.NoError(t, err)
	defer log.Close()
	require.Contains(t, judged(t, w, log, "utility").Targets[0].Reasons[0], "with a recorded propensity of 0, which no user can make")

	w, log = played(t, population(5), 0, 100, settings...)
	opt := unit()
	opt.PerImpression = true
	w.Learner.SelectionTimeout = 0
	_, err = Log(context.Background(), log, &w.Learner, targets(t, w, "utility"), opt)
	require.ErrorContains(t, err, "--per impression needs a selections topic")
}

// judged evaluates targets on a log.
func judged(t testing.TB, w *syntheticlog.World, log *joinedlog.Log, names ...string) *Report {
	r, err := Log(context.Background(), log, &w.Learner, targets(t, w, names...), unit())
	require.NoError(t, err)
	return r
}

func TestParseTarget(t *testing.T) {
	w, err := syntheticlog.New(population(1), 0, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_range", "[0, 5]"}, config.Setting{"seed", "7"})
	require.NoError(t, err)
	cfg := &config.Config{Learners: []config.Learner{w.Learner}}
	cfg.Kafka.Topics.Selections = "selections"
	for text, want := range map[string]string{
		"best":              `target "best": there is no policy "best"; there are moss, `,
		"learner:other":     `target "learner:other": no learner of this name is configured, there are feed`,
		"moss,prior":        `target "moss,prior": "prior" is not of the form key=value`,
		"moss,prior=nobody": `target "moss,prior=nobody": prior: `,
		"moss,colour=red":   `target "moss,colour=red": `,
	} {
		_, err := ParseTarget(text, &w.Learner, cfg)
		require.ErrorContains(t, err, want)
	}
	for _, text := range []string{"moss,prior={mean: 0.5, sd: 0.2},sigma=0.3", "learner:feed", "robust", "osmd,windows={geometric: 0.7}", "egreedy", "thompson"} {
		target, err := ParseTarget(text, &w.Learner, cfg)
		require.NoError(t, err, text)
		require.Equal(t, config.Range{Min: 0, Max: 5}, target.learner.PayoffRange)
		require.EqualValues(t, 7, target.learner.Seed)
		require.NotNil(t, target.new())
	}
	target, err := ParseTarget("moss,prior={mean: 0.5, sd: 0.2},sigma=0.3", &w.Learner, cfg)
	require.NoError(t, err)
	require.InDelta(t, 0.3, target.learner.Sigma, 1e-12)
	require.False(t, math.IsNaN(target.learner.Prior.Mean))
}

// BenchmarkLog measures the cost of a row of 20 candidates: read from files, and evaluated for 1 and for 4 targets.
func BenchmarkLog(b *testing.B) {
	c := population(7)
	c.Items, c.Candidates = 200, 20
	w, log := played(b, c, 0.01, 40_000, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_horizon", "48h"})
	perRow := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/40_000/1000, "µs/row")
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			again, err := w.Journal(context.Background())
			require.NoError(b, err)
			require.NoError(b, again.Close())
		}
		perRow(b)
	})
	for _, names := range [][]string{{"utility"}, {"utility", "greedy", "moss,prior=none", "thompson"}} {
		b.Run(fmt.Sprintf("%d targets", len(names)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Log(context.Background(), log, &w.Learner, targets(b, w, names...), unit())
				require.NoError(b, err)
			}
			perRow(b)
		})
	}
}

// TestLog_Shadow: a shadow is evaluated by its recorded rankings, on the impressions that it decided.
func TestLog_Shadow(t *testing.T) {
	w, err := syntheticlog.New(population(6), 0, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_horizon", "48h"})
	require.NoError(t, err)
	require.NoError(t, w.Play(6000, 9))
	// On each third impression a shadow would have ranked by utility.
	var changed bytes.Buffer
	for k, line := range strings.Split(strings.TrimSpace(w.Records[event.Rankings].String()), "\n") {
		if k%3 == 0 {
			var r struct{ Items []string }
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			im := w.Users.Impression(k)
			by := syntheticlog.ByUtility(im)
			var positions []string
			for rank := len(by) - 1; rank >= 0; rank-- {
				positions = append(positions, fmt.Sprint(slices.Index(r.Items, im.Candidates[by[rank]].Item)))
			}
			line = strings.TrimSuffix(line, "}}") + `,"shadows":{"dark":[` + strings.Join(positions, ",") + `]}}}`
		}
		fmt.Fprintln(&changed, line)
	}
	w.Records[event.Rankings] = changed
	log, err := w.Journal(context.Background(), "dark")
	require.NoError(t, err)
	defer log.Close()
	seen := map[string][]int32{}
	opt := unit()
	opt.Plan = 0.5
	opt.Decided = func(target string, row int32, order []int32) {
		seen[target] = append(seen[target], row)
		for k, rank := range order {
			require.EqualValues(t, len(order)-1-k, rank)
		}
	}
	r, err := Log(context.Background(), log, &w.Learner, targets(t, w, "shadow:dark"), opt)
	require.NoError(t, err)
	require.Len(t, seen["shadow:dark"], 2000)
	require.EqualValues(t, 3, seen["shadow:dark"][1])
	require.Equal(t, OK, r.Targets[0].Verdict, r.Targets[0].Reasons)
	all, err := Log(context.Background(), log, &w.Learner, targets(t, w, "utility"), unit())
	require.NoError(t, err)
	require.InDelta(t, all.Targets[0].DR.Value, r.Targets[0].DR.Value, 5*r.Targets[0].DR.Stderr)
	require.GreaterOrEqual(t, r.Targets[0].Plan.OneLook.Impressions, r.Log.Records-r.Log.Immature, "no plan is shorter than its log")

	// Per impression its value is of the impressions that it decided, too.
	opt = unit()
	opt.PerImpression = true
	perImpression, err := Log(context.Background(), log, &w.Learner, targets(t, w, "shadow:dark", "utility"), opt)
	require.NoError(t, err)
	shadow, utility := perImpression.Targets[0], perImpression.Targets[1]
	require.Equal(t, OK, shadow.Verdict, shadow.Reasons)
	require.InDelta(t, utility.PerImpression.Value, shadow.PerImpression.Value, 5*shadow.PerImpression.Stderr)
	require.Greater(t, 2*shadow.PerImpression.Value, utility.PerImpression.Value)
}

// unselecting keeps the rows without a selection that its learner receives, and the order of their candidates as shown.
type unselecting struct {
	delay.Learner
	shown map[int64][]policy.Item // by row; nil: not received
}

func (u *unselecting) Unselected(fb delay.Feedback) {
	u.shown[fb.Ref] = nil
	for _, rank := range fb.Order {
		u.shown[fb.Ref] = append(u.shown[fb.Ref], fb.Candidates[rank])
	}
	u.Learner.Unselected(fb)
}

// TestLog_Unselected: a target that maximises payoff per impression learns the order that was shown of an impression without a selection.
// Without a selections topic nobody is known not to have selected.
func TestLog_Unselected(t *testing.T) {
	c := population(8)
	c.Unselected = 0.3
	w, log := played(t, c, 0, 600, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_horizon", "48h"})
	shown, none := map[int64][]policy.Item{}, map[int64][]policy.Item{}
	decided := map[int32][]policy.Item{}
	require.NoError(t, log.Play(func(e *joinedlog.Event) error {
		switch e.Kind {
		case joinedlog.Decided:
			for _, rank := range e.Order {
				decided[e.Row] = append(decided[e.Row], e.Items[rank])
			}
		case joinedlog.NotSelected:
			shown[int64(e.Row)], none[int64(e.Row)] = decided[e.Row], nil
		}
		return nil
	}))
	require.Greater(t, len(shown), 100)

	run := func(l config.Learner) (map[int64][]policy.Item, delay.Status) {
		target := targets(t, w, "moss")[0]
		u := &unselecting{Learner: target.new(), shown: map[int64][]policy.Item{}}
		target.new = func() delay.Learner { return u }
		_, err := Log(context.Background(), log, &l, []*Target{target}, unit())
		require.NoError(t, err)
		return u.shown, u.Learner.Status()
	}
	got, status := run(w.Learner)
	require.Equal(t, shown, got)
	require.Less(t, status.Attraction.Share, 0.9)
	withoutTopic := w.Learner
	withoutTopic.SelectionTimeout = 0
	got, status = run(withoutTopic)
	require.Equal(t, none, got)
	require.InDelta(t, 1, status.Attraction.Share, 1e-12)
}

// expiring keeps the rows that end without a payoff for its learner.
type expiring struct {
	delay.Learner
	rows []int64
}

func (x *expiring) Expired(fb delay.Feedback) {
	x.rows = append(x.rows, fb.Ref)
	x.Learner.Expired(fb)
}

// Payoffs' spread is known also where they are far from 0: one payoff in ten thousand is all of it.
func TestJudge_PayoffsFarFromZero(t *testing.T) {
	j := judge{learner: &config.Learner{PayoffRange: config.Range{Min: 1e8, Max: 1e8 + 1}}}
	for k := range 10_000 {
		if j.row.payoff = 0; k == 777 {
			j.row.payoff = 1
		}
		j.earn()
	}
	require.InDelta(t, 1, j.paid.largest(), 0.001)
	j.row.selected = -1
	j.earn()
	mean, _ := j.paid.mean()
	require.InDelta(t, 1e12/10_001, j.raw(mean), 1e-3, "the last one earned 0")
}

// TestLog_RefusedPayoffs: the payoffs of 1 are outside of the range, and refused. Targets have no default payoff for them, as workers' learners
// have none, and they are not judged: all others are 0.
func TestLog_RefusedPayoffs(t *testing.T) {
	w, err := syntheticlog.New(population(8), 0, config.Setting{"payoffs", "stochastic"}, config.Setting{"payoff_horizon", "48h"})
	require.NoError(t, err)
	require.NoError(t, w.Play(4000, 9))
	w.Learner.PayoffRange, w.Learner.OutOfRange = config.Range{Min: -0.5, Max: 0.5}, config.Refuse
	log, err := w.Journal(context.Background())
	require.NoError(t, err)
	defer log.Close()
	var refused []int64
	judged, count := 0, 0
	for k, o := range log.Outcomes {
		if o.Refused {
			refused = append(refused, int64(k))
		}
		switch {
		case o.How == joinedlog.Paid, o.How == joinedlog.Unpaid && !o.Refused:
			judged++
		case o.How == joinedlog.Unpaid:
			count++
		}
	}
	require.Greater(t, count, 100)
	target := targets(t, w, "moss")[0]
	x := &expiring{Learner: target.new()}
	target.new = func() delay.Learner { return x }
	r, err := Log(context.Background(), log, &w.Learner, []*Target{target}, unit())
	require.NoError(t, err)
	require.ElementsMatch(t, refused, x.rows)
	require.EqualValues(t, judged, r.Log.Judged)
	require.Zero(t, *r.Log.Logged)
	require.Contains(t, r.Notes, fmt.Sprintf("%d payoffs outside [-0.5, 0.5] refused: their impressions are left out", count))
}
