package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/ranker-worker/ranker-worker/config"
)

// Provider makes spans and sends them. Its goroutine ends with Close. A nil one makes none.
type Provider struct {
	provider *sdktrace.TracerProvider
	exporter *watched
	log      *slog.Logger
}

// closeTimeout bounds the sending of the last spans.
const closeTimeout = 3 * time.Second

// scope names the spans' instrumentation library.
const scope = "github.com/ranker-worker/ranker-worker"

// New returns nil without an endpoint. It does not connect. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override service and version.
func New(cfg *config.Config, service, version string, log *slog.Logger) (*Provider, error) {
	if !cfg.Traces.On() {
		return nil, nil
	}
	failed := func(err error) error { return fmt.Errorf("%s: %w", cfg.Where("traces.endpoint"), err) }
	to, err := cfg.Traces.URL()
	if err != nil {
		return nil, failed(err)
	}
	res, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(version)), resource.WithFromEnv())
	if err != nil {
		return nil, failed(err)
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(to))
	if err != nil {
		return nil, failed(err)
	}
	w := newWatched(exporter, log)
	return &Provider{sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSampler(newSampler(cfg.Traces.Ratio)),
		sdktrace.WithBatcher(w)), w, log}, nil
}

func (p *Provider) Tracer() trace.Tracer {
	if p == nil {
		return nil
	}
	return p.provider.Tracer(scope)
}

func (p *Provider) Tracers() trace.TracerProvider {
	if p == nil {
		return nil
	}
	return p.provider
}

// Close sends the remaining spans, for a limited time, and ends the provider.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := p.provider.Shutdown(ctx)
	if err == nil {
		return
	}
	p.exporter.cutOff()
	p.log.Warn("the last traces have not been delivered", "error", err)
}

// sampler decides at a trace's root. It samples a batch if one of its records' traces is sampled, so that the trace continues here, and
// otherwise by its share.
type sampler struct{ sdktrace.Sampler }

func newSampler(ratio float64) sampler {
	return sampler{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}
}

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	isSampled := func(l trace.Link) bool { return l.SpanContext.IsSampled() }
	if !trace.SpanContextFromContext(p.ParentContext).IsValid() && slices.ContainsFunc(p.Links, isSampled) {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return s.Sampler.ShouldSample(p)
}
