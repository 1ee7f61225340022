// Package metricslist lists the worker's metrics, for checks of pages, alerts and dashboards.
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
	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

type Metric struct {
	Name   string   // without a histogram's suffixes
	Type   string   // counter, gauge or histogram
	Help   string   // the worker's own
	Labels []string // in alphabetical order
}

// Metrics registers the worker's metrics as `run` and `serve` do, and lists them by name.
//
// A registry gathers only metrics with a sample, and has no descriptions. So names, help and labels come from the registration, and types
// from a worker with one running and one stopped partition. A metric that such a worker does not export is an error, since tests with this
// list would miss it.
func Metrics() (map[string]Metric, error) {
	registry := prometheus.NewRegistry()
	r := &recorder{Registry: registry}
	m := stream.NewMetrics(r)
	stream.RegisterBuildInfo(r, "", "")
	serve.NewMetrics(r)
	stream.RegisterConfigInfo(r, "")
	m.Rebalanced(2)
	running := task.Status{Phase: task.Running, Watermark: 1, ClockKnown: true, Experiments: []partition.ExperimentStatus{{Name: "feed", Decides: true,
		Walked: 1, Control: "control", Arms: []partition.ArmStatus{{Name: "control"}, {Name: "feed", Tripped: true,
			Outlook: experiment.Outlook{Units: 1, Timing: experiment.AsControl, End: experiment.End{BreakEven: 2, Forecast: &experiment.Forecast{}}}}}}}, Learners: []partition.LearnerStatus{{Name: "feed",
		Drops: partition.UnattributedStatus{Items: 1}, UserModel: partition.UserModel{Payoffs: 1000, Most: 1},
		Context: partition.ContextStatus{Looks: true, UnknownSegments: 1, Clamped: []partition.FeatureCount{{Name: "price", N: 1}}, Missing: 1},
		Status: delay.Status{Instances: 1, Windows: []float64{1}, FindsUtilities: true,
			Silence: delay.SilenceStatus{Law: delay.SilenceAges, Known: true, Seen: true}, Level: delay.LevelStatus{Tracked: true},
			Contextual: delay.ContextualStatus{Known: true, Spreads: []delay.Spread{{Name: "price"}}, Groups: []delay.Groups{{Of: "hour", N: 1}}, Since: 1}, Attraction: delay.AttractionStatus{Learned: true, Impressions: 1}}}}}
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

// recorder keeps the descriptions of registered metrics.
type recorder struct {
	*prometheus.Registry
	descriptions []string
}

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

func (r *recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err) // as prometheus does: a metric registered twice
		}
	}
}

// description matches the library's text of a description, the only way to read one.
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
