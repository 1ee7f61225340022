package admin

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

const warmStart event.Millis = 1_790_000_000_000

// warmTool makes a Tool without servers for one learner, feed.
func warmTool(t require.TestingT, learner string) *Tool {
	text := "kafka: {brokers: [127.0.0.1:9092]}\nredis: {url: 'redis://127.0.0.1:6379'}\nlearners: {feed: {" + learner + "}}\n"
	cfg, _, err := config.Load("warm.yaml", []byte(text), nil)
	require.NoError(t, err)
	tool := &Tool{cfg: cfg, progress: func(string) {}, now: func() time.Time { return time.UnixMilli(warmStart).Add(90 * 24 * time.Hour) }}
	tool.machine, err = app.MachineConfig(cfg)
	require.NoError(t, err)
	return tool
}

// warmed returns a machine that was loaded after a warm start from a file.
func (tool *Tool) warmed(t require.TestingT, file string, weight float64) (*partition.Offline, *WarmReport) {
	from, r, err := tool.readPast(context.Background(), "past", strings.NewReader(file), &tool.cfg.Learners[0], weight)
	require.NoError(t, err)
	to, err := tool.emptyMachine(0)
	require.NoError(t, err)
	require.NoError(t, merge(to, from, "feed", delay.Portion{Additive: true, Of: 1}))
	var c state.Changes
	to.Seal(&c)
	m, err := tool.newMachine(0)
	require.NoError(t, err)
	var fields []state.Field
	for _, w := range c.Writes {
		fields = append(fields, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
	}
	require.NoError(t, load(m, fields))
	return m, r
}

// pastSelection is a selection of an item; its payoff is in quarters of the payoff range from 0 to 8, unpaid if it is the default.
type pastSelection struct {
	item   int
	payoff float64
	unpaid bool
	late   event.Millis
}

const (
	pastItems = 6
	pastEvery = 20 * 60_000 // milliseconds between impressions
)

func pastSelections(seed uint64, n int) []pastSelection {
	rng := rand.New(rand.NewPCG(seed, 3))
	all := make([]pastSelection, n)
	for k := range all {
		x := &all[k]
		x.item = rng.IntN(pastItems)
		if x.unpaid = rng.IntN(3) == 0; !x.unpaid {
			x.payoff = 2 * float64(1+rng.IntN(2+x.item/2))
		}
		x.late = event.Millis(rng.IntN(3 * 3_600_000))
	}
	return all
}

func flatLog(all []pastSelection) string {
	var b strings.Builder
	b.WriteString(`{"flat":1,"candidates":["0","1","2","3","4","5"]}` + "\n")
	for k, x := range all {
		at := time.UnixMilli(warmStart + event.Millis(k)*pastEvery).UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, `{"time":"%s","action":"%d","propensity":1,"payoff":%v}`+"\n", at, x.item, x.payoff)
	}
	return b.String()
}

// fedBy steps the same impressions, selections and payoffs, as records, through a machine. Users are shown another order than the ranking.
func (tool *Tool) fedBy(t *testing.T, all []pastSelection) *partition.Offline {
	m, err := tool.emptyMachine(0)
	require.NoError(t, err)
	m.KnownComplete()
	var out partition.Output
	var next [event.Inputs]int64
	step := func(topic event.Topic, id string, at event.Millis, value []byte) {
		rec := partition.Record{Topic: topic, Offset: next[topic], Timestamp: at, Key: []byte(id), Value: value}
		next[topic]++
		require.NoError(t, m.Step(&partition.Input{Record: &rec, Now: at, Read: [event.Inputs]bool{true, true, true}}, &out))
		m.Raise(at)
	}
	type payment struct {
		at event.Millis
		k  int
	}
	var due []payment
	pay := func(until event.Millis) {
		slices.SortFunc(due, func(a, b payment) int { return int(a.at - b.at) })
		for ; len(due) > 0 && due[0].at < until; due = due[1:] {
			id := fmt.Sprintf("i-%d", due[0].k)
			step(event.Payoffs, id, due[0].at, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: all[due[0].k].payoff}))
		}
	}
	for k, x := range all {
		at, id := warmStart+event.Millis(k)*pastEvery, fmt.Sprintf("i-%d", k)
		pay(at)
		imp := event.Impression{ID: []byte(id), HasUtilities: true}
		for item := range pastItems {
			imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Append(nil, item), Utility: float64(item)})
		}
		step(event.Impressions, id, at, event.AppendImpression(nil, &imp))
		step(event.Selections, id, at, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: fmt.Append(nil, x.item), ByUtility: true}))
		if !x.unpaid {
			due = append(due, payment{at + x.late, k})
		}
	}
	pay(math.MaxInt64)
	for k := range all { // a second selection makes due all that its impression is due
		id := fmt.Sprintf("i-%d", k)
		step(event.Selections, id, warmStart+12*86_400_000, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: fmt.Append(nil, all[k].item)}))
	}
	require.Empty(t, out.DeadLetters)
	return m
}

func explained(t *testing.T, m *partition.Offline, key policy.Key) partition.LearnerExplanation {
	var items [][]byte
	var utilities []float64
	for item := range pastItems {
		items, utilities = append(items, fmt.Append(nil, item)), append(utilities, float64(item*5%pastItems))
	}
	x, err := m.Explain("feed", items, utilities, nil, key)
	require.NoError(t, err)
	return x
}

// TestWarm_AsIfTheRecordsHadCome: a learner that began with a flat log has the estimates of one that was fed the same impressions,
// selections and payoffs as records, and ranks like it.
func TestWarm_AsIfTheRecordsHadCome(t *testing.T) {
	const paying = "payoff_range: [0, 8], payoff_horizon: 24h, selection_timeout: 1h, "
	for name, learner := range map[string]string{
		"moss":        "policy: moss",
		"waits":       "policy: moss, silence: waits",
		"thompson":    "policy: thompson, on_expiry: {default: 0}",
		"below":       "policy: moss, on_expiry: {default: 3}",
		"egreedy":     "policy: egreedy",
		"elimination": "policy: elimination, on_expiry: drop",
		"drift":       "policy: moss, drift: 0.1",
		"robust":      "policy: robust, on_expiry: drop",
		"forgetting":  "policy: moss, item_retention: 60d",
		"sum":         "policy: moss, aggregate: sum",
	} {
		t.Run(name, func(t *testing.T) {
			tool := warmTool(t, paying+payoffsOf(learner)+learner)
			all := pastSelections(uint64(len(name)), 600)
			for k := range all {
				x := &all[k]
				if name == "robust" || name == "elimination" { // they depend on the order of payoffs; QPM-D's wait in queues
					x.late = 0
				}
				if d := tool.cfg.Learners[0].OnExpiry.Default; d == nil {
					x.unpaid = false // a log has payoffs only
				} else if x.unpaid {
					x.payoff = *d
				}
			}
			fed := tool.fedBy(t, all)
			warm, r := tool.warmed(t, flatLog(all), 1)
			require.Equal(t, WarmReport{Learner: "feed", Selections: 600, Items: pastItems, Payoffs: 600}, *r)
			for _, m := range []*partition.Offline{fed, warm} {
				m.Raise(warmStart + 13*86_400_000)
				rec := partition.Record{Topic: event.Payoffs, Key: []byte("none"), Value: []byte("{}")}
				m.KnownComplete()
				require.NoError(t, m.Step(&partition.Input{Record: &rec, Read: [event.Inputs]bool{true, true, true}}, &partition.Output{}))
			}
			for key := range policy.Key(20) {
				want, got := explained(t, fed, key), explained(t, warm, key)
				if name == "robust" { // its estimate of the spread is as of the last tick, and lacks the newest payoffs
					require.InDeltaSlice(t, want.Decision.Propensities, got.Decision.Propensities, 0.002)
					require.InDeltaSlice(t, want.Decision.Expected, got.Decision.Expected, 0.002)
					continue
				}
				require.Equal(t, want, got)
			}
			want, err := fed.Inspect("feed")
			require.NoError(t, err)
			got, err := warm.Inspect("feed")
			require.NoError(t, err)
			require.Equal(t, sumsOf(want), sumsOf(got))
			require.Equal(t, want.Silence.Share, got.Silence.Share)
			require.EqualValues(t, 600, got.Fed)
		})
	}
}

// payoffsOf returns the kind of payoffs that a policy is for.
func payoffsOf(learner string) string {
	if strings.Contains(learner, "robust") || strings.Contains(learner, "ftrl") {
		return "payoffs: adversarial, "
	}
	return "payoffs: stochastic, "
}

func sumsOf(v partition.LearnerView) map[string]policy.Sums {
	all := map[string]policy.Sums{}
	for _, x := range v.Items {
		all[x.Name] = x.Sums
	}
	return all
}

// TestWarm_Weight: of each item as many selections count as the weight says, with the mean of all; a table of totals teaches the same.
func TestWarm_Weight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Float64Range(0.01, 1).Draw(t, "weight")
		policies := []string{"policy: moss", "policy: elimination", "policy: moss, drift: 0.1", "policy: robust"}
		learner := rapid.SampledFrom(policies).Draw(t, "learner")
		tool := warmTool(t, payoffsOf(learner)+"payoff_range: [0, 8], "+learner)
		all := pastSelections(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(600, 1200).Draw(t, "n"))
		table := map[string]policy.Sums{}
		for _, x := range all {
			table[fmt.Sprint(x.item)] = table[fmt.Sprint(x.item)].Add(policy.Sums{N: 1, R: x.payoff, Q: x.payoff * x.payoff})
		}
		m, r := tool.warmed(t, flatLog(all), weight)
		v, err := m.Inspect("feed")
		require.NoError(t, err)
		var fed int64
		dated := learner != policies[0] && learner != policies[1]
		rows := "payoffs,item,squares,selections\n"
		for item, got := range sumsOf(v) {
			of := table[item]
			rows += fmt.Sprintf("%v,%s,%v,%d\n", of.R, item, of.Q, of.N)
			fed += got.N
			require.InDelta(t, weight*float64(of.N), float64(got.N), map[bool]float64{false: 0.5, true: 1}[dated]+1e-9)
			require.NoError(t, got.Check())
			if !dated {
				require.InDelta(t, of.R/8/float64(of.N), got.R/float64(got.N), 1e-12)
				require.InDelta(t, of.Q/64/float64(of.N), got.Q/float64(got.N), 1e-12)
			} else if weight > 0.3 { // the mean of groups
				require.InDelta(t, of.R/8/float64(of.N), got.R/float64(got.N), 0.1)
			}
		}
		require.Equal(t, r.Payoffs, fed)
		require.EqualValues(t, fed, v.Fed)
		if dated {
			_, _, err := tool.readPast(context.Background(), "past", strings.NewReader(rows), &tool.cfg.Learners[0], weight)
			require.ErrorContains(t, err, "past:2: totals have no times")
			return
		}
		again, _ := tool.warmed(t, rows, weight)
		same, err := again.Inspect("feed")
		require.NoError(t, err)
		for item, got := range sumsOf(same) {
			want := sumsOf(v)[item]
			require.Equal(t, want.N, got.N)
			require.InDelta(t, want.R, got.R, 1e-9)
			require.InDelta(t, want.Q, got.Q, 1e-9)
		}
	})
}

// Without squares each payoff is an end of the range, which is exact for conversions.
func TestWarm_TotalsOfConversions(t *testing.T) {
	tool := warmTool(t, "payoffs: stochastic, policy: moss, on_expiry: {default: 0}")
	m, r := tool.warmed(t, "item, selections, payoffs\n\"a,b\", 1000, 60\nc, 500, 0\nd, 2, 1\n", 0.2)
	require.Equal(t, WarmReport{Learner: "feed", Selections: 1502, Items: 3, Payoffs: 300, TooFew: 1}, *r)
	v, err := m.Inspect("feed")
	require.NoError(t, err)
	require.Equal(t, map[string]policy.Sums{"a,b": {N: 200, R: 12, Q: 12}, "c": {N: 100}, "d": {}}, sumsOf(v))
}

// All faulty lines are listed, and learners that cannot begin so say why.
func TestWarm_Refuses(t *testing.T) {
	header := `{"flat":1,"candidates":["a","b"]}` + "\n"
	for name, one := range map[string]struct{ learner, file, says string }{
		"no log":   {"policy: moss", "a b c\n", "past:1: it is neither a flat log nor a table of totals"},
		"empty":    {"policy: moss", "", "past:1: it is neither"},
		"nothing":  {"policy: moss", header, "past has no selections that count"},
		"lines":    {"policy: moss", header + "x\n\n" + `{"action":"a","propensity":1,"payoff":2}` + "\n" + `{"action":"c","propensity":1,"payoff":1}`, "past:2: invalid character 'x' looking for beginning of value\npast:4: payoff 2 lies outside the payoff range [0, 1]\npast:5: action \"c\" is not among"},
		"future":   {"policy: moss", header + `{"time":"2036-01-01T00:00:00Z","action":"a","propensity":1,"payoff":1}`, "past:2: its time is in the future"},
		"no times": {"policy: robust", header + `{"action":"a","propensity":1,"payoff":1}`, "past:2: its time is missing"},
		"totals": {"policy: moss", "item,selections,payoffs,squares\na,1,2,1\na,1\na,x,1,1\n,1,1,1\na,2,1,0.1\na,-1,0,0\n",
			"past:2: payoffs 2 of 1 selections: the mean lies outside the payoff range [0, 1]\npast:3: wrong number of fields\n" +
				"past:4: selections \"x\" is no whole number from 0 on\npast:5: the item has no name\npast:6: squares 0.1 do not fit to payoffs 1 of 2 selections in [0, 1]\npast:7: selections"},
		"adversarial": {"policy: ftrl", header, "its policy learns from probabilities of its own decisions"},
		"context":     {"policy: thompson, context: {segments: [new, old]}", header, "its payoffs depend on features or segments"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := warmTool(t, payoffsOf(one.learner)+one.learner)
			_, _, err := tool.readPast(t.Context(), "past", strings.NewReader(one.file), &tool.cfg.Learners[0], 1)
			require.ErrorContains(t, err, one.says)
		})
	}
	tool := warmTool(t, "payoffs: stochastic, policy: moss")
	_, _, err := tool.readPast(t.Context(), "past", strings.NewReader("item,selections,payoffs\na,1,-0.000000001\n"), &tool.cfg.Learners[0], 1)
	require.NoError(t, err, "a sum below the range by rounding, without squares")
	for _, weight := range []float64{0, -1, 1.5, math.NaN()} {
		_, _, err := tool.readPast(t.Context(), "past", strings.NewReader(header), &tool.cfg.Learners[0], weight)
		require.ErrorIs(t, err, delay.ErrWarm)
	}
}
