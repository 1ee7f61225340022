package producers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/checker"
)

// registry is a minimal schema registry: schemas are registered and read. While it is away for readers, it answers with 503.
type registry struct {
	mu      sync.Mutex
	schemas []map[string]any // the i-th has the id i+1
	away    atomic.Bool
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	if id, ok := strings.CutPrefix(req.URL.Path, "/schemas/ids/"); ok && req.Method == http.MethodGet {
		n, _ := strconv.Atoi(id)
		switch {
		case r.away.Load():
			http.Error(w, `{"error_code":50002,"message":"away"}`, http.StatusServiceUnavailable)
		case n < 1 || n > len(r.schemas):
			http.Error(w, `{"error_code":40403,"message":"Schema not found"}`, http.StatusNotFound)
		default:
			_ = json.NewEncoder(w).Encode(r.schemas[n-1])
		}
		return
	}
	if req.Method != http.MethodPost { // other calls, which clients make to newer registries
		http.Error(w, `{"error_code":404,"message":"HTTP 404 Not Found"}`, http.StatusNotFound)
		return
	}
	var schema map[string]any
	if err := json.NewDecoder(req.Body).Decode(&schema); err != nil {
		http.Error(w, `{"error_code":422,"message":"no schema"}`, http.StatusUnprocessableEntity)
		return
	}
	schema["id"], schema["version"] = r.register(schema), 1
	schema["subject"] = strings.Split(req.URL.Path, "/")[2]
	_ = json.NewEncoder(w).Encode(schema)
}

// register gives a schema its id.
func (r *registry) register(schema map[string]any) int {
	for i, s := range r.schemas {
		if s["schema"] == schema["schema"] {
			return i + 1
		}
	}
	known := map[string]any{"schema": schema["schema"]}
	if kind, ok := schema["schemaType"]; ok {
		known["schemaType"] = kind
	}
	r.schemas = append(r.schemas, known)
	return len(r.schemas)
}

// javasSchema has the fields in another order than ours, and calls the record and one of them otherwise.
const javasSchema = `{"type":"record","name":"Clicked","namespace":"com.example","fields":[{"name":"item","type":"string"},
	{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"impression_id","type":{"type":"string","avro.java.string":"String"}}]}`

// Impressions in Protobuf and selections in Avro, as Confluent's serializers for Python and Apache's and Google's for Java write them,
// beside payoffs in JSON, are read, ranked and joined. While the registry is away selections wait, and an id that it does not know
// is a dead letter.
func TestSerializersOfOthers(t *testing.T) {
	if testenv.Short() {
		t.Skip("needs other languages' serializers and a real Kafka: make test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	env := testenv.Real(t)
	const partitions, records = 2, 50
	schemas := &registry{}
	schemas.away.Store(true)
	javasID := schemas.register(map[string]any{"schema": javasSchema})
	server := httptest.NewServer(schemas)
	defer server.Close()
	g := newGroupWith(t, env, partitions, true,
		"  formats: {impressions: protobuf, selections: avro}\n  schema_registry: {url: '"+server.URL+"'}")
	prefix := g.cfg.Kafka.Group + "-"

	python, jars, modules := serializers(ctx, t)
	run := func(name string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		require.NoError(t, err, "%s", tail(string(out)))
	}
	run(python, filepath.Join("testdata", "serialize.py"), env.Kafka, server.URL, prefix, modules, strconv.Itoa(records))
	java, err := realkafka.Java(ctx)
	require.NoError(t, err)
	run(java, "-XX:TieredStopAtLevel=1", "-cp", jars, filepath.Join("testdata", "Serialize.java"), env.Kafka, prefix,
		filepath.Join(modules, "ranker.desc"), strconv.Itoa(records), strconv.Itoa(javasID), javasSchema)
	w := &kafka.Writer{Transport: testenv.Transport(t, g.cfg.Kafka.Topics.Selections), Addr: kafka.TCP(env.Kafka),
		Topic: g.cfg.Kafka.Topics.Selections, RequiredAcks: kafka.RequireAll, BatchSize: 1, Balancer: kafka.Murmur2Balancer{}}
	require.NoError(t, w.WriteMessages(ctx, kafka.Message{Key: []byte("java-0"), Value: []byte("\x00\x00\x00\x03\xe7whatever")}))
	require.NoError(t, w.Close())

	var log testworker.Log
	metrics := prometheus.NewRegistry()
	worker := testworker.Start(t, g.cfg, app.Options{Registry: metrics,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
	has := func(name, label, value string, want float64) {
		t.Helper()
		require.Eventually(t, func() bool { return total(t, metrics, name, label, value) == want }, deadline, 20*time.Millisecond,
			"%s %s is not %v but %v\n%s", name, value, want, total(t, metrics, name, label, value), tail(log.String()))
	}
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), "the schema registry at "+server.URL+" does not give schema")
	}, deadline, 20*time.Millisecond, "the log says what is waited for")
	require.Zero(t, total(t, metrics, "ranker_selections_total", "outcome", "joined"))
	require.Zero(t, total(t, metrics, "ranker_selections_total", "outcome", "rejected"))
	schemas.away.Store(false)
	has("ranker_selections_total", "outcome", "joined", 2*records)
	has("ranker_payoffs_total", "outcome", "applied", 2*records)
	has("ranker_selections_total", "outcome", "rejected", 1)
	worker.Stop(t)

	ranked := map[string]bool{}
	for p := range int32(partitions) {
		for _, r := range g.all(ctx, t, event.Rankings, p) {
			var ranking struct{ Items []string }
			require.NoError(t, json.Unmarshal(r.Value, &ranking))
			require.Equal(t, []string{"b", "a"}, ranking.Items, "by utility, the learner's policy")
			ranked[string(r.Key)] = true
		}
	}
	for i := range records {
		require.True(t, ranked[fmt.Sprintf("python-%d", i)] && ranked[fmt.Sprintf("java-%d", i)], i)
	}
	report, err := checker.Check(ctx, checker.Options{Config: g.cfg})
	require.NoError(t, err)
	require.True(t, report.OK(), "%+v", report)
}

// serializers returns Python with Confluent's serializers, Java's class path, and protoc's output for our schema.
func serializers(ctx context.Context, t *testing.T) (python, jars, modules string) {
	t.Helper()
	cache, err := realkafka.CacheDir()
	require.NoError(t, err)
	python = filepath.Join(cache, "serializers", "bin", "python")
	_, err = os.Stat(python)
	require.NoError(t, err, "Confluent's serializers are not installed: make tools")
	clients, err := realkafka.Fetch(ctx)
	require.NoError(t, err)
	jars = filepath.Join(clients, "*") + string(os.PathListSeparator) + filepath.Join(cache, "serializers-java", "*")
	modules = t.TempDir()
	schema := filepath.Join("..", "..", "docs", "schemas")
	out, err := exec.CommandContext(ctx, python, "-m", "grpc_tools.protoc", "-I"+schema, "--python_out="+modules,
		"--descriptor_set_out="+filepath.Join(modules, "ranker.desc"), "--include_imports", filepath.Join(schema, "ranker.proto")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return python, jars, modules
}
