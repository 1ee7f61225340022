// Package tracing sends spans of packages stream and serve to a collector, by OTLP over HTTP. Without an endpoint there is no provider, and
// no spans.
package tracing
