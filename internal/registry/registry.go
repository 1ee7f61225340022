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
	// mostSchemas bounds the schemas that are remembered, and those that do not fit, each. A schema's id means the same for ever.
	mostSchemas = 10_000
	// mostReferences is how many other schemas one may refer to, at any depth.
	mostReferences = 100
	// mostAtOnce bounds the requests under way, of all partitions.
	mostAtOnce = 16
	// mostFailures ends the asking of one Read: the values behind have to wait in any case.
	mostFailures = 16
	// mostIll bounds the ids that are remembered for failing.
	mostIll = 1000
	// refusedAfter is how long the registry fails to give a schema while it answers for others, until records that name it are refused.
	refusedAfter = 30 * time.Second
	// failingUntil ends a stretch of failures: a failure that comes later begins another. It exceeds the pauses between attempts.
	failingUntil = 20 * time.Second
)

// The registry's own answers, beside HTTP's status, where it has no such schema, subject or version. Any other answer may be of
// something else that stands at the address, or of a registry that is ill.
var codesUnknown = []int{40401, 40402, 40403}

// Options say where the registry is.
type Options struct {
	URL     string
	TLS     *tls.Config   // nil: none
	Formats event.Formats // of the topics
	Context bool          // some learner looks at contexts
	// Login puts a user or a token into a request.
	Login func(*http.Request) error
}

// Reader reads records by the schemas that they name. It is safe for concurrent use.
type Reader struct {
	url     string
	formats event.Formats
	context bool
	client  *sr.Client
	asking  chan struct{} // holds a token for each request under way
	now     func() time.Time

	mu    sync.Mutex
	known map[key]*schema
	unfit map[key]*schema // apart from those known, which these could displace
	ill   map[key]*illness
}

type key struct {
	topic event.Topic
	id    uint32
}

// schema reads the records that name an id, or says why they cannot be read.
type schema struct {
	avro  *avro.Schema // resolved: it reads the writer's values into our fields
	fault *event.Fault
}

// illness is a stretch of failures of one id, during which the registry answered for another.
type illness struct {
	since, last time.Time
	refused     bool
}

// New connects nothing yet.
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

// Read converts each Avro value of a topic to Protobuf, or returns its fault. Other values, nil among them, get an
// empty result. It stops with an error before the first value whose schema the registry does not return. The error
// wraps broker.ErrContent if the registry answers for other schemas.
//
// An unknown id is a fault only if the registry was asked after the value was written: a producer registers a schema
// before it writes.
func (r *Reader) Read(ctx context.Context, topic event.Topic, values [][]byte) ([]broker.Content, error) {
	named := make([]int64, len(values)) // the id that a value names; -1: it needs none
	var ids []uint32
	found := map[uint32]result{}
	for i, v := range values {
		named[i] = -1
		if v == nil || r.formats.Of(topic, v) != event.Avro {
			continue
		}
		id, _, ok := event.SchemaID(v)
		if !ok {
			continue // it is the decoder's to say so
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

// body reads a value by its schema.
func body(topic event.Topic, id uint32, s *avro.Schema, value []byte) (c broker.Content) {
	_, b, _ := event.SchemaID(value)
	plain, rest, err := decode(topic, s, b)
	switch {
	case err != nil:
		c.Fault = faultf(event.MalformedAvro, "by schema %d: %.200q", id, err.Error())
	case rest > 0:
		c.Fault = faultf(event.MalformedAvro, "%d bytes more than schema %d tells of", rest, id)
	default:
		c.Plain = plain
	}
	return c
}

func faultf(reason event.Reason, format string, args ...any) *event.Fault {
	return &event.Fault{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// references loads the schemas that a schema refers to. A fault in one of them shows when the schema itself is
// parsed.
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
