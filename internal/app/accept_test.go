//go:build !race

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestWhatLintPassesWorks: a configuration is drawn from the ranges of docs/configuration.md, their ends above all. Either it has faults,
// of settings that do not go together, or its worker ranks, learns and loads its stored state again.
func TestWhatLintPassesWorks(t *testing.T) {
	passed, refused := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		faults := tried(t, drawFile(t))
		if len(faults) == 0 {
			passed++
		}
		for _, f := range faults {
			require.Contains(t, notAlone, lastOf(f.Key), f)
			refused[lastOf(f.Key)]++
		}
	})
	t.Logf("%d passed; refused: %v", passed, refused)
	require.Greater(t, passed, 10, "most of what is drawn is refused: %v", refused)
}

// notAlone are the settings that can be refused although each value is within its range: for the sake of another.
var notAlone = []string{
	"policy", "delay", "sigma", "utilities", "selection_timeout", "windows", "on_expiry", "max_parked",
}

// TestEachValueThatLintPassesWorks: the same of each single value, with all else at its default, for every policy, and of
// values beyond the ranges: those are refused, or work.
func TestEachValueThatLintPassesWorks(t *testing.T) {
	file := func(place int, line, learner string) string {
		var b strings.Builder
		for i, s := range sections {
			b.WriteString(s.head[0])
			if i == place {
				b.WriteString(s.indent + line)
			}
		}
		return b.String() + "learners:\n  feed:\n" + learner
	}
	try := func(s setting, write func(value string) string) {
		for _, v := range s.within {
			for _, f := range tried(t, write(v)) {
				require.Contains(t, notAlone, lastOf(f.Key), f)
			}
		}
		for _, v := range s.beyond {
			tried(t, write(v))
		}
	}
	for place, s := range sections {
		for _, one := range s.settings {
			try(one, func(v string) string {
				return file(place, one.key+": "+v+"\n", "    payoffs: stochastic\n")
			})
		}
	}
	for _, l := range kinds {
		for _, p := range l.policies {
			for _, one := range ofLearners {
				try(one, func(v string) string {
					return file(-1, "", fmt.Sprintf("    payoffs: %s\n    policy: %s\n    %s: %s\n", l.payoffs, p, one.key, v))
				})
			}
		}
	}
}

// lastOf is the last word of a key.
func lastOf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// tried loads a file, and if it has no fault tries its worker.
func tried(t require.TestingT, text string) config.Faults {
	cfg, _, err := config.Load("drawn.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err == nil {
		works(t, cfg, text)
		return nil
	}
	var faults config.Faults
	require.ErrorAs(t, err, &faults)
	return faults
}

// works makes a worker of a configuration, without connecting it, and the machine of one partition, which is given an
// impression of each learner, and its answer, twice.
func works(t require.TestingT, cfg *config.Config, text string) {
	a, err := New(cfg, Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: prometheus.NewRegistry()})
	require.NoError(t, err, text)
	require.NoError(t, a.Close())
	m := machine(t, cfg)
	require.NoError(t, m.Loaded(), text)
	m.KnownComplete()
	p := player{t: t, m: m, cfg: cfg, text: text}
	for round := range 2 {
		for i := range cfg.Learners {
			p.play(&cfg.Learners[i], round)
		}
		m.Tick(now+int64(round)*60_000, [event.Inputs]bool{true, true, true})
	}
	var changes state.Changes
	m.Seal(&changes)
	again := machine(t, cfg)
	sums := map[string]float64{}
	for _, w := range changes.Writes {
		if w.Value == nil {
			continue
		}
		require.NoError(t, again.Load(state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value}), text)
		var item struct{ Sum float64 }
		if strings.HasSuffix(w.Hash, ":items") && json.Unmarshal(w.Value, &item) == nil {
			sums[w.Hash] += item.Sum
		}
	}
	require.NoError(t, again.Loaded(), text)
	require.Equal(t, m.Account(), again.Account(), text)
	for i := range cfg.Learners {
		if l := &cfg.Learners[i]; l.Delay == config.Direct && l.Aggregate == config.First {
			require.InDelta(t, 1, sums[l.Name+":items"], 1e-5, "two payoffs in the middle of the range of %s\n%s", l.Name, text)
		}
	}
}

const now event.Millis = 1_700_000_000_000

func machine(t require.TestingT, cfg *config.Config) *partition.Machine {
	mc, err := MachineConfig(cfg)
	require.NoError(t, err)
	mc.MaxRankingBytes = 64 << 20
	m, err := partition.New(mc)
	require.NoError(t, err)
	return m
}

// player plays the users of one machine.
type player struct {
	t      require.TestingT
	m      *partition.Machine
	cfg    *config.Config
	text   string
	out    partition.Output
	offset int64
}

// play has an impression of three candidates ranked, selects the one on top, and pays the middle of the range.
func (p *player) play(l *config.Learner, round int) {
	id := fmt.Sprintf("%s-%d", l.Name, round)
	candidates := []string{"a", "b", "c"}[:min(3, p.cfg.Limits.MaxCandidates)]
	var list []string
	for i, item := range candidates {
		list = append(list, fmt.Sprintf(`{"item":%q,"utility":%d}`, item, i))
	}
	p.out.Reset()
	p.step(event.Impressions, id, fmt.Sprintf(`{"impression_id":%q,"learner":%q,"candidates":[%s]}`, id, l.Name, strings.Join(list, ",")))
	require.Empty(p.t, p.out.DeadLetters, p.text)
	require.Len(p.t, p.out.Rankings, 1, p.text)
	var r event.Ranking
	require.NoError(p.t, event.NewDecoder(event.Limits{}).Ranking(&r, p.out.Rankings[0].Value), p.text)
	first := string(r.Items[0])
	var shown []string
	for _, item := range r.Items {
		shown = append(shown, string(item))
	}
	slices.Sort(shown)
	require.Equal(p.t, candidates, shown, p.text)
	if ps := r.Decision.Propensities; len(ps) > 0 {
		sum := 0.0
		for _, x := range ps {
			require.False(p.t, math.IsNaN(x) || x < 0, "%v\n%s", ps, p.text)
			sum += x
		}
		require.InDelta(p.t, 1, sum, 1e-6, "%v\n%s", ps, p.text)
	}
	if p.cfg.Kafka.Topics.HasSelections() {
		p.step(event.Selections, id, fmt.Sprintf(`{"impression_id":%q,"item":%q,"utility":1}`, id, first))
	}
	middle := l.PayoffRange.Min + (l.PayoffRange.Max-l.PayoffRange.Min)/2
	p.step(event.Payoffs, id, fmt.Sprintf(`{"impression_id":%q,"item":%q,"payoff":%s}`, id, first,
		strconv.FormatFloat(middle, 'g', -1, 64)))
	require.Empty(p.t, p.out.DeadLetters, p.text)
	applied := p.m.Account().Payoffs.Applied
	require.EqualValues(p.t, p.offset/int64(p.records()), applied, "%+v\n%s", p.m.Account(), p.text)
}

// records is how many belong to one impression, itself included.
func (p *player) records() int {
	if p.cfg.Kafka.Topics.HasSelections() {
		return 3
	}
	return 2
}

func (p *player) step(topic event.Topic, id, value string) {
	r := partition.Record{Topic: topic, Offset: p.offset, Timestamp: now, Key: []byte(id), Value: []byte(value)}
	p.offset++
	require.NoError(p.t, p.m.Step(&partition.Input{Record: &r, Now: now}, &p.out), p.text)
}

// setting is a key with values at the ends of its range, and beyond: outside of it, or beside it in form only.
type setting struct {
	key            string
	within, beyond []string
	some           *rapid.Generator[string] // a value within; nil: none but these
}

// section is a place of settings. Head is its first lines, one of several for settings that exclude each other.
type section struct {
	head     []string
	indent   string
	settings []setting
}

// number is a setting from least to most.
func number(key string, least, most int64, beyond ...string) setting {
	return setting{key: key, within: []string{strconv.FormatInt(least, 10), strconv.FormatInt(most, 10)}, beyond: beyond,
		some: rapid.Custom(func(t *rapid.T) string { return strconv.FormatInt(rapid.Int64Range(least, most).Draw(t, key), 10) })}
}

// span is a setting from least to ten years.
func span(key string, least time.Duration, beyond ...string) setting {
	const most = 3650 * 24 * time.Hour
	s := number(key, least.Milliseconds(), most.Milliseconds())
	s.some = rapid.Map(s.some, func(v string) string { return v + "ms" })
	s.within, s.beyond = []string{least.String(), "3650d", "1h"}, beyond
	return s
}

var sections = []section{
	{head: []string{"kafka:\n  brokers: ['127.0.0.1:9092']\n"}, indent: "  ", settings: []setting{
		{key: "group", within: []string{"r", "a.b_c-1", "0", strings.Repeat("g", 200)},
			beyond: []string{"..", ".", "'-'", "g{1}", "a/b", strings.Repeat("g", 201)}},
		{key: "start", within: []string{"latest", "earliest"}},
		{key: "topics", within: []string{"{selections: ''}", "{dlq_suffix: -dead}", "{impressions: " + strings.Repeat("t", 245) + "}"},
			beyond: []string{"{rankings: ''}", "{payoffs: rankings}", "{selections: .}", "{dlq_suffix: ''}", "{payoffs: __consumer_offsets}"}},
		{key: "tls", within: []string{"{enabled: true}", "{server_name: kafka.test}", "{enabled: false}", "{server_name: 10.0.0.1}"},
			beyond: []string{"{ca_file: nowhere.pem, enabled: false}", "{server_name: a..b}"}},
		{key: "sasl", within: []string{"{mechanism: plain, username: u, password: p}",
			`{mechanism: scram-sha-256, username: "ü ${A:x}", password: "ß"}`, `{mechanism: scram-sha-512, username: "a,b=c", password: "p"}`},
			beyond: []string{`{mechanism: plain, username: "u\0", password: "x"}`, `{mechanism: scram-sha-256, username: "u\n", password: "x"}`,
				`{mechanism: scram-sha-512, username: "u", password: "\u0007"}`, `{mechanism: scram-sha-256, username: "\u0627a", password: "x"}`,
				`{mechanism: plain, username: "u\n", password: "\u0007"}`}},
	}},
	{head: []string{"redis:\n  url: redis://127.0.0.1\n", "redis:\n  url: rediss://u:p@127.0.0.1:1/1048576\n",
		"redis:\n  addresses: ['127.0.0.1:1', '[::1]:2']\n  cluster: true\n", "redis:\n  addresses: ['localhost:1']\n  db: 1048576\n"},
		indent: "  ", settings: []setting{number("wait_replicas", 0, 10, "-1", "11")}},
	{head: []string{"join:\n"}, indent: "  ", settings: []setting{
		span("parking_time", 0, "-1ms", "1us", "3651d"), number("max_parked", 0, 100_000_000, "-1", "100000001"),
	}},
	{head: []string{"limits:\n"}, indent: "  ", settings: []setting{
		number("max_candidates", 1, 100_000, "0", "-1", "100001"), number("max_record_bytes", 1<<10, 16<<20, "0", "1023", "16777217", "64MiB"),
		{key: "checkpoint_interval", within: []string{"1ms", "30s"}, beyond: []string{"0", "31s"}},
	}},
}

// ofLearners may stand in each learner. Those that its policy does not look at are no fault.
var ofLearners = []setting{
	{key: "radius", within: []string{"subgaussian", "paper"}},
	{key: "prior", within: []string{"none", "empirical", "{mean: 0, sd: 1e-9}", "{mean: 1, sd: 1}", "{mean: 0.5, sd: 0.2}"},
		beyond: []string{"{mean: -1, sd: 1}", "{mean: 0, sd: 0}", "{mean: 0, sd: 1e-200}"}},
	{key: "sigma", within: []string{"1e-9", "1e9", "auto", "0.5"}, beyond: []string{"0", "-1", "1e-300", "1e300", "1e9999"}},
	{key: "delta", within: []string{"auto", "5e-324", "0.9999999999999999", "0.05"}, beyond: []string{"0", "1", "-1", "2"}},
	{key: "max_instances", within: []string{"0", "1", "1000000"}, beyond: []string{"-1", "1000001"}},
	{key: "loss_index", within: []string{"item", "rank"}},
	{key: "eta", within: []string{"auto", "1e-6", "1e6", "1"}, beyond: []string{"0", "-1", "1e-7", "1e7", "1e-300"}},
	{key: "windows", within: []string{"{max: 1}", "{learned: true, max: 1000}", "{list: [1]}", "{list: [0, 1]}", "{list: [0.5, 0, 0.5]}",
		"{list: [5e-324, 1]}", "{list: [1, 5e-324]}", "{geometric: 5e-324, max: 65536}", "{geometric: 1, max: 65536}",
		"{geometric: 0.7}", "{zipf: 0, max: 65536}", "{zipf: 1e308}", "{zipf: 1.2, max: 1}"},
		beyond: []string{"{max: 0}", "{learned: true, max: 1001}", "{list: []}", "{list: [0]}", "{list: [0.4, 0.4]}", "{geometric: 0}",
			"{geometric: 2}", "{zipf: -1}", "{geometric: 0.5, max: 65537}", "{list: [1e308, 1e308]}", "{list: [2, -1]}"}},
	{key: "payoff_range", within: []string{"[0, 5.2e-318]", "[0, 1.7e308]", "[-0.8e308, 0.8e308]", "[-1, 4]", "[1e9, 1000000001]", "[-1e-300, 0]"},
		beyond: []string{"[0, 5e-324]", "[0, 5e-320]", "[1, 1]", "[1, 0]", "[-1.7e308, 1.7e308]", "[1e300, 1.0000000000000002e300]",
			"[-1e17, -99999999999999984]", "[1e9, 1000000000.00001]"}},
	span("payoff_horizon", time.Millisecond, "0", "-1h", "3651d"),
	{key: "selection_timeout", within: []string{"1ms", "30m"}, beyond: []string{"0", "3651d"}},
	{key: "on_expiry", within: []string{"drop", "{default: 0}"}, beyond: []string{"{default: 1e300}", "{default: -1}"}},
	{key: "aggregate", within: []string{"first", "sum"}},
	{key: "utilities", within: []string{"given", "sorted", "social"}},
	{key: "seed", within: []string{"0", "18446744073709551615"}, beyond: []string{"-1", "18446744073709551616"}},
}

// kinds are the policies with the ways to handle late payoffs.
var kinds = []struct {
	payoffs          string
	policies, delays []string
}{
	{"stochastic", []string{"moss", "optimistic", "thompson", "elimination", "egreedy", "greedy", "utility"}, []string{"direct", "qpmd"}},
	{"adversarial", []string{"ftrl", "osmd"}, []string{"bold"}},
}

// drawFile draws a whole file from within the ranges.
func drawFile(t *rapid.T) string {
	var b strings.Builder
	add := func(indent string, all []setting) {
		for _, s := range all {
			values := slices.Clone(s.within)
			if s.some != nil {
				values = append(values, s.some.Draw(t, "some "+s.key))
			}
			if rapid.Bool().Draw(t, "with "+s.key) {
				fmt.Fprintf(&b, "%s%s: %s\n", indent, s.key, rapid.SampledFrom(values).Draw(t, s.key))
			}
		}
	}
	for _, s := range sections {
		b.WriteString(rapid.SampledFrom(s.head).Draw(t, "head"))
		add(s.indent, s.settings)
	}
	b.WriteString("learners:\n")
	for _, name := range []string{"feed", strings.Repeat("x", 64), "a.b_c-1"}[:rapid.IntRange(1, 3).Draw(t, "learners")] {
		l := rapid.SampledFrom(kinds).Draw(t, "payoffs")
		fmt.Fprintf(&b, "  %s:\n    payoffs: %s\n", name, l.payoffs)
		add("    ", append([]setting{{key: "policy", within: l.policies}, {key: "delay", within: l.delays}}, ofLearners...))
	}
	return b.String()
}
