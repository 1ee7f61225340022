package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

func unit() *Options { return &Options{Units: config.Range{Min: 0, Max: 1}} }

// TestFlat_Vectors holds estimates to those of Open Bandit Pipeline; testdata/make.py says how they were made.
func TestFlat_Vectors(t *testing.T) {
	log, err := os.Open("testdata/flat.jsonl")
	require.NoError(t, err)
	defer log.Close()
	stored, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var want map[string]struct {
		IPS, SNIPS, DR float64
		Effective      float64 `json:"effective_samples"`
	}
	require.NoError(t, json.Unmarshal(stored, &want))
	r, err := Flat(context.Background(), "flat.jsonl", log, nil, unit())
	require.NoError(t, err)
	require.Len(t, r.Targets, len(want))
	for _, got := range r.Targets {
		w, ok := want[got.Target]
		require.True(t, ok, got.Target)
		require.Equal(t, OK, got.Verdict, got.Reasons)
		require.InDelta(t, w.IPS, got.IPS.Value, 1e-9, got.Target)
		require.InDelta(t, w.SNIPS, got.SNIPS.Value, 1e-9, got.Target)
		require.InEpsilon(t, w.Effective, got.EffectiveSamples, 1e-9, got.Target)
		if got.Target == Logging { // the payoffs, not a model's estimates
			require.InDelta(t, *r.Log.Logged, got.DR.Value, 1e-12)
			require.Equal(t, 1.0, got.MaxWeight)
			require.Zero(t, got.Difference.Value)
			continue
		}
		require.InDelta(t, w.DR, got.DR.Value, 1e-9, got.Target)
		require.InDelta(t, w.DR-*r.Log.Logged, got.Difference.Value, 1e-9)
		require.True(t, got.Sequence.Lower < *got.DR.Lower && *got.DR.Upper < got.Sequence.Upper, "%+v", got)
	}
	r.Targets[0].Verdict, r.Targets[1].Verdict, r.Targets[1].Bounded = Refused, Refused, true // these are drawn, too
	for _, format := range []string{"svg", "png"} {
		var picture bytes.Buffer
		require.NoError(t, r.Plot(&picture, format))
		require.Greater(t, picture.Len(), 1000)
		require.Equal(t, format == "svg", strings.Count(picture.String(), ">refused</text>") == 2)
	}
}

// Payoffs in other units have values in these.
func TestFlat_Units(t *testing.T) {
	log, err := os.ReadFile("testdata/flat.jsonl")
	require.NoError(t, err)
	opt := unit()
	plain, err := Flat(context.Background(), "f", bytes.NewReader(log), []string{"other"}, opt)
	require.NoError(t, err)
	var scaled bytes.Buffer
	for i, line := range strings.Split(strings.TrimSpace(string(log)), "\n") {
		if i > 0 {
			var r map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			r["payoff"] = -2 + 10*r["payoff"].(float64)
			b, err := json.Marshal(r)
			require.NoError(t, err)
			line = string(b)
		}
		fmt.Fprintln(&scaled, line)
	}
	opt.Units = config.Range{Min: -2, Max: 8}
	got, err := Flat(context.Background(), "f", &scaled, []string{"other"}, opt)
	require.NoError(t, err)
	a, b := plain.Targets[0], got.Targets[0]
	require.InDelta(t, -2+10*a.DR.Value, b.DR.Value, 1e-9)
	require.InDelta(t, 10*a.DR.Stderr, b.DR.Stderr, 1e-9)
	require.InDelta(t, -2+10*a.Sequence.Lower, b.Sequence.Lower, 1e-9)
	require.InDelta(t, 10*a.Difference.Value, b.Difference.Value, 1e-9)
	require.InDelta(t, -2+10*a.SNIPS.Value, b.SNIPS.Value, 1e-9)
}

// TestFlat_CSV: by default the targets are those of the columns, uniform and logging.
func TestFlat_CSV(t *testing.T) {
	r, err := Flat(context.Background(), "f", strings.NewReader("action,payoff,candidates,propensity,target:new\na,1,a|b,0.5,0.9|0.1\n"), nil, unit())
	require.NoError(t, err)
	var names []string
	for _, target := range r.Targets {
		names = append(names, target.Target)
	}
	require.Equal(t, []string{"new", Uniform, Logging}, names)
	require.Equal(t, int64(1), r.Log.Judged)
}

func TestFlat_Faults(t *testing.T) {
	const head = `{"flat":1,"candidates":["a","b"],"targets":{"new":[0.5,0.5],"slots":{"1":[1,0]}}}`
	for _, c := range []struct{ log, target, want string }{
		{"", "new", `f:1: it is empty`},
		{`{"candidates":["a"]}`, "new", `f:1: a flat log begins with`},
		{`{"flat":1,"candidates":["a","a"]}`, "new", `f:1: candidate "a" is there twice`},
		{`{"flat":1,"candidates":["a","b"],"targets":{"new":[0.5,0.47]}}`, "new", `f:1: target "new" adds up to 0.97`},
		{`{"flat":1,"candidates":["a","b"],"targets":{"new":[0.5]}}`, "new", `f:1: target "new" has 1 probabilities for 2 candidates`},
		{`{"flat":1,"candidates":["a","b"],"targets":{"new":[1.5,-0.5]}}`, "new", `f:1: target "new" has a probability of -0.5`},
		{`{"flat":1,"candidates":["a","b"],"targets":{"new":3}}`, "new", `f:1: target "new" is neither`},
		{head + "\n" + `{"action":"a"`, "new", `f:2: unexpected end`},
		{head + "\n\n" + `{"action":"9","propensity":0.5,"payoff":0}`, "new", `f:3: action "9" is not among the candidates`},
		{head + "\n" + `{"action":"a","propensity":0,"payoff":0}`, "new", `f:2: propensity is 0, must be in [1e-09, 1]`},
		{head + "\n" + `{"action":"a","payoff":0}`, "new", `f:2: propensity is missing`},
		{head + "\n" + `{"action":"a","propensity":0.5}`, "new", `f:2: payoff is missing`},
		{head + "\n" + `{"action":"a","propensity":0.5,"payoff":3}`, "new", `f:2: payoff 3 lies outside the payoff range [0, 1]`},
		{head + "\n" + `{"action":"a","propensity":0.5,"payoff":1,"propensities":[0.4,0.6]}`, "new", `f:2: propensity is 0.5, and 0.4 among`},
		{head + "\n" + `{"action":"a","payoff":1,"propensities":[1]}`, "new", `f:2: 1 propensities for 2 candidates`},
		{head + "\n" + `{"action":"a","propensity":0.5,"payoff":1,"time":"now"}`, "new", `f:2: time "now" is not of the form`},
		{head + "\n" + `{"action":"a","propensity":0.5,"payoff":1,"time":"2019-11-24T00:01:03Z"}` + "\n" +
			`{"action":"a","propensity":0.5,"payoff":1,"time":"2019-11-24T00:01:02Z"}`, "new", `f:3: its time is before`},
		{head + "\n" + `{"action":"a","propensity":0.5,"payoff":1}`, "nix", `f:2: target "nix" has no decision here`},
		{head + "\n" + `{"action":"a","propensity":0.5,"payoff":1,"slot":"2"}`, "slots", `f:2: target "slots" has nothing for slot "2"`},
		{head + "\n" + `{"action":"c","propensity":0.5,"payoff":1,"candidates":["a","c","c"]}`, "uniform", `f:2: candidate "c" is there twice`},
		{head + "\n" + `{"action":"c","propensity":0.5,"payoff":1,"candidates":["a","b","c"]}`, "new", `f:2: target "new" has 2 probabilities for 3 candidates`},
	} {
		_, err := Flat(context.Background(), "f", strings.NewReader(c.log), []string{c.target}, unit())
		require.ErrorContains(t, err, c.want, c.log)
	}
}

// Weights that do not fit the propensities, and logs without any of a target's selections, are refused.
func TestFlat_Refusals(t *testing.T) {
	row := func(b *strings.Builder, action string, p, q float64) {
		fmt.Fprintf(b, `{"action":%q,"payoff":1,"propensities":[%v,%v]}`+"\n", action, p, q)
	}
	one := func(log string) TargetReport {
		r, err := Flat(context.Background(), "f", strings.NewReader(log), []string{"new"}, unit())
		require.NoError(t, err)
		return r.Targets[0]
	}
	const head = `{"flat":1,"candidates":["a","b"],"targets":{"new":[0.2,0.8]}}` + "\n"
	var few, wrong, blind, sound strings.Builder
	for _, b := range []*strings.Builder{&few, &wrong, &blind, &sound} {
		b.WriteString(head)
	}
	for i := range 2000 {
		if i < 20 {
			row(&few, "a", 0.5, 0.5)
		}
		row(&wrong, "a", 0.5, 0.5) // b should be taken half of the time
		row(&blind, "a", 1, 0)
		row(&sound, []string{"a", "b"}[i%2], 0.5, 0.5)
	}
	require.Equal(t, []string{"20 rows, at least 30 are needed"}, one(few.String()).Reasons)
	require.Len(t, one(wrong.String()).Reasons, 1)
	require.Contains(t, one(wrong.String()).Reasons[0], "the weights do not add up: the log's propensities are not those that its selections were made with")
	require.Equal(t, []string{"80.0 % of its selections never happen with the log's policy"}, one(blind.String()).Reasons)
	require.Equal(t, OK, one(sound.String()).Verdict)
	require.InDelta(t, 1, one(sound.String()).DR.Value, 0.02)
}
