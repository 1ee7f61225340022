package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/docs"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// description is docs/openapi.yaml with a finder of a request's operation.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // it is tried wherever it listens
	return doc, nil
})

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := description()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// conforming holds each request and its answer against the description. All tests of this package send through it.
type conforming struct {
	t    testing.TB
	next *http.Transport
}

// CloseIdleConnections is called by http.Client.
func (c conforming) CloseIdleConnections() { c.next.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (c conforming) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(answer))
	c.check(r, body, res, answer)
	return res, nil
}

func (c conforming) check(r *http.Request, body []byte, res *http.Response, answer []byte) {
	find, err := router()
	if !assert.NoError(c.t, err) {
		return
	}
	asked := r.Clone(r.Context())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := find.FindRoute(asked)
	if err != nil { // not described: probes, metrics, other paths and methods
		assert.Contains(c.t, []int{200, 401, 404, 405, 503}, res.StatusCode, r.URL)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}}
	refused := openapi3filter.ValidateRequest(r.Context(), in)
	if res.StatusCode < 300 {
		assert.NoError(c.t, refused, "%s %s: it was taken", r.Method, r.URL)
	}
	assert.NoError(c.t, openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
		Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(answer)), Options: in.Options}),
		"%s %s: %d %s", r.Method, r.URL, res.StatusCode, answer)
}

// TestDescription: it is valid, and served as it stands, without a token.
func TestDescription(t *testing.T) {
	doc, err := description()
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	r := newPlace(t, testenv.Embedded(t), 1, "", "").open(t)
	a := r.do(t, http.MethodGet, "/v1/openapi.yaml", "")
	require.Equal(t, http.StatusOK, a.Status)
	require.Equal(t, string(docs.OpenAPI), string(a.Body))
	var paths []string
	for path := range doc.Paths.Map() {
		paths = append(paths, path)
	}
	require.ElementsMatch(t, []string{"/v1/rank", "/v1/selections", "/v1/payoffs", "/v1/rankings/{id}", "/v1/openapi.yaml"}, paths)
}

// TestDescriptionHasTheRecordsFields: those of docs/schemas, which are held against the decoder.
func TestDescriptionHasTheRecordsFields(t *testing.T) {
	doc, err := description()
	require.NoError(t, err)
	type object struct {
		Required   []string
		Properties map[string]struct{ Items *object }
	}
	for name, file := range map[string]string{"Impression": "impression", "Selection": "selection", "Payoff": "payoff"} {
		text, err := os.ReadFile("../../docs/schemas/" + file + ".json")
		require.NoError(t, err)
		var schema object
		require.NoError(t, json.Unmarshal(text, &schema))
		same := func(want *object, got *openapi3.Schema) {
			require.ElementsMatch(t, want.Required, got.Required, name)
			require.ElementsMatch(t, slices.Collect(maps.Keys(want.Properties)), slices.Collect(maps.Keys(got.Properties)), name)
		}
		got := doc.Components.Schemas[name].Value
		same(&schema, got)
		if items := schema.Properties["candidates"].Items; items != nil {
			same(items, got.Properties["candidates"].Value.Items.Value)
		}
	}
}
