// Package tracing sends spans to a collector, by OTLP over HTTP. Spans are made by packages stream and serve; without an endpoint
// there is no provider, and they make none.
package tracing
