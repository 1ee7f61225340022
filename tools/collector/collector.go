// Package collector receives spans by OTLP over HTTP, like an OpenTelemetry collector, for tests.
package collector

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	wire "google.golang.org/protobuf/proto"
)

type Collector struct {
	URL string // for traces.endpoint

	mu    sync.Mutex
	spans []Span
}

type Span struct {
	Service           string
	Name              string
	Kind              proto.Span_SpanKind
	Trace, ID, Parent string
	Attributes        map[string]string
	Links             []string // trace ids
}

// Start starts a collector on loopback, which ends with the test.
func Start(t testing.TB) *Collector {
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collected.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || wire.Unmarshal(body, &request) != nil {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}
		c.take(&request)
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) take(request *collected.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.GetResourceSpans() {
		service := texts(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				span := Span{Service: service, Name: s.GetName(), Kind: s.GetKind(), Trace: hex.EncodeToString(s.GetTraceId()),
					ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Attributes: texts(s.GetAttributes())}
				for _, l := range s.GetLinks() {
					span.Links = append(span.Links, hex.EncodeToString(l.GetTraceId()))
				}
				c.spans = append(c.spans, span)
			}
		}
	}
}

func texts(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}

func (c *Collector) Spans(wanted func(Span) bool) (found []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if wanted(s) {
			found = append(found, s)
		}
	}
	return found
}
