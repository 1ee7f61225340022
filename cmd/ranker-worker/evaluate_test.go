package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	users "github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const flatLog = "../../internal/evaluate/testdata/flat.jsonl"

// smallPlatform is played once for all tests.
var smallPlatform = sync.OnceValues(func() (*syntheticlog.World, error) {
	c := users.Defaults(1)
	c.Items, c.Candidates, c.Interval, c.MaxDelay, c.Horizon = 20, 8, time.Minute, 12*time.Hour, 24*time.Hour
	w, err := syntheticlog.New(c, 0, config.Setting{"payoffs", "stochastic"})
	if err == nil {
		err = w.Play(5000, 1)
	}
	return w, err
})

// recorded writes the records of a small platform to files, and gives the flags that name them.
func recorded(t *testing.T) (flags []string) {
	t.Helper()
	w, err := smallPlatform()
	require.NoError(t, err)
	dir := t.TempDir()
	for topic, name := range topicFlags {
		file := filepath.Join(dir, name+".jsonl")
		require.NoError(t, os.WriteFile(file, w.Records[event.Topic(topic)].Bytes(), 0o600))
		flags = append(flags, "--"+name, file)
	}
	return flags
}

// TestEvaluateFiles: the same document whichever way files come in, and a table for people.
func TestEvaluateFiles(t *testing.T) {
	t.Parallel()
	flags := recorded(t)
	document := func(stdin string, args ...string) (r evaluate.Report) {
		got := run(t, stdin, append([]string{"evaluate", "--unpaid", "0", "--target", "utility", "--target", "moss,prior=none", "--json"}, args...)...)
		require.Equal(t, 0, got.code, got.errOut)
		require.NoError(t, json.Unmarshal([]byte(got.out), &r))
		return r
	}
	want := document("", flags...)
	require.Equal(t, "feed", want.Log.Learner)
	require.Equal(t, "moss", want.Log.Policy)
	require.EqualValues(t, 5000, want.Log.Judged+want.Log.Immature+want.Log.Unselected)
	require.Len(t, want.Targets, 2)
	require.Less(t, want.Targets[0].DR.Value, *want.Log.Logged-0.1, "users like what does not pay")
	require.InDelta(t, *want.Log.Logged, want.Targets[1].DR.Value, 0.1)

	// --unpaid is for targets that learn, too.
	configured := func(onExpiry string) *evaluate.TargetReport {
		file := filepath.Join(t.TempDir(), "worker.yaml")
		text := "kafka: {brokers: ['127.0.0.1:9092'], group: g}\nredis: {url: 'redis://127.0.0.1:6379/0'}\n" +
			"learners: {feed: {payoffs: stochastic, on_expiry: " + onExpiry + "}}\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		r := document("", append([]string{"--config", file, "--target", "greedy"}, flags...)...)
		return &r.Targets[2]
	}
	require.Equal(t, configured("{default: 0}"), configured("drop"))

	payoffs, err := os.ReadFile(flags[5])
	require.NoError(t, err)
	piped := append([]string{}, flags...)
	piped[5] = "-"
	require.Equal(t, want, document(string(payoffs), piped...))

	got := run(t, "", append([]string{"evaluate", "--unpaid", "0"}, flags...)...)
	require.Equal(t, 0, got.code, got.errOut)
	for _, text := range []string{"feed (moss), 2026-01-01T00:00:00Z to ", "5,000 impressions, ", "too young", "\nlogging  ", "\nutility  ", "\ngreedy  ", "windows learned"} {
		require.Contains(t, got.out, text)
	}
}

// TestEvaluatePerImpression: a document and a table of payoffs per impression.
func TestEvaluatePerImpression(t *testing.T) {
	t.Parallel()
	args := append([]string{"evaluate", "--unpaid", "0", "--per", "impression", "--target", "logging", "--target", "utility"}, recorded(t)...)
	got := run(t, "", args...)
	require.Equal(t, 0, got.code, got.errOut)
	for _, text := range []string{"of these without a selection", "values per impression; windows fitted", "\nlogging  ", "\nutility  "} {
		require.Contains(t, got.out, text)
	}
	require.NotContains(t, got.out, "at any look", "nothing is claimed of other looks")
	got = run(t, "", append(args, "--json")...)
	var r evaluate.Report
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.Equal(t, "impression", r.Per)
	require.InDelta(t, *r.Log.Logged, r.Targets[0].PerImpression.Value, 1e-12)
	require.Less(t, *r.Targets[1].Difference.Upper, 0.0)
	require.NotContains(t, got.out, "sequence")
}

// TestEvaluateFlat: a log of another system, as a table, a picture, and refused.
func TestEvaluateFlat(t *testing.T) {
	t.Parallel()
	picture := filepath.Join(t.TempDir(), "values.svg")
	got := run(t, "", "evaluate", "--flat", flatLog, "--plot", picture)
	require.Equal(t, 0, got.code, got.errOut)
	for _, name := range []string{"other", "sharp", "uniform", "logging"} {
		require.Contains(t, got.out, "\n"+name+" ")
	}
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "sharp</text>")

	got = run(t, "", "evaluate", "--flat", flatLog, "--plan", "0.05")
	require.Equal(t, 0, got.code, got.errOut)
	_, plan, _ := strings.Cut(got.out, "to find a target that is better by 0.05, in four of five logs:\n\n")
	require.Regexp(t, `^target +impressions for 95 % +days +at any look +days\nother +[0-9,]+ +- +[0-9,]+ +-\n`, plan)
	require.NotContains(t, plan, "logging")

	got = run(t, `{"flat":1,"candidates":["a","b"]}`+"\n"+`{"action":"a","propensity":0.5,"payoff":1}`, "evaluate", "--flat", "-")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.out, "uniform: refused: 1 row, at least 30 are needed")
	require.Empty(t, got.errOut)
}

func TestEvaluateUsage(t *testing.T) {
	t.Parallel()
	flags := recorded(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "no input: give --config, or --impressions"},
		{[]string{"--flat", flatLog, "--config", "x"}, 2, "[config flat]"},
		{[]string{"--flat", "nowhere"}, 1, "nowhere"},
		{[]string{"--flat", flatLog, "--target", "nix"}, 1, `flat.jsonl:2: target "nix" has no decision here`},
		{[]string{"--flat", flatLog, "--payoff-range", "1,0"}, 2, "--payoff-range"},
		{[]string{"--flat", flatLog, "--payoff-range", "0,inf"}, 2, "--payoff-range"},
		{[]string{"--payoff-range", "0,5"}, 2, "--payoff-range is of files without --config"}, // of worker.yaml, or RANKER_CONFIG
		{append([]string{"--payoff-range", "0,5", "--config", "x"}, flags...), 2, "--payoff-range is of files without --config"},
		{[]string{"--flat", flatLog, "--unpaid", "0"}, 2, "[flat unpaid]"},
		{append([]string{"--unpaid", "much"}, flags...), 2, "--unpaid"},
		{append([]string{"--unpaid", "2"}, flags...), 2, `--unpaid: "2" is no payoff within [0, 1]`},
		{[]string{"--flat", flatLog, "--clip", "-1"}, 2, "--clip"},
		{[]string{"--flat", flatLog, "--plan", "-1"}, 2, "--plan"},
		{[]string{"--flat", flatLog, "--per", "hour"}, 2, "--per"},
		{[]string{"--flat", flatLog, "--per", "impression"}, 2, "--per impression needs a log of rankings"},
		{[]string{"--flat", flatLog, "--plot", "x.txt"}, 2, "--plot"},
		{flags[:6], 2, "--rankings is missing"},
		{append([]string{"--target", "best"}, flags...), 2, `there is no policy "best"`},
		{append([]string{"--target", "shadow:nobody"}, flags...), 2, `target "shadow:nobody": no shadow of this name has decided in the log, there are: none`},
		{append([]string{"--from", "soon"}, flags...), 2, "--from"},
		{append([]string{"--learner", "other"}, flags...), 1, `none is of learner "other"`},
		{append(append([]string{}, flags[:4]...), "--payoffs", "-", "--rankings", "-"), 2, "cannot both be standard input"},
	} {
		got := run(t, "", append([]string{"evaluate"}, c.args...)...)
		require.Equal(t, c.code, got.code, "%v: %s", c.args, got.errOut)
		require.Contains(t, got.errOut, c.want)
	}
}

// TestEvaluateStops: a first Ctrl-C ends it.
func TestEvaluateStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut strings.Builder
	code := execute(ctx, append([]string{"evaluate"}, recorded(t)...), strings.NewReader(""), &out, &errOut)
	require.Equal(t, 1, code)
	require.Contains(t, errOut.String(), "context canceled")
}
