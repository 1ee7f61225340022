package serve

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type Metrics struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	substitutes *prometheus.CounterVec
}

// NewMetrics registers the metrics, those with known labels at 0.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ranker_serve_requests_total",
			Help: "Requests to `serve` that were answered, by path and status."}, []string{"path", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ranker_serve_request_seconds",
			Help:    "How long requests to `serve` took, by path.",
			Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}}, []string{"path"}),
		substitutes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ranker_serve_substitutes_total",
			Help: "Impressions that `serve` answered with the order of utilities, by cause."}, []string{"cause"}),
	}
	r.MustRegister(m.requests, m.seconds, m.substitutes)
	for _, path := range paths {
		m.seconds.WithLabelValues(path)
		m.requests.WithLabelValues(path, "503")
	}
	for _, c := range causes {
		m.substitutes.WithLabelValues(string(c))
	}
	return m
}

func (m *Metrics) answered(path string, status int, took time.Duration) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(path).Observe(took.Seconds())
}
