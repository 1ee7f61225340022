package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/lab"
)

func simulate(t *testing.T, args ...string) ran {
	t.Helper()
	return run(t, "", append([]string{"simulate", "--items", "4", "--horizon", "300", "--runs", "2"}, args...)...)
}

// TestSimulateJSON: one document with the keys that programs read, the same for the same seed, seconds apart.
func TestSimulateJSON(t *testing.T) {
	args := []string{"--policy", "elimination,ftrl,osmd", "--delay", "qpmd,bold", "--scenario", "stationary", "--payoff-delay", "3",
		"--max-instances", "0", "--json"}
	document := func(cores string) []map[string]any {
		got := simulate(t, append(args, "--cores", cores)...)
		require.Equal(t, 0, got.code, got)
		assert.Equal(t, 3, strings.Count(got.errOut, "is left out"), got.errOut)
		var rows []map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.out), &rows), got.out)
		for _, row := range rows {
			require.Contains(t, row, "seconds")
			delete(row, "seconds")
		}
		return rows
	}
	rows := document("1")
	require.Len(t, rows, 3)
	for k, policy := range []string{"elimination", "ftrl", "osmd"} {
		row := rows[k]
		assert.Equal(t, policy, row["policy"])
		assert.Equal(t, "stationary", row["scenario"])
		for key, want := range map[string]float64{"items": 4, "horizon": 300, "payoff_delay": 3, "runs": 2} {
			assert.Equal(t, want, row[key], key)
		}
		assert.IsType(t, 0.0, row["regret"].(map[string]any)["mean"])
		for _, kind := range []string{"regret", "dynamic_regret"} {
			assert.IsType(t, 0.0, row[kind].(map[string]any)["stderr"])
			assert.IsType(t, 0.0, row[kind].(map[string]any)["deviation"])
		}
		assert.Equal(t, 0.0, row["noise"])
		assert.Equal(t, false, row["payoffs_at_once"])
		assert.Nil(t, row["payoff_horizon"])
		assert.Nil(t, row["on_expiry"])
		assert.IsType(t, 0.0, row["bound"])
		assert.Contains(t, row, "lower_bound")
		curve := row["curve"].([]any)
		last := curve[len(curve)-1].(map[string]any)
		assert.Equal(t, 300.0, last["t"])
		assert.Equal(t, row["regret"].(map[string]any)["mean"], last["regret"])
	}
	assert.Equal(t, "qpmd", rows[0]["delay"])
	assert.Nil(t, rows[0]["max_instances"])
	assert.Equal(t, "bold", rows[1]["delay"])
	assert.Equal(t, 0.0, rows[1]["max_instances"])
	assert.Equal(t, 4.0, rows[1]["instances"])
	assert.Equal(t, rows, document("4"))
}

func TestSimulateTableAndPlot(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.svg", "b.png"} {
		file := filepath.Join(dir, name)
		got := simulate(t, "--policy", "greedy,utility", "--plot", file)
		require.Equal(t, 0, got.code, got)
		assert.Contains(t, got.out, "Scenario lazy: 4 items, 300 impressions, payoffs 0 late, 2 runs, seed 1.")
		assert.Regexp(t, `greedy +\w+ +\w+ +- +\w+ +\d+\.\d`, got.out)
		assert.Empty(t, got.errOut)
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Greater(t, info.Size(), int64(2000))
	}
}

// TestSimulateSilence: a scenario whose payoffs may not come has its own delays, horizon and length.
func TestSimulateSilence(t *testing.T) {
	document := func(args ...string) map[string]any {
		got := run(t, "", append([]string{"simulate", "--scenario", "conversions", "--runs", "1", "--json"}, args...)...)
		require.Equal(t, 0, got.code, got)
		var rows []map[string]any
		require.NoError(t, json.Unmarshal([]byte(got.out), &rows), got.out)
		require.Len(t, rows, 1)
		return rows[0]
	}
	row := document()
	for key, want := range map[string]any{
		"items": 10.0, "horizon": 60_000.0, "payoff_delay": nil, "payoff_horizon": 12_000.0, "on_expiry": 0.0, "payoffs_at_once": false, "noise": 0.0, "tastes": 0.0,
	} {
		assert.Contains(t, row, key)
		assert.Equal(t, want, row[key], key)
	}
	assert.Equal(t, row["regret"], row["dynamic_regret"])
	row = document("--horizon", "2000", "--payoff-horizon", "500", "--on-expiry", "drop", "--noise", "0.1", "--payoffs-at-once")
	for key, want := range map[string]any{
		"horizon": 2000.0, "payoff_horizon": 500.0, "on_expiry": nil, "payoffs_at_once": true, "noise": 0.1, "tastes": 0.0,
	} {
		assert.Contains(t, row, key)
		assert.Equal(t, want, row[key], key)
	}
	got := run(t, "", "simulate", "--scenario", "conversions", "--horizon", "500", "--runs", "2")
	assert.Contains(t, got.out, "Scenario conversions: 10 items, 500 impressions, payoffs within 12000, 2 runs, seed 1.")
	assert.Regexp(t, `stderr +deviation`, got.out)
}

// TestSimulateHelp has a line for each scenario.
func TestSimulateHelp(t *testing.T) {
	got := run(t, "", "simulate", "--help")
	require.Equal(t, 0, got.code, got)
	for _, s := range lab.Scenarios() {
		assert.Regexp(t, `(?m)^  `+regexp.QuoteMeta(string(s))+` +`+regexp.QuoteMeta(s.About())+`$`, got.out)
	}
	for _, flag := range []string{"on-expiry", "payoff-horizon", "payoffs-at-once", "noise"} {
		assert.Contains(t, got.out, "--"+flag+" ")
	}
}

// TestSimulateFaultsNameTheirFlag, and exit with 2.
func TestSimulateFaultsNameTheirFlag(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"policy", "mos", "unknown"}, {"delay", "soon", "unknown"}, {"max-instances", "-1", "0 to"}, {"max-instances", "x", "must be"},
		{"scenario", "lazzy", "there are blocks, lazy"}, {"items", "0", "from 1 to"}, {"items", "200000", "from 1 to"},
		{"horizon", "-1", "from 1 to"}, {"horizon", "1e6", "must be"}, {"payoff-delay", "-1", "geometric:"},
		{"payoff-delay", "geometric:", "geometric:"}, {"runs", "0", "from 1 to"}, {"seed", "-1", "must be"}, {"sigma", "0", "from 1e-09"},
		{"sigma", "NaN", ""}, {"delta", "1", "between 0 and 1"}, {"radius", "huge", "unknown"}, {"eta", "-2", "not a number from"},
		{"noise", "2", "from 0 to 1"}, {"payoff-horizon", "-1", "from 0 to"}, {"on-expiry", "later", "drop or a payoff"},
		{"loss-index", "user", "unknown"}, {"utilities", "guessed", "given"}, {"cores", "-1", "from 0 to"}, {"plot", "x.pdf", ".svg"},
	} {
		args := []string{"--" + c.flag + "=" + c.value}
		if c.flag == "max-instances" || c.flag == "eta" || c.flag == "loss-index" {
			args = append(args, "--policy", "ftrl", "--scenario", "stationary")
		}
		if c.flag == "on-expiry" {
			args = append(args, "--scenario", "conversions")
		}
		got := simulate(t, args...)
		assert.Equal(t, exitUsage, got.code, "%v: %v", args, got)
		assert.Contains(t, got.errOut, "--"+c.flag, args)
		assert.Contains(t, got.errOut, c.want, args)
		assert.Empty(t, got.out, args)
	}
	got := simulate(t, "--plot", filepath.Join(t.TempDir(), "none", "x.svg"))
	assert.Equal(t, exitFault, got.code)
	assert.Contains(t, got.errOut, "--plot")
}

// TestSimulateWithoutPartners says which partner is missing.
func TestSimulateWithoutPartners(t *testing.T) {
	got := simulate(t, "--policy", "ftrl", "--delay", "qpmd", "--scenario", "stationary")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.errOut, "qpmd does not go with policy ftrl")
	assert.Contains(t, got.errOut, "it goes with moss")
	got = simulate(t, "--policy", "osmd", "--scenario", "blocks")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.errOut, "osmd is left out")
	assert.Contains(t, got.errOut, "those from stationary on do")
}

// TestSimulateNumbers: a configuration's learner with a site's numbers; faults of flags are listed at once.
func TestSimulateNumbers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\n"+
		"learners: {feed: {payoffs: stochastic, policy: moss}}\n"), 0o600))
	plot := filepath.Join(t.TempDir(), "site.svg")
	args := []string{"simulate", "--config", file, "--conversion", "20%", "--payoff-delay", "12h", "--candidates", "5",
		"--impressions-per-day", "300", "--days", "20", "--runs", "3", "--plot", plot}
	got := run(t, "", args...)
	require.Equal(t, 0, got.code, got)
	require.Regexp(t, `^Learner feed \(moss\) with 5 candidates, 300 impressions a day, a conversion of 20% after 12h on average: 3 runs of 20 days\.
5 items in all, every list the same; payoffs 0 or 1, not sums\.
It pays, so from then on it has earned more than ranking by utility:
  in half of the runs  (after \d+ days?|not within 20 days)
  in nine runs of ten  (after \d+ days?|not within 20 days)
Over all days it earns [+-]\d`, got.out)
	require.FileExists(t, plot)
	var p lab.PaysOff
	got = run(t, "", append(args, "--json")...)
	require.NoError(t, json.Unmarshal([]byte(got.out), &p), got.out)
	require.Equal(t, 20, p.Within)
	got = run(t, "", "simulate", "--config", file, "--conversion", "3", "--candidates", "1", "--policy", "moss", "--payoff-delay", "x")
	require.Equal(t, 2, got.code, got)
	for _, says := range []string{"--policy: does not go with --config", `--conversion: must be from 0.001% to 50%, not "3"`,
		"--candidates: must be from 2 to 1000, not 1", "--impressions-per-day: must be from 10", `--payoff-delay: must be a duration`} {
		require.Contains(t, got.errOut, says)
	}
	got = run(t, "", "simulate", "--config", file, "--conversion", "3%", "--candidates", "40", "--payoff-delay", "2d", "--impressions-per-day", "1000000")
	require.Equal(t, 2, got.code, got)
	require.Contains(t, got.errOut, "--impressions-per-day: payoff-horizon in impressions: must be from 0 to 10000000")
	got = run(t, "", "simulate", "--days", "3")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.errOut, "--days needs --config")
}
