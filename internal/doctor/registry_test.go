package doctor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/doctor"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestRegistry: with Avro, the schema registry is asked with the configured user and TLS. Without Avro it is not asked.
func TestRegistry(t *testing.T) {
	serves, ca := certificate(t)
	registry := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, code := http.StatusNotFound, 40403 // an unknown schema
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			status, code = http.StatusUnauthorized, 40101
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error_code":%d,"message":"m"}`, code)
	}))
	registry.TLS = serves
	registry.StartTLS()
	t.Cleanup(registry.Close)
	s := of(t, testenv.Embedded(t))
	lines, _ := s.examine(t, doctor.Options{})
	require.NotContains(t, lines, " registry: ")

	avro := func(url, more string) {
		s.kafka = fmt.Sprintf("formats: {impressions: avro}\n  schema_registry: {url: %q%s}", url, more)
	}
	avro("http://127.0.0.1:9", "")
	s.finds(t, doctor.Options{}, [2]string{"fault registry", "http://127.0.0.1:9 gives no schemas, and Avro records would wait: "})
	avro(registry.URL, ", username: u, password: p")
	s.finds(t, doctor.Options{}, [2]string{"fault registry", "certificate"})
	tls := fmt.Sprintf(", tls: {ca_file: %q}", ca)
	avro(registry.URL, tls+", username: u, password: x")
	s.finds(t, doctor.Options{}, [2]string{"fault registry", "see kafka.schema_registry"})
	avro(registry.URL, tls+", username: u, password: p")
	s.finds(t, doctor.Options{}, [2]string{"ok registry", registry.URL + " answers a worker's request"})
}
