package deploy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// ruleTests is the form of promtool's tests of rules, as far as it is used here: `promtool test rules` runs the same file.
// Promtool itself is no library, and the packages that it is made of bring every cloud's with them.
type ruleTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []ruleTest     `json:"tests"`
}

type ruleTest struct {
	Name          string         `json:"name"`
	Interval      model.Duration `json:"interval"`
	InputSeries   []inputSeries  `json:"input_series"`
	AlertRuleTest []struct {
		EvalTime  model.Duration `json:"eval_time"`
		Alertname string         `json:"alertname"`
		ExpAlerts []firing       `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

type inputSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// firing is an alert that fires.
type firing struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

// TestRules: each alert fires where it should, with these labels and annotations, and does not where all is well. The tests are
// promtool's.
func TestRules(t *testing.T) {
	const path = "../tools/deploy/testdata/alerts_test.yaml"
	var file ruleTests
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, path)), &file))
	require.Equal(t, []string{"../../../deploy/chart/files/alerts.yaml"}, file.RuleFiles)
	engine := newEngine(t)
	rules := map[string]rulefmt.Rule{}
	for _, r := range alerts(t) {
		rules[r.Alert] = r
	}
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) {
			data := series(t, &test)
			for _, c := range test.AlertRuleTest {
				rule, known := rules[c.Alertname]
				require.True(t, known, c.Alertname)
				e := evaluation{engine: engine, data: data, rule: rule}
				got := e.at(t, time.Duration(c.EvalTime), time.Duration(file.EvaluationInterval))
				assert.ElementsMatch(t, c.ExpAlerts, got, "%s at %v", c.Alertname, c.EvalTime)
				fires[c.Alertname] = fires[c.Alertname] || len(got) > 0
				rests[c.Alertname] = rests[c.Alertname] || len(got) == 0
			}
		})
	}
	for name := range rules {
		assert.True(t, fires[name], "no test has %s fire", name)
		assert.True(t, rests[name], "no test has %s not fire", name)
	}
}

func newEngine(t *testing.T) *promql.Engine {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, EnableAtModifier: true, Parser: promQL,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() }})
	t.Cleanup(func() { assert.NoError(t, engine.Close()) })
	return engine
}

// evaluation is of one rule, over time.
type evaluation struct {
	engine *promql.Engine
	data   memory
	rule   rulefmt.Rule
}

// at are the alerts that fire at a time, after evaluations from 0 on: those that were active at each of them for long enough.
func (e *evaluation) at(t *testing.T, end, every time.Duration) []firing {
	t.Helper()
	since := map[string]time.Duration{}
	var got []firing
	for now := time.Duration(0); now <= end; now += every {
		active := map[string]time.Duration{}
		got = nil
		for _, s := range e.query(t, e.rule.Expr, now) {
			key := s.Metric.String()
			active[key] = now
			if began, was := since[key]; was {
				active[key] = began
			}
			if now-active[key] >= time.Duration(e.rule.For) {
				got = append(got, e.fire(t, s, now))
			}
		}
		since = active
	}
	return got
}

func (e *evaluation) query(t *testing.T, expr string, now time.Duration) promql.Vector {
	t.Helper()
	q, err := e.engine.NewInstantQuery(t.Context(), e.data, nil, expr, time.UnixMilli(now.Milliseconds()))
	require.NoError(t, err)
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	require.NoError(t, err, expr)
	return slices.Clone(vector)
}

// fire fills the rule's annotations in. A label that the expression does not leave is an error.
func (e *evaluation) fire(t *testing.T, s promql.Sample, now time.Duration) firing {
	t.Helper()
	of := s.Metric.Map()
	delete(of, model.MetricNameLabel)
	f := firing{Labels: maps.Clone(of), Annotations: map[string]string{}}
	maps.Copy(f.Labels, e.rule.Labels)
	for name, text := range e.rule.Annotations {
		text = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}" + text
		expand := template.NewTemplateExpander(t.Context(), text, e.rule.Alert, template.AlertTemplateData(of, nil, "", s),
			model.Time(now.Milliseconds()), func(context.Context, string, time.Time) (promql.Vector, error) {
				return nil, errors.New("annotations ask nothing")
			}, nil, []string{"missingkey=error"})
		filled, err := expand.Expand()
		require.NoError(t, err, "%s: %s", e.rule.Alert, name)
		f.Annotations[name] = filled
	}
	return f
}

// memory are time series for the engine to ask for.
type memory []storage.Series

var _ storage.Queryable = memory(nil)

// series are those of a test, in promtool's notation.
func series(t *testing.T, test *ruleTest) (all memory) {
	t.Helper()
	for _, in := range test.InputSeries {
		of, values, err := promQL.ParseSeriesDesc(in.Series + " " + in.Values)
		require.NoError(t, err, in.Series)
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sampleAt{int64(i) * time.Duration(test.Interval).Milliseconds(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(of, samples))
	}
	slices.SortFunc(all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return all
}

// Querier implements storage.Queryable.
func (m memory) Querier(_, _ int64) (storage.Querier, error) { return querier{m}, nil }

type querier struct{ all memory }

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, s := range q.all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			set.rest = append(set.rest, s)
		}
	}
	return set
}

// LabelValues implements storage.Querier; the engine does not ask.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames implements storage.Querier; the engine does not ask.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Close implements storage.Querier.
func (querier) Close() error { return nil }

type seriesSet struct{ now, rest []storage.Series }

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.now, s.rest = s.rest[:1], s.rest[1:]
	return true
}
func (s *seriesSet) At() storage.Series              { return s.now[0] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// sampleAt is a number at a time in milliseconds.
type sampleAt struct {
	t int64
	f float64
}

func (s sampleAt) T() int64                    { return s.t }
func (s sampleAt) ST() int64                   { return 0 }
func (s sampleAt) F() float64                  { return s.f }
func (sampleAt) H() *histogram.Histogram       { return nil }
func (sampleAt) FH() *histogram.FloatHistogram { return nil }
func (sampleAt) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sampleAt) Copy() chunks.Sample         { return s }
