package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/internal/lift"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

const compared = `kafka: {brokers: ['127.0.0.1:9092'], group: g}
redis: {url: 'redis://127.0.0.1:6379/0'}
learners:
  feed: {payoffs: stochastic, payoff_range: [0, 5], payoff_horizon: 4h, on_expiry: {default: 0}, silence: ages, out_of_range: clamp, item_retention: 1440h}
  control: {payoffs: stochastic, payoff_range: [0, 5], payoff_horizon: 4h, on_expiry: {default: 0}, silence: ages, out_of_range: clamp, item_retention: 1440h}
experiments:
  feed: {arms: {feed: 0.75, control: 0.25}, control: control}
join: {remember: 24h}
`

// writeExperiment writes files of 4,000 impressions, a second apart, of which feed has three in four paid and the control one.
func writeExperiment(t *testing.T) {
	t.Helper()
	cfg, _, err := config.LoadFile("worker.yaml", os.LookupEnv)
	require.NoError(t, err)
	e, err := learners.Experiment(cfg, &cfg.Experiments[0])
	require.NoError(t, err)
	const start, horizon = 1_800_000_000_000, 4 * 3_600_000
	var rankings, selections, payoffs strings.Builder
	for k := range int64(4000) {
		id, at := fmt.Appendf(nil, "i-%d", k), start+k*1000
		unit, assigned := id, []byte(nil)
		if e.ByUser {
			assigned = experiment.AppendUnit(nil, experiment.GroupOf(id), 0, false)
			unit = assigned
		}
		arm := e.Arms[e.Arm(unit)]
		rankings.Write(append(event.AppendRanking(nil, &event.Ranking{ID: id, Learner: []byte(arm.Name), Time: at, Items: [][]byte{[]byte("a")},
			Decision: event.Decision{Group: "g", Policy: "moss", Delay: "direct", Layout: 1, Instance: -1, Began: at, HasSelection: true,
				SelectionDeadline: at + 60_000, PayoffDeadline: at + horizon,
				Assignment: event.Assignment{Experiment: "feed", Run: 1, Arm: arm.Name, Probability: arm.Share, Unit: assigned}}}), '\n'))
		selections.Write(append(event.AppendSelection(nil, &event.Selection{ID: id, Item: []byte("a"), Time: at, HasTime: true}), '\n'))
		if paid := map[string]int64{"feed": 3, "control": 1}[arm.Name]; k%4 < paid {
			payoffs.Write(append(event.AppendPayoff(nil, &event.Payoff{ID: id, Payoff: 5, Time: at + 500, HasTime: true}), '\n'))
		}
	}
	for name, b := range map[string]*strings.Builder{"r.jsonl": &rankings, "s.jsonl": &selections, "p.jsonl": &payoffs} {
		require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
	}
}

// TestLift compares the arms by files of records: for people, as JSON and as a picture.
func TestLift(t *testing.T) {
	inFile(t, "worker.yaml", compared)
	writeExperiment(t)
	of := func(args ...string) ran {
		return run(t, "", append([]string{"lift", "--config", "worker.yaml", "--rankings", "r.jsonl", "--selections", "s.jsonl", "--payoffs", "p.jsonl"}, args...)...)
	}
	all := of("--as-of", "2027-01-15T14:00:00Z", "--plot", "lift.svg")
	require.Equal(t, exitOK, all.code, all)
	counted, anyAge, _ := strings.Cut(all.out, "\narm   impressions of any age")
	assert.Equal(t, liftOfFiles, counted)
	assert.Regexp(t, `^ +so far +in the end +timing`, anyAge)
	assert.Regexp(t, `feed +4,000 +\+0\.49\d\d \[\+0\.4\d+, \+0\.5\d+\] +ahead +\+0\.49\d\d \[\+0\.4\d+, \+0\.5\d+\] +better +as control`, anyAge)
	picture, err := os.ReadFile("lift.svg")
	require.NoError(t, err)
	assert.Contains(t, string(picture), "feed: better")

	var r lift.Report
	require.NoError(t, json.Unmarshal([]byte(of("--as-of", "2027-01-15T14:00:00Z", "--json").out), &r))
	assert.Equal(t, "better", r.Arms[1].Verdict)
	assert.EqualValues(t, 4000, r.Units+r.Immature)

	young := of()
	assert.Equal(t, exitOK, young.code, young)
	assert.Contains(t, young.out, "units counted: 0, impressions too young: 4,000")
	assert.Contains(t, young.out, "[-1.0000, +1.0000]  open")
	assert.Contains(t, young.out, "note: the oldest impression is of 2027-01-15T08:00:00Z, and counts once its payoff_horizon of 4h is over: topics need a retention above")
	assert.NotContains(t, all.out, "retention")
	assert.Regexp(t, `feed: in the end: known from 2027-01-15T12:\S+ on, when the first deadlines pass: `, young.out)

	for want, args := range map[string][]string{
		"choose one of feed": {"--experiment", "other"},
		"is not user":        {"--unit", "group"},
		"period: never":      {"--unit", "user"},
		"--as-of":            {"--as-of", "soon"},
		".svg or .png":       {"--plot", "x.gif"},
	} {
		got := of(args...)
		assert.Equal(t, exitUsage, got.code, got)
		assert.Contains(t, got.errOut, want)
	}
	inFile(t, "worker.yaml", strings.Replace(compared, "control: control}", "control: control, learning: shared}", 1))
	writeExperiment(t)
	shared := of("--as-of", "2027-01-15T14:00:00Z")
	assert.Equal(t, exitOK, shared.code, shared)
	assert.Contains(t, shared.out, "note: arms have shared learning, and had one share each")

	inFile(t, "worker.yaml", strings.Replace(compared, "control: control}", "control: control, by: user, period: never}", 1))
	writeExperiment(t)
	holdout := of("--as-of", "2027-01-15T14:00:00Z")
	assert.Equal(t, exitNone, holdout.code, holdout)
	assert.Contains(t, holdout.out, "feed: refused: users keep their arm for good")
	once := of("--as-of", "2027-01-15T14:00:00Z", "--unit", "user")
	assert.Equal(t, exitOK, once.code, once)
	assert.Contains(t, once.out, "at one look")

	inFile(t, "worker.yaml", sound)
	none := run(t, "", "lift", "--config", "worker.yaml")
	assert.Equal(t, exitFault, none.code)
	assert.Contains(t, none.errOut, "worker.yaml has no experiments")
}

// TestLift_OutOfOrder: of a file that is not in the order of time, each unit counts once.
func TestLift_OutOfOrder(t *testing.T) {
	inFile(t, "worker.yaml", compared)
	writeExperiment(t)
	b, err := os.ReadFile("r.jsonl")
	require.NoError(t, err)
	lines := strings.SplitAfter(string(b), "\n")
	require.NoError(t, os.WriteFile("r.jsonl", []byte(strings.Join(slices.Concat(lines[2000:], lines[:2000]), "")), 0o600))
	got := run(t, "", "lift", "--config", "worker.yaml", "--rankings", "r.jsonl", "--selections", "s.jsonl", "--payoffs", "p.jsonl",
		"--as-of", "2027-01-15T14:00:00Z")
	require.Equal(t, exitOK, got.code, got)
	require.True(t, strings.HasPrefix(got.out, liftOfFiles), got.out)
}

// TestLift_WithoutSelections: files without the selections that the configuration has are no answer.
func TestLift_WithoutSelections(t *testing.T) {
	inFile(t, "worker.yaml", compared)
	writeExperiment(t)
	got := run(t, "", "lift", "--config", "worker.yaml", "--rankings", "r.jsonl", "--payoffs", "p.jsonl")
	require.Equal(t, exitUsage, got.code, got)
	require.Contains(t, got.errOut, "--selections is missing")
}

const liftOfFiles = `experiment feed, run 1, by impression, as of 2027-01-15T14:00:00Z: units counted: 4,000, impressions too young: 0
note: payoffs and lifts are in payoff ranges: 0 is a payoff of 0, 1 one of 5

arm      units  payoff  lift to control         at any look
control    996  0.2550
feed     3,004  0.7500          +0.4940  [+0.4294, +0.5585]  better
`
