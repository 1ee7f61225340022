package serve

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// propagator reads and writes W3C's headers, traceparent and tracestate.
var propagator propagation.TraceContext

// traced makes a span for each request, as a child of the one in its headers.
func (d *Door) traced(path string, h http.Handler) http.Handler {
	if d.opt.Tracers == nil {
		return h
	}
	return otelhttp.NewHandler(h, path, otelhttp.WithTracerProvider(d.opt.Tracers), otelhttp.WithPropagators(propagator),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()))
}

// traceOf returns a record's trace headers: the request's own span or, if there is none, the one in its headers.
func traceOf(r *http.Request) []task.Header {
	ctx := r.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	var set headerWriter
	propagator.Inject(ctx, &set)
	return set
}

// headerWriter lets a propagator write a record's headers.
type headerWriter []task.Header

var _ propagation.TextMapCarrier = (*headerWriter)(nil)

func (h *headerWriter) Get(string) string { return "" }

func (h *headerWriter) Keys() []string { return nil }

func (h *headerWriter) Set(key, value string) {
	*h = append(*h, task.Header{Key: key, Value: []byte(value)})
}
