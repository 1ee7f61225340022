package tracing

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/config"
)

func configured(endpoint string) *config.Config {
	c := config.Defaults()
	c.Traces.Endpoint = endpoint
	return &c
}

// TestOff: without an endpoint there is no provider and no goroutine, and a nil provider can be used.
func TestOff(t *testing.T) {
	defer goleak.VerifyNone(t)
	p, err := New(configured(""), "s", "v", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Nil(t, p)
	require.True(t, p.Tracer() == nil && p.Tracers() == nil, "an interface that holds a nil is none")
	p.Close()
}

// TestDelivers over TLS, by a certificate that OpenTelemetry's variable names, with its headers.
func TestDelivers(t *testing.T) {
	var got atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/otlp/v1/traces" && r.Header.Get("Authorization") == "Bearer secret" {
			got.Add(1)
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20secret")
	var log bytes.Buffer
	p, err := New(configured(server.URL+"/otlp"), "s", "v", slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	_, span := p.Tracer().Start(context.Background(), "a")
	span.End()
	p.Close()
	require.EqualValues(t, 1, got.Load(), "Close sends what is left: %s", log.String())
	require.Empty(t, log.String())
}

// TestCollectorAway: nobody waits for one that does not answer, neither with spans nor at the end, and nothing is left of it.
func TestCollectorAway(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	// The exporter keeps connections for a while that nobody needs any more, as all HTTP clients do.
	defer goleak.VerifyNone(t, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	var log bytes.Buffer
	p, err := New(configured("http://"+silent.Addr().String()), "s", "v", slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for range 100_000 { // many times the queue
		_, span := p.Tracer().Start(context.Background(), "a")
		span.End()
	}
	p.Close()
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "the last traces have not been delivered")
}

// TestFailuresAreSaidOnce: a line for each cause, whatever its numbers, and one when it is over.
func TestFailuresAreSaidOnce(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(0, 0)
	var fails error
	w := newWatched(exporterFunc(func() error { return fails }), slog.New(slog.NewTextHandler(&log, nil)))
	w.now = func() time.Time { return now }
	export := func(err error) {
		fails = err
		require.NoError(t, w.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 10)))
	}
	says := func(n int, text string) {
		t.Helper()
		require.Equal(t, n, strings.Count(log.String(), text), log.String())
	}
	for port := range 100 {
		export(fmt.Errorf("read 127.0.0.1:%d: refused", port))
	}
	export(errors.New("400 Bad Request"))
	says(2, "traces are not delivered")
	export(nil)
	export(nil)
	says(1, "delivered again\" lost=1010")
	export(errors.New("400 Bad Request"))
	says(2, "traces are not delivered")
	now = now.Add(sayEvery)
	export(errors.New("400 Bad Request"))
	says(3, "traces are not delivered")
	for i := range 5 * mostCauses {
		export(errors.New(strings.Repeat("x", i+1)))
	}
	require.LessOrEqual(t, len(w.said), mostCauses)
}

type exporterFunc func() error

func (f exporterFunc) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f() }
func (f exporterFunc) Shutdown(context.Context) error                             { return nil }

// TestSampler: a batch with a sampled record is sampled, at any share; child spans follow their parent.
func TestSampler(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(newSampler(0))).Tracer("t")
	of := func(flags trace.TraceFlags) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags})
	}
	records := func(ctx context.Context, links ...trace.Link) bool {
		_, span := tracer.Start(ctx, "a", trace.WithLinks(links...))
		defer span.End()
		return span.IsRecording()
	}
	sampled, unsampled := trace.Link{SpanContext: of(trace.FlagsSampled)}, trace.Link{SpanContext: of(0)}
	require.False(t, records(t.Context()))
	require.False(t, records(t.Context(), unsampled))
	require.True(t, records(t.Context(), unsampled, sampled))
	require.False(t, records(trace.ContextWithRemoteSpanContext(t.Context(), of(0)), sampled))
	require.True(t, records(trace.ContextWithRemoteSpanContext(t.Context(), of(trace.FlagsSampled))))
}
