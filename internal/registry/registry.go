package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	requestTimeout = 5 * time.Second
	// mostSchemas is how many schemas are remembered. What a schema's id means never changes, so they are not asked for again.
	mostSchemas = 10_000
	// unknownFor is how long an id counts as unknown without asking again.
	unknownFor = time.Minute
	// mostReferences is how many other schemas one may refer to, at any depth.
	mostReferences = 100
	// codeUnknown is the registry's own answer, beside HTTP's status, where it has no schema of an id. Any other answer may be of
	// something else that stands at the address, or of a registry that is ill.
	codeUnknown = 40403
)

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

	mu    sync.Mutex
	known map[key]*schema
}

type key struct {
	topic event.Topic
	id    uint32
}

// schema is what is known of an id: by what records of it are read, or why they cannot be.
type schema struct {
	avro  *avro.Schema // resolved: it reads what the writer's schema wrote, and gives our fields
	fault *event.Fault
	until time.Time // zero: for ever
}

// New connects nothing yet.
func New(o Options) (*Reader, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS
	opts := []sr.ClientOpt{sr.URLs(o.URL), sr.UserAgent("ranker-worker"), sr.HTTPClient(&http.Client{Timeout: requestTimeout, Transport: transport})}
	if o.Login != nil {
		opts = append(opts, sr.PreReq(o.Login))
	}
	client, err := sr.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &Reader{url: o.URL, formats: o.Formats, context: o.Context, client: client, known: map[key]*schema{}}, nil
}

// Reads tells whether a value is Avro.
func (r *Reader) Reads(topic event.Topic, value []byte) bool {
	return r.formats.Of(topic, value) == event.Avro
}

// Read makes of a record's value the same record in Protobuf, or says what is wrong with it; and fails where the registry does not
// answer, so that nothing is known of the record.
func (r *Reader) Read(ctx context.Context, topic event.Topic, value []byte) (plain []byte, f *event.Fault, err error) {
	id, body, ok := event.SchemaID(value)
	if !ok {
		return nil, nil, nil // it is the decoder's to say so
	}
	s, err := r.schema(ctx, key{topic, id})
	if err != nil {
		return nil, nil, fmt.Errorf("the schema registry at %s cannot be asked for schema %d: %w", r.url, id, err)
	}
	if s.fault != nil {
		return nil, s.fault, nil
	}
	plain, rest, err := decode(topic, s.avro, body)
	switch {
	case err != nil:
		return nil, faultf(event.MalformedAvro, "by schema %d: %.200q", id, err.Error()), nil
	case rest > 0:
		return nil, faultf(event.MalformedAvro, "%d bytes more than schema %d tells of", rest, id), nil
	}
	return plain, nil, nil
}

func faultf(reason event.Reason, format string, args ...any) *event.Fault {
	return &event.Fault{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// schema finds out about an id.
func (r *Reader) schema(ctx context.Context, k key) (*schema, error) {
	r.mu.Lock()
	s := r.known[k]
	r.mu.Unlock()
	if s != nil && (s.until.IsZero() || time.Now().Before(s.until)) {
		return s, nil
	}
	s, err := r.fetch(ctx, k)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostSchemas {
		clear(r.known)
	}
	r.known[k] = s
	return s, nil
}

func (r *Reader) fetch(ctx context.Context, k key) (*schema, error) {
	got, err := r.client.SchemaByID(ctx, int(k.id))
	if answer := (*sr.ResponseError)(nil); errors.As(err, &answer) && answer.ErrorCode == codeUnknown {
		f := faultf(event.UnknownSchema, "the schema registry has no schema %d, which the value's header names", k.id)
		return &schema{fault: f, until: time.Now().Add(unknownFor)}, nil
	}
	if err != nil {
		return nil, err
	}
	if got.Type != sr.TypeAvro {
		return &schema{fault: faultf(event.UnfitSchema, "schema %d is %s, not Avro: see kafka.formats", k.id, got.Type)}, nil
	}
	cache := new(avro.SchemaCache)
	if err := r.references(ctx, cache, got.References, map[sr.SchemaReference]bool{}); err != nil {
		return nil, err
	}
	writer, err := cache.Parse(got.Schema)
	if err == nil {
		writer, err = resolve(k.topic, r.context, writer)
	}
	if err != nil {
		return &schema{fault: faultf(event.UnfitSchema, "schema %d: %.300q", k.id, err.Error())}, nil
	}
	return &schema{avro: writer}, nil
}

// references takes in what a schema refers to. What cannot be parsed there shows when the schema itself is parsed.
func (r *Reader) references(ctx context.Context, cache *avro.SchemaCache, all []sr.SchemaReference, seen map[sr.SchemaReference]bool) error {
	for _, ref := range all {
		if seen[ref] || len(seen) >= mostReferences {
			continue
		}
		seen[ref] = true
		got, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
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
