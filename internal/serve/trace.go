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

// traced has each request make a span, below the one that the request names.
func (d *Door) traced(path string, h http.Handler) http.Handler {
	if d.opt.Tracers == nil {
		return h
	}
	return otelhttp.NewHandler(h, path, otelhttp.WithTracerProvider(d.opt.Tracers), otelhttp.WithPropagators(propagator),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()))
}

// traceOf are the headers by which a record names the trace of the request that it came with: the request's own span or, where none
// is made, that which the request names.
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

// Get is not needed to write.
func (h *headerWriter) Get(string) string { return "" }

// Keys is not needed to write.
func (h *headerWriter) Keys() []string { return nil }

// Set adds a header.
func (h *headerWriter) Set(key, value string) {
	*h = append(*h, task.Header{Key: key, Value: []byte(value)})
}
