package deploy

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/metricslist"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// targetLabels are added by Prometheus to all scraped metrics.
var targetLabels = []string{"job", "instance", "namespace"}

// foreign are metrics that expressions here use and that are not in the catalogue: Prometheus' own of a target, and those that its
// client library has of every process.
var foreign = map[string]metricslist.Metric{
	"up":                            {Name: "up", Type: "gauge"},
	"process_cpu_seconds_total":     {Name: "process_cpu_seconds_total", Type: "counter"},
	"process_resident_memory_bytes": {Name: "process_resident_memory_bytes", Type: "gauge"},
	"go_memstats_heap_inuse_bytes":  {Name: "go_memstats_heap_inuse_bytes", Type: "gauge"},
	"go_gc_gomemlimit_bytes":        {Name: "go_gc_gomemlimit_bytes", Type: "gauge"},
}

var promQL = parser.NewParser(parser.Options{})

// variables are Grafana's in expressions, with their values in these tests.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*")

// ofCounters are the functions that a counter makes sense in.
var ofCounters = []string{"rate", "increase"}

// faults of an expression, for which Prometheus would refuse it, or never find anything.
func faults(expr string, metrics map[string]metricslist.Metric) []string {
	tree, err := promQL.ParseExpr(variables.Replace(expr))
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	known := slices.Clone(targetLabels)
	parser.Inspect(tree, func(node parser.Node, path []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := metric(s.Name, metrics)
		if !ok {
			all = append(all, "no metric "+s.Name)
		}
		if m.Type == "counter" && !within(path, ofCounters) {
			all = append(all, "a counter without rate or increase: "+s.Name)
		}
		has := append(slices.Clone(targetLabels), m.Labels...)
		if m.Type == "histogram" {
			has = append(has, "le")
		}
		known = append(known, has...)
		for _, matcher := range s.LabelMatchers {
			if matcher.Name != model.MetricNameLabel && !slices.Contains(has, matcher.Name) {
				all = append(all, s.Name+" has no label "+matcher.Name)
			}
		}
		return nil
	})
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		var named []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			named = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				named = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range named {
			if !slices.Contains(known, label) {
				all = append(all, "no metric here has the label "+label)
			}
		}
		return nil
	})
	return all
}

// within reports whether one of these functions is called around a node.
func within(path []parser.Node, functions []string) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		call, ok := n.(*parser.Call)
		return ok && slices.Contains(functions, call.Func.Name)
	})
}

// metric returns the metric of a name in an expression; histograms appear by their parts only.
func metric(name string, metrics map[string]metricslist.Metric) (metricslist.Metric, bool) {
	if m, ok := foreign[name]; ok {
		return m, true
	}
	if m, ok := metrics[name]; ok {
		return m, m.Type != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && metrics[base].Type == "histogram" {
			return metrics[base], true
		}
	}
	return metricslist.Metric{}, false
}

// namesIn are the metrics of an expression.
func namesIn(t *testing.T, expr string) (names []string) {
	t.Helper()
	tree, err := promQL.ParseExpr(variables.Replace(expr))
	require.NoError(t, err)
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			names = append(names, s.Name)
		}
		return nil
	})
	return names
}

func TestExpressionsCanBeFaulty(t *testing.T) {
	metrics, err := metricslist.Metrics()
	require.NoError(t, err)
	for _, expr := range []string{
		"sum(ranker_lags)", "ranker_retries_total > 0", "sum(ranker_checkpoint_duration_seconds)", "sum by (reason) (ranker_lag)",
		`ranker_lag{reason="x"}`, `ranker_lag{topic=x}`, "sum(ranker_lag", "rate(ranker_retries_total[5 minutes])",
		"summe(ranker_lag)", "rate(ranker_retries_total[5m)", "ranker_lag and on (reason) ranker_lag", "deriv(ranker_retries_total[5m])",
		"sum(down)",
	} {
		assert.NotEmpty(t, faults(expr, metrics), expr)
	}
	assert.Empty(t, faults(`max by (topic, instance) (ranker_lag{topic=~"a|b",job=~"$job"}) > 3 and on (topic) sum by (topic) (ranker_lag)`, metrics))
}

// TestForeignMetricsAreThere where `run` registers them.
func TestForeignMetricsAreThere(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	require.NoError(t, err)
	types := map[string]string{"up": "gauge"}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	for name, m := range foreign {
		assert.Equal(t, m.Type, types[name], name)
	}
}

// alerts are the rules of the chart's file, in which an unknown key is an error, as is a template that Prometheus cannot read.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	file, errs := rulefmt.Parse([]byte(read(t, "chart/files/alerts.yaml")), false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Rules)
	return file.Groups[0].Rules
}

// TestAlerts: each alert's metrics and labels exist, and its runbook too.
func TestAlerts(t *testing.T) {
	metrics, err := metricslist.Metrics()
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, rule := range alerts(t) {
		require.Regexp(t, `^Ranker[A-Za-z]+$`, rule.Alert)
		require.False(t, seen[rule.Alert], rule.Alert)
		seen[rule.Alert] = true
		assert.Empty(t, faults(rule.Expr, metrics), "%s: %s", rule.Alert, rule.Expr)
		assert.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		assert.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		assert.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		path, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
		assert.Equal(t, strings.ToLower(rule.Alert), anchor)
		assert.Contains(t, read(t, "../"+path), "\n## "+rule.Alert+"\n")
		if rule.Alert == "RankerNotReady" {
			assert.Contains(t, rule.Expr, task.Acquiring.String()+"|"+task.Replaying.String())
		}
	}
	assert.True(t, seen["RankerNotReady"])
}

// dashboard is the form of Grafana's dashboards, as far as it is looked at here.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct{ Name, Query string } `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID          int
	Collapsed   bool
	Panels      []panel // of a collapsed row
	Type        string
	Title       string
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct {
		Defaults struct {
			Thresholds struct {
				Mode  string
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
	}
	Targets []struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	}
}

// colour is that of a value by the panel's thresholds: of the last step that it has reached.
func (p *panel) colour(value float64) (colour string) {
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			colour = step.Color
		}
	}
	return colour
}

// all returns the rows and panels, those of collapsed rows among them.
func (d *dashboard) all() (all []panel) {
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// board is the dashboard.
func board(t *testing.T) (d dashboard, text string) {
	t.Helper()
	text = read(t, "chart/files/dashboard.json")
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d, text
}

// TestDashboard: metrics, labels and variables of its panels exist, and no panel lies on another.
func TestDashboard(t *testing.T) {
	metrics, err := metricslist.Metrics()
	require.NoError(t, err)
	d, text := board(t)
	require.NotEmpty(t, d.UID)
	names := []string{"__rate_interval", "__all"}
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		assert.Contains(t, names, m[1], "no such variable")
	}
	ids, shown := map[int]bool{}, map[string]bool{}
	require.Equal(t, "Worth", d.Panels[0].Title)
	for _, p := range d.Panels[1:] {
		require.Equal(t, p.Type == "row", p.Collapsed, "all rows but the first are folded: %s", p.Title)
	}
	apart(t, d.Panels)
	for _, p := range d.all() {
		require.NotEmpty(t, p.Title)
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		if p.Type == "row" {
			require.Equal(t, p.Collapsed, len(p.Panels) > 0, p.Title)
			apart(t, p.Panels)
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Empty(t, faults(target.Expr, metrics), "%s: %s", p.Title, target.Expr)
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Regexp(t, `by \([^)]*\b`+m[1]+`\b|^(process|go)_`, target.Expr, "%s: the label is not left", p.Title)
			}
			for _, name := range namesIn(t, target.Expr) {
				m, _ := metric(name, metrics)
				shown[m.Name] = true
			}
		}
	}
	for name := range metrics { // metrics without a panel are listed here, so that new ones are not forgotten
		quiet := []string{"ranker_items", "ranker_parked_bytes", "ranker_payoffs_clamped_total",
			"ranker_paid_share", "ranker_payoff_delay_seconds", "ranker_drop_informative", "ranker_partitioners_differ",
			"ranker_misspelt_records_total", "ranker_ended_items_total", "ranker_observation_gaps_total",
			"ranker_lift_timing", "ranker_lift_explained", "ranker_lift_break_even", "ranker_lift_forecast", "ranker_learner_ruled_total"}
		assert.NotEqual(t, slices.Contains(quiet, name), shown[name], name)
	}
	for name := range foreign {
		assert.Equal(t, name != "up", shown[name], name)
	}
}

// TestPayoffPerImpression: the panel and its page agree, and an impression without a selection pays 0 in a range that does not begin there.
func TestPayoffPerImpression(t *testing.T) {
	input := ruleTest{Interval: model.Duration(time.Minute)}
	for name, values := range map[string]string{
		`in_flight_weight{learner="feed"}`:                               "0+1x120",
		`in_flight_payoffs{learner="feed"}`:                              "0+0.25x120",
		`learner_payoff_range{learner="feed",end="min"}`:                 "-10x120",
		`learner_payoff_range{learner="feed",end="max"}`:                 "30x120",
		`learner_impressions_total{learner="feed",outcome="unselected"}`: "0+6x120",
		`learner_impressions_total{learner="feed",outcome="paid"}`:       "0+3x120",
		`learner_payoff_count_total{learner="feed"}`:                     "0+3x120",
		`learner_payoff_sum_total{learner="feed"}`:                       "0+1x120", // 10/3 of each paid selection
		`learner_favourite_shared_count_total{learner="feed"}`:           "0+8x120",
		`learner_favourite_shares_total{learner="feed"}`:                 "0+4x120",
		`learner_favourite_shared_sum_total{learner="feed"}`:             "0+2x120", // 10 of half the impressions
	} {
		input.InputSeries = append(input.InputSeries, inputSeries{"ranker_" + name, values})
	}
	e := evaluation{engine: newEngine(t), data: series(t, &input)}
	d, _ := board(t)
	page := regexp.MustCompile("(?s)\n```\n([ s].*?)```").FindAllStringSubmatch(read(t, "../docs/do/monitor.md"), -1)
	panel := d.Panels[1]
	require.Equal(t, "Payoff per impression, beside ranking by utility", panel.Title)
	require.Len(t, page, len(panel.Targets))
	for k, want := range []float64{1, 5} { // 3·10/3 of 10, and half of 10
		for _, expr := range []string{panel.Targets[k].Expr, page[k][1]} {
			expr = strings.NewReplacer("$namespace", "", "$job", "", "$learner", "feed", "[1d", "[1h").Replace(expr)
			got := e.query(t, expr, 2*time.Hour)
			require.Len(t, got, 1, expr)
			assert.InDelta(t, want, got[0].F, 0.02, expr)
		}
	}
	panel = d.Panels[2]
	require.Equal(t, "Payoff per selection, beside ranking by utility", panel.Title)
	got := e.query(t, strings.NewReplacer("$namespace", "", "$job", "", "$learner", "feed").Replace(panel.Targets[0].Expr), 2*time.Hour)
	require.Len(t, got, 1)
	assert.InDelta(t, 1.25/4, got[0].F, 0.002, "selections in flight count")
}

// apart fails if a panel lies on another.
func apart(t *testing.T, panels []panel) {
	taken := map[[2]int]string{}
	for _, p := range panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Less(t, x, 24, p.Title)
				require.Empty(t, taken[[2]int{x, y}], "%s lies on it", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestDashboardColours: good values are green, and those of alerts are not.
func TestDashboardColours(t *testing.T) {
	d, _ := board(t)
	seen := 0
	for _, p := range d.all() {
		if p.Type != "stat" {
			continue
		}
		assert.Equal(t, "absolute", p.FieldConfig.Defaults.Thresholds.Mode, p.Title)
		for value, want := range map[string]map[float64]string{
			"Stopped": {0: "green", 1: "red", 3: "red"}, "Waiting": {0: "green", 1: "orange"},
			"Dead letters, last hour": {0: "green", 1: "orange"}, "Partitions owned": {0: "red", 1: "green"},
			"Workers": {0: "red", 1: "green"}, "Pending impressions": {0: "blue", 1e6: "blue"},
		}[p.Title] {
			seen++
			assert.Equal(t, want, p.colour(value), "%s: %g", p.Title, value)
		}
	}
	assert.Equal(t, 13, seen)
}
