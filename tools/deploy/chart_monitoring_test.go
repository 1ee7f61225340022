package deploy

import (
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestChartThresholds: each threshold is one number of its alert's expression, and values replace it.
func TestChartThresholds(t *testing.T) {
	over := map[string]any{}
	for _, rule := range alerts(t) {
		if number := rule.Annotations["threshold"]; number != "" {
			words := slices.DeleteFunc(strings.Fields(rule.Expr), func(word string) bool { return word != number })
			assert.Len(t, words, 1, rule.Alert)
			over[rule.Alert] = 7.25
		}
	}
	require.Greater(t, len(over), 10)
	text, err := yaml.Marshal(map[string]any{"prometheusRule": map[string]any{"enabled": true, "thresholds": over}})
	require.NoError(t, err)
	r := get[monitoringv1.PrometheusRule](t, rendered(t, values(t, "values.yaml", string(text))), "PrometheusRule ranker-worker")
	for i, rule := range alerts(t) {
		number, got := rule.Annotations["threshold"], r.Spec.Groups[0].Rules[i]
		if number == "" {
			assert.Equal(t, rule.Expr, got.Expr.String())
			continue
		}
		assert.Equal(t, "7.25", got.Annotations["threshold"])
		assert.Equal(t, strings.Fields(rule.Expr), strings.Fields(strings.ReplaceAll(" "+got.Expr.String()+" ", " 7.25 ", " "+number+" ")), rule.Alert)
	}
}

// TestChartMonitoring: the rules and the dashboard are the chart's files, and runbooks are found where the values say.
func TestChartMonitoring(t *testing.T) {
	all := rendered(t, values(t, "values.yaml", everything))
	r := get[monitoringv1.PrometheusRule](t, all, "PrometheusRule ranker-worker")
	require.Len(t, r.Spec.Groups, 1)
	rules := alerts(t)
	require.Len(t, r.Spec.Groups[0].Rules, len(rules))
	for i, rule := range r.Spec.Groups[0].Rules {
		want := rules[i]
		assert.Equal(t, want.Alert, rule.Alert)
		assert.Equal(t, want.Expr, rule.Expr.String())
		assert.Equal(t, want.Labels, rule.Labels)
		if want.For == 0 {
			assert.Nil(t, rule.For)
		} else {
			assert.EqualValues(t, want.For.String(), *rule.For)
		}
		for key, text := range want.Annotations {
			if key == "runbook_url" {
				text = "https://git.example.org/ranker-worker/" + text
			}
			assert.Equal(t, text, rule.Annotations[key], "%s: %s", want.Alert, key)
		}
		assert.Len(t, rule.Annotations, len(want.Annotations), want.Alert)
	}
	board := get[corev1.ConfigMap](t, all, "ConfigMap ranker-worker-dashboard")
	assert.Equal(t, "1", board.Labels["grafana_dashboard"])
	assert.JSONEq(t, read(t, "chart/files/dashboard.json"), board.Data["ranker-worker.json"])
}
