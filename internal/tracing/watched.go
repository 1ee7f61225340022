package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Each cause is logged once an hour, up to a number of causes.
const (
	sayEvery   = time.Hour
	mostCauses = 16
)

// watched logs an exporter's failures, a line for each cause, and drops them. It is called by one goroutine.
type watched struct {
	sdktrace.SpanExporter
	log *slog.Logger
	now func() time.Time

	said    map[string]time.Time // causes, and their last log time
	lost    int                  // lost spans since the last message of delivery
	waiting bool                 // for that message
	ended   chan struct{}        // closed after the last export
}

func newWatched(e sdktrace.SpanExporter, log *slog.Logger) *watched {
	return &watched{SpanExporter: e, log: log, now: time.Now, said: map[string]time.Time{}, ended: make(chan struct{})}
}

// Shutdown is called once, after the last export.
func (w *watched) Shutdown(ctx context.Context) error {
	defer close(w.ended)
	return w.SpanExporter.Shutdown(ctx)
}

// cutOff ends the present export, and waits for its end.
func (w *watched) cutOff() {
	_ = w.SpanExporter.Shutdown(context.Background()) // its error says nothing new
	select {
	case <-w.ended:
	case <-time.After(closeTimeout):
	}
}

func (w *watched) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := w.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		w.failed(err, len(spans))
		return nil
	}
	if w.waiting {
		w.log.Info("traces are delivered again", "lost", w.lost)
		w.waiting, w.lost = false, 0
	}
	return nil
}

func (w *watched) failed(err error, spans int) {
	w.lost += spans
	if errors.Is(err, context.Canceled) { // cut off at the end
		return
	}
	c := cause(err)
	last, said := w.said[c]
	if said && w.now().Sub(last) < sayEvery {
		return
	}
	if !said && len(w.said) >= mostCauses {
		clear(w.said)
	}
	w.said[c], w.waiting = w.now(), true
	w.log.Warn("traces are not delivered, and spans are lost; ranking goes on", "error", err, "lost", w.lost)
}

// cause returns an error without numbers, such as the port of a connection.
func cause(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}
