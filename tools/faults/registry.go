package faults

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// IDs of schemas with special answers of the registry, which has no others.
const (
	brokenSchema = 7 // 500
	oddSchema    = 8 // 404 without an error code
)

// withRegistry is a group of its own with payoffs in Avro, and a registry that fails for some schemas. In each partition
// records name these, an unknown one, and an impossible one. They become dead letters, and later records are processed.
func withRegistry() Fault {
	return Fault{Kind: "registry fails for one schema", Uses: ownGroup, Takes: 75 * time.Second,
		Inject: func(ctx context.Context, scene *Scene) {
			server := httptest.NewServer(http.HandlerFunc(failingRegistry))
			defer server.Close()
			isolatedRun{do: func(ctx context.Context, s *isolated) { s.sendUnknownSchemas(ctx, server.URL) }}.runOn(ctx, scene)
		}}
}

func failingRegistry(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%d", brokenSchema)):
		http.Error(w, "broken", http.StatusInternalServerError)
	case strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%d", oddSchema)):
		http.NotFound(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
	}
}

// sendUnknownSchemas configures a registry for payoffs, and waits until records of failing schemas are refused.
func (s *isolated) sendUnknownSchemas(ctx context.Context, registry string) {
	const start = "  start: earliest\n"
	s.reconfigure(start, start+"  formats: {payoffs: avro}\n  schema_registry: {url: '"+registry+"'}\n")
	before := get(s.Account(ctx))
	client := get(s.c.client(kgo.RecordPartitioner(kgo.ManualPartitioner())))
	defer client.Close()
	var sent []*kgo.Record
	for p := range int32(s.Partitions) {
		for _, id := range []uint32{brokenSchema, oddSchema, 9, math.MaxUint32} {
			sent = append(sent, &kgo.Record{Topic: s.Topics[event.Payoffs], Partition: p, Key: fmt.Appendf(nil, "odd-%d-%d", p, id),
				Value: binary.BigEndian.AppendUint32([]byte{0}, id)})
		}
	}
	try(client.ProduceSync(ctx, sent...).FirstErr())
	refused, applied := int64(0), int64(0)
	err := until(ctx, 90*time.Second, "records of unknown schemas are refused", func() (bool, error) {
		account, err := s.Account(ctx)
		refused, applied = account["payoffs.rejected"]-before["payoffs.rejected"], account["payoffs.applied"]-before["payoffs.applied"]
		return refused >= int64(len(sent)) && applied > 0, err
	})
	if err != nil && ctx.Err() == nil { // producers wait for a broker that hangs
		err = s.unlessHung(violated("of %d records of unknown schemas %d were refused, and %d payoffs applied since: %v", len(sent), refused, applied, err))
	}
	try(err)
}
