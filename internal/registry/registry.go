package registry

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	requestTimeout = 5 * time.Second
	// mostSchemas bounds the schemas in memory, and those that do not fit, each. A schema's id never changes its meaning.
	mostSchemas = 10_000
	// mostReferences bounds the schemas that one may refer to, at any depth.
	mostReferences = 100
	// mostAtOnce bounds concurrent requests, of all partitions.
	mostAtOnce = 16
	// mostFailures ends the requests of one Read: later values have to wait in any case.
	mostFailures = 16
	// mostIll bounds the failing ids in memory.
	mostIll = 1000
	// refusedAfter is the time after which records are refused whose schema the registry fails to return while it answers for others.
	refusedAfter = 30 * time.Second
	// failingUntil ends a period of failures: a later failure begins another. It exceeds the pauses between attempts.
	failingUntil = 20 * time.Second
)

// The registry's own codes, beside HTTP's status, for an unknown schema, subject or version. Any other answer may come from another server,
// or from a failing registry.
var codesUnknown = []int{40401, 40402, 40403}

type Options struct {
	URL     string
	TLS     *tls.Config   // nil: none
	Formats event.Formats // of the topics
	Context bool          // some learner looks at contexts
	// Login adds a user or a token to a request.
	Login func(*http.Request) error
}

// Reader reads records by their schemas. It is safe for concurrent use.
type Reader struct {
	url     string
	formats event.Formats
	context bool
	client  *sr.Client
	asking  chan struct{} // a token for each request in flight
	now     func() time.Time

	mu    sync.Mutex
	known map[key]*schema
	unfit map[key]*schema // apart from the known ones, which these could displace
	ill   map[key]*illness
}

type key struct {
	topic event.Topic
	id    uint32
}

// schema reads the records of an id, or holds the reason to refuse them.
type schema struct {
	avro  *avro.Schema // resolved: reads the writer's values into our fields
	fault *event.Fault
}

// illness is a period of failures of one id, during which the registry answered for another.
type illness struct {
	since, last time.Time
	refused     bool
}

func New(o Options) (*Reader, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS
	transport.MaxIdleConnsPerHost = mostAtOnce
	opts := []sr.ClientOpt{sr.URLs(o.URL), sr.UserAgent("ranker-worker"), sr.HTTPClient(&http.Client{Timeout: requestTimeout, Transport: transport})}
	if o.Login != nil {
		opts = append(opts, sr.PreReq(o.Login))
	}
	client, err := sr.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &Reader{url: o.URL, formats: o.Formats, context: o.Context, client: client, asking: make(chan struct{}, mostAtOnce), now: time.Now,
		known: map[key]*schema{}, unfit: map[key]*schema{}, ill: map[key]*illness{}}, nil
}

// Read converts each Avro value of a topic to Protobuf, or returns its fault. Other values, nil among them, get an empty result. It stops
// with an error before the first value whose schema the registry does not return. The error wraps broker.ErrContent if the registry answers
// for other schemas.
//
// An unknown id is a fault only if the registry was asked after the value was written: a producer registers a schema before it writes.
func (r *Reader) Read(ctx context.Context, topic event.Topic, values [][]byte) ([]broker.Content, error) {
	named := make([]int64, len(values)) // schema ids; -1: none
	var ids []uint32
	found := map[uint32]result{}
	for i, v := range values {
		named[i] = -1
		if v == nil || r.formats.Of(topic, v) != event.Avro {
			continue
		}
		id, _, ok := event.SchemaID(v)
		if !ok {
			continue // the decoder refuses it
		}
		named[i] = int64(id)
		if _, seen := found[id]; !seen {
			found[id] = result{err: errNotAsked}
			ids = append(ids, id)
		}
	}
	r.schemas(ctx, topic, ids, found)
	out := make([]broker.Content, 0, len(values))
	for i, v := range values {
		if named[i] < 0 {
			out = append(out, broker.Content{})
			continue
		}
		id := uint32(named[i])
		s := found[id]
		switch {
		case s.err != nil:
			return out, fmt.Errorf("the schema registry at %s does not give schema %d: %w", r.url, id, s.err)
		case s.schema.fault != nil:
			out = append(out, broker.Content{Fault: s.schema.fault})
		default:
			out = append(out, body(topic, id, s.schema.avro, v))
		}
	}
	return out, nil
}

func body(topic event.Topic, id uint32, s *avro.Schema, value []byte) (c broker.Content) {
	_, b, _ := event.SchemaID(value)
	plain, rest, err := decode(topic, s, b)
	switch {
	case err != nil:
		c.Fault = faultf(event.MalformedAvro, "by schema %d: %.200q", id, err.Error())
	case rest > 0:
		c.Fault = faultf(event.MalformedAvro, "%d bytes more than schema %d describes", rest, id)
	default:
		c.Plain = plain
	}
	return c
}

func faultf(reason event.Reason, format string, args ...any) *event.Fault {
	return &event.Fault{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// references loads the schemas that a schema refers to. Their faults show when the schema itself is parsed.
func (r *Reader) references(ctx context.Context, cache *avro.SchemaCache, all []sr.SchemaReference, seen map[sr.SchemaReference]bool) error {
	for _, ref := range all {
		if seen[ref] || len(seen) >= mostReferences {
			continue
		}
		seen[ref] = true
		got, err := r.client.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), ref.Subject, ref.Version)
		if err != nil {
			return fmt.Errorf("which refers to version %d of %s: %w", ref.Version, ref.Subject, err)
		}
		if err := r.references(ctx, cache, got.References, seen); err != nil {
			return err
		}
		_, _ = cache.Parse(got.Schema.Schema)
	}
	return nil
}
