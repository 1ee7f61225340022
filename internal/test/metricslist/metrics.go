// Package metricslist lists what the worker exports, so that pages, alerts and dashboards can be held against it.
package metricslist

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Metric is one of the worker's.
type Metric struct {
	Name   string   // in full, without a histogram's suffixes
	Type   string   // counter, gauge or histogram
	Help   string   // what the worker itself says of it
	Labels []string // in alphabetical order
}

// Metrics registers the worker's metrics as `run` and `serve` do, and lists them by name.
//
// A registry gathers only what has a sample, and does not tell descriptions. So names, help and labels are taken from
// what is registered, and types from what a worker with one running and one stopped partition shows. A metric that such
// a worker does not show is an error: it would be missing in the tests that rest on this list.
func Metrics() (map[string]Metric, error) {
	registry := prometheus.NewRegistry()
	r := &recorder{Registry: registry}
	m := stream.NewMetrics(r)
	stream.RegisterBuildInfo(r, "", "")
	serve.NewMetrics(r)
	stream.RegisterConfigInfo(r, "")
	m.Rebalanced(2)
	running := task.Status{Phase: task.Running, Watermark: 1, ClockKnown: true, Experiments: []partition.ExperimentStatus{{Name: "feed", Decides: true,
		Walked: 1, Control: "control", Arms: []partition.ArmStatus{{Name: "control"}, {Name: "feed", Tripped: true}}}}, Learners: []partition.LearnerStatus{{Name: "feed",
		Drops: partition.UnattributedStatus{Items: 1}, Conduct: partition.UserModel{Payoffs: 1000, Most: 1},
		Context: partition.ContextStatus{Looks: true, UnknownSegments: 1, Clamped: []partition.FeatureCount{{Name: "price", N: 1}}, Missing: 1},
		Status: delay.Status{Instances: 1, Windows: []float64{1}, FindsUtilities: true,
			Silence: delay.SilenceStatus{Law: delay.SilenceAges, Known: true}, Level: delay.LevelStatus{Tracked: true},
			Personal: delay.ContextualStatus{Known: true, Spreads: []delay.Spread{{Name: "price"}}, Groups: []delay.Groups{{Of: "hour", N: 1}}, Since: 1}, Attraction: delay.AttractionStatus{Learned: true, Impressions: 1}}}}}
	stopped := task.Status{Phase: task.Stopped, Reason: task.StopTopic}
	m.Observe(0, &running, &task.Observations{}, 1)
	m.Observe(1, &stopped, &task.Observations{}, 1)
	families, err := registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the worker's metrics: %w", err)
	}
	types := map[string]string{}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	all := map[string]Metric{}
	for _, d := range r.descriptions {
		metric, err := parse(d)
		if err != nil {
			return nil, err
		}
		if metric.Type = types[metric.Name]; metric.Type == "" {
			return nil, fmt.Errorf("metric %s is registered, but a worker at work does not show it", metric.Name)
		}
		all[metric.Name] = metric
	}
	return all, nil
}

// recorder keeps the descriptions of what is registered.
type recorder struct {
	*prometheus.Registry
	descriptions []string
}

// Register is part of prometheus.Registerer.
func (r *recorder) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		r.descriptions = append(r.descriptions, d.String())
	}
	return r.Registry.Register(c)
}

// MustRegister is part of prometheus.Registerer.
func (r *recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err) // as prometheus' own does: a metric of this program registered twice
		}
	}
}

// description is how the library prints one; it gives no other way to read it.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

func parse(d string) (Metric, error) {
	part := description.FindStringSubmatch(d)
	if part == nil {
		return Metric{}, fmt.Errorf("a description of a metric that cannot be read: %s", d)
	}
	m := Metric{Name: part[1], Help: part[2]}
	if part[3] != "" {
		m.Labels = strings.Split(part[3], ",")
		slices.Sort(m.Labels)
	}
	return m, nil
}
