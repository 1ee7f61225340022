package serve

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/ranker-worker/ranker-worker/docs"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	rankPath       = "/v1/rank"
	selectionsPath = "/v1/selections"
	payoffsPath    = "/v1/payoffs"
	rankingsPath   = "/v1/rankings/{id}"
)

var paths = []string{rankPath, selectionsPath, payoffsPath, rankingsPath}

// answer is a request's result: a body, or a problem.
type answer struct {
	status  int
	body    []byte
	problem *problem
}

// Handler serves /v1. health serves the other paths: probes, and metrics, which need a token if /v1 does.
func (s *Service) Handler(health http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(rankPath, s.traced(rankPath, s.guarded(rankPath, http.MethodPost, s.rank)))
	mux.Handle(selectionsPath, s.traced(selectionsPath, s.guarded(selectionsPath, http.MethodPost, s.selections)))
	mux.Handle(payoffsPath, s.traced(payoffsPath, s.guarded(payoffsPath, http.MethodPost, s.payoffs)))
	mux.Handle(rankingsPath, s.traced(rankingsPath, s.guarded(rankingsPath, http.MethodGet, s.ranking)))
	mux.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		writeBody(w, http.StatusOK, "application/yaml", docs.OpenAPI)
	})
	mux.Handle("GET /livez", health)
	mux.Handle("GET /readyz", health)
	for _, path := range []string{"GET /metrics", "GET /version"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if _, ok := s.guard.known(r); !ok {
				noToken.problem("").write(w)
				return
			}
			health.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { noSuchPath.problem("").write(w) })
	return mux
}

// guarded applies tokens, limits and metrics to a handler.
func (s *Service) guarded(path, method string, handle func(*http.Request) answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		a := s.admitted(r, method, handle)
		switch {
		case a.problem != nil && r.Context().Err() != nil: // the problem may follow from that
			a = answer{status: statusGone}
		case a.problem != nil:
			a.status = a.problem.Status
		}
		s.opt.Metrics.answered(path, a.status, time.Since(start))
		if a.problem == nil {
			writeBody(w, a.status, "application/json", a.body)
			return
		}
		if a.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", method)
		}
		a.problem.write(w)
	})
}

func (s *Service) admitted(r *http.Request, method string, handle func(*http.Request) answer) answer {
	if r.Method != method {
		return answer{problem: otherMethod.problem(method)}
	}
	if p := s.guard.admit(r); p != nil {
		return answer{problem: p}
	}
	return handle(r)
}

// within runs work within serve.concurrency. A request without its body takes no slot.
func (s *Service) within(work func() answer) answer {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return work()
	default:
		return answer{problem: busy.problem("")}
	}
}

// withBody passes the request's body to a handler.
func (s *Service) withBody(r *http.Request, handle func(body []byte) answer) answer {
	most := s.cfg.Serve.MaxBodyBytes
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return answer{problem: notJSON.problem("")}
	}
	if r.ContentLength > most {
		return answer{problem: tooLarge.problem(overLimit(most))}
	}
	body, reserved, p := readBody(http.MaxBytesReader(nil, r.Body, most), s.bodies, most)
	defer s.bodies.Release(reserved)
	if p != nil {
		return answer{problem: p}
	}
	return s.within(func() answer { return handle(body) })
}

// firstBytes is the initial size of a body, which is not reserved.
const firstBytes = 4 << 10

// readBody reads a body. Memory is reserved as its bytes come, so an idle connection holds
// none; the reader's deadline ends such a connection. The caller must release reserved bytes.
func readBody(r io.Reader, room *semaphore.Weighted, most int64) (body []byte, reserved int64, p *problem) {
	body = make([]byte, 0, firstBytes)
	for {
		if len(body) == cap(body) {
			more := int64(cap(body))
			if !room.TryAcquire(more) {
				return nil, reserved, busy.problem("")
			}
			reserved += more
			body = append(make([]byte, 0, 2*cap(body)), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var over *http.MaxBytesError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return body, reserved, nil
		case errors.As(err, &over):
			return nil, reserved, tooLarge.problem(overLimit(most))
		default:
			return nil, reserved, unreadableBody.problem(err.Error())
		}
	}
}

func overLimit(most int64) string {
	return fmt.Sprintf("a body has at most %d bytes (serve.max_body_bytes)", most)
}

type Metrics struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	substitutes *prometheus.CounterVec
}

// NewMetrics registers the metrics, those with known labels at 0.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	m := &Metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{Name: "ranker_serve_requests_total",
			Help: "Requests to `serve` that were answered, by path and status."}, []string{"path", "status"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{Name: "ranker_serve_request_seconds",
			Help:    "How long requests to `serve` took, by path.",
			Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}}, []string{"path"}),
		substitutes: f.NewCounterVec(prometheus.CounterOpts{Name: "ranker_serve_substitutes_total",
			Help: "Impressions that `serve` answered with the order of utilities, by cause."}, []string{"cause"}),
	}
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

// propagator reads and writes W3C's headers, traceparent and tracestate.
var propagator propagation.TraceContext

// traced makes a span for each request, as a child of the one in its headers.
func (s *Service) traced(path string, h http.Handler) http.Handler {
	if s.opt.Tracers == nil {
		return h
	}
	return otelhttp.NewHandler(h, path, otelhttp.WithTracerProvider(s.opt.Tracers), otelhttp.WithPropagators(propagator),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()))
}

// traceOf returns a record's trace headers: the request's own span or, if there is none, the one in its headers.
func traceOf(r *http.Request) []task.Header {
	ctx := r.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	return stream.TraceHeaders(ctx)
}
