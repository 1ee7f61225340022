package deploy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/ranker-worker/ranker-worker/internal/catalog"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// ruleFile is the form of Prometheus' rule files, as far as it is used here.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// promWords are the words of PromQL that are used here: an expression has these, metrics, and labels where labels stand.
var promWords = []string{
	"sum", "min", "max", "avg", "count", "abs", "rate", "increase", "deriv", "histogram_quantile", "min_over_time", "max_over_time", "vector",
	"and", "or", "on",
}

// targetLabels are Prometheus' own, which it adds to what it scrapes.
var targetLabels = []string{"job", "instance"}

var (
	promMetric   = regexp.MustCompile(`ranker_\w+`)
	promMatchers = regexp.MustCompile(`(ranker_\w+)\{([^}]*)\}`)
	promMatcher  = regexp.MustCompile(`^(\w+)(=|!=|=~|!~)"[^"]*"$`)
	promLabels   = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
	promRange    = regexp.MustCompile(`\[(?:\d+[smhd](?::\d+[smhd])?|\$__rate_interval)\]`)
	promWord     = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// faults of an expression: what would make Prometheus refuse it, or find nothing for ever.
func faults(expr string, metrics map[string]catalog.Metric) []string {
	var all []string
	labels := slices.Clone(targetLabels)
	for _, name := range promMetric.FindAllString(expr, -1) {
		m, ok := metric(name, metrics)
		if !ok {
			all = append(all, "no metric "+name)
		}
		labels = append(labels, m.Labels...)
		if m.Type == "histogram" {
			labels = append(labels, "le")
		}
		if m.Type == "counter" && !regexp.MustCompile(`(?:rate|increase)\(`+name+`\b`).MatchString(expr) {
			all = append(all, "a counter without rate or increase: "+name)
		}
	}
	for _, m := range promMatchers.FindAllStringSubmatch(expr, -1) {
		of, _ := metric(m[1], metrics)
		for _, matcher := range strings.Split(m[2], ",") {
			part := promMatcher.FindStringSubmatch(strings.TrimSpace(matcher))
			if part == nil || !slices.Contains(append(of.Labels, targetLabels...), part[1]) {
				all = append(all, fmt.Sprintf("%s has no label for %s", m[1], matcher))
			}
		}
	}
	for _, m := range promLabels.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(m[1], ",") {
			if !slices.Contains(labels, strings.TrimSpace(label)) {
				all = append(all, "no metric here has the label "+label)
			}
		}
	}
	rest := promRange.ReplaceAllString(expr, "")
	for _, pair := range []string{"()", "[]", "{}"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			all = append(all, "brackets that do not match: "+pair)
		}
	}
	if strings.ContainsAny(rest, "[]") {
		all = append(all, "a range that is none")
	}
	rest = promMetric.ReplaceAllString(promLabels.ReplaceAllString(promMatchers.ReplaceAllString(rest, ""), ""), "")
	for _, word := range promWord.FindAllString(rest, -1) {
		if !slices.Contains(promWords, word) {
			all = append(all, "unknown word "+word)
		}
	}
	return all
}

// metric finds what a name in an expression means; histograms appear by their parts only.
func metric(name string, metrics map[string]catalog.Metric) (catalog.Metric, bool) {
	if m, ok := metrics[name]; ok {
		return m, m.Type != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && metrics[base].Type == "histogram" {
			return metrics[base], true
		}
	}
	return catalog.Metric{}, false
}

func TestExpressionsCanBeFaulty(t *testing.T) {
	metrics, err := catalog.Metrics()
	require.NoError(t, err)
	for _, expr := range []string{
		"sum(ranker_lags)", "ranker_retries_total > 0", "sum(ranker_checkpoint_duration_seconds)", "sum by (reason) (ranker_lag)",
		`ranker_lag{reason="x"}`, `ranker_lag{topic=x}`, "sum(ranker_lag", "rate(ranker_retries_total[5 minutes])",
		"summe(ranker_lag)", "rate(ranker_retries_total[5m)",
	} {
		assert.NotEmpty(t, faults(expr, metrics), expr)
	}
	assert.Empty(t, faults(`max by (topic, instance) (ranker_lag{topic=~"a|b"}) > 3 and on (topic) sum by (topic) (ranker_lag)`, metrics))
}

// TestAlerts: the rules file is one, each alert's metrics and labels exist, and its section of the handbook too.
func TestAlerts(t *testing.T) {
	metrics, err := catalog.Metrics()
	require.NoError(t, err)
	var file ruleFile
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, "prometheus/alerts.yaml")), &file))
	handbook := read(t, "../docs/operations.md")
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Name)
	seen := map[string]bool{}
	for _, rule := range file.Groups[0].Rules {
		require.Regexp(t, `^Ranker[A-Za-z]+$`, rule.Alert)
		require.False(t, seen[rule.Alert], rule.Alert)
		seen[rule.Alert] = true
		assert.Empty(t, faults(rule.Expr, metrics), "%s: %s", rule.Alert, rule.Expr)
		assert.Regexp(t, `^$|^\d+[mh]$`, rule.For, rule.Alert)
		assert.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		assert.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		assert.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(rule.Annotations["summary"], -1) {
			assert.Regexp(t, `by \([^)]*\b`+m[1]+`\b`, rule.Expr, "%s: the label is not left", rule.Alert)
		}
		path, anchor, _ := strings.Cut(rule.Annotations["runbook"], "#")
		assert.Equal(t, "docs/operations.md", path, rule.Alert)
		headings := regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(handbook, -1)
		assert.True(t, slices.ContainsFunc(headings, func(h []string) bool {
			return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(h[1]), ",", ""), " ", "-") == anchor
		}), "%s: no section %s", rule.Alert, anchor)
	}
	assert.Contains(t, file.Groups[0].Rules[2].Expr, task.Acquiring.String()+"|"+task.Replaying.String())
}

// dashboard is the form of Grafana's dashboards, as far as it is looked at here.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct{ Name, Query string } `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct {
			RefID        string `json:"refId"`
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		}
	} `json:"panels"`
}

// TestDashboard: metrics, labels and variables of its panels exist, and no panel lies on another.
func TestDashboard(t *testing.T) {
	metrics, err := catalog.Metrics()
	require.NoError(t, err)
	var d dashboard
	text := read(t, "grafana/ranker-worker.json")
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	require.NotEmpty(t, d.UID)
	variables := []string{"__rate_interval", "__all"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		assert.Contains(t, variables, m[1], "no such variable")
	}
	ids, shown := map[int]bool{}, map[string]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Title)
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Less(t, x, 24, p.Title)
				require.Empty(t, taken[[2]int{x, y}], "%s lies on it", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Empty(t, faults(target.Expr, metrics), "%s: %s", p.Title, target.Expr)
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Regexp(t, `by \([^)]*\b`+m[1]+`\b`, target.Expr, "%s: the label is not left", p.Title)
			}
			for _, name := range promMetric.FindAllString(target.Expr, -1) {
				m, _ := metric(name, metrics)
				shown[m.Name] = true
			}
		}
	}
	for name := range metrics { // what is not worth a panel is named here, so that a new metric is thought of
		quiet := []string{"ranker_items", "ranker_parked_bytes", "ranker_misplaced_records_total", "ranker_payoffs_clamped_total",
			"ranker_paid_share", "ranker_payoff_delay_seconds", "ranker_silence_informative"}
		assert.NotEqual(t, slices.Contains(quiet, name), shown[name], name)
	}
}
