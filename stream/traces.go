package stream

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// traces makes one partition's spans. There is one per fetched batch, until a checkpoint holds the results of its records, with links to
// the spans that its records name. Below it there is one per request to Kafka or Redis. It sees requests and replies only.
//
// A fetch has no span: it mostly waits for records.
type traces struct {
	tracer    trace.Tracer
	group     string
	topics    [event.Topics]string
	partition string

	mu      sync.Mutex
	open    []*tracedBatch // oldest first
	records map[recordID]tracedRecord
}

// tracedBatch is a batch whose records are not all in a checkpoint.
type tracedBatch struct {
	topic       event.Topic
	first, last int64 // offsets
	span        trace.Span
	records     []recordID
}

// recordID identifies a record by topic and id, as in the task's requests.
type recordID struct {
	topic event.Topic
	id    state.ID
}

// tracedRecord is a record of an open batch; its context is invalid without trace headers.
type tracedRecord struct {
	batch   *tracedBatch
	context trace.SpanContext
}

// maxTracedBatches bounds open batches; beyond it the oldest one's span ends early.
const maxTracedBatches = 256

// newTraces returns nil without a tracer.
func newTraces(opt *Options, partition int32) *traces {
	if opt.Tracer == nil {
		return nil
	}
	return &traces{tracer: opt.Tracer, group: opt.Group, topics: opt.TopicNames, partition: strconv.Itoa(int(partition)),
		records: map[recordID]tracedRecord{}}
}

// fetched begins a batch's span, and removes the traces from the task's reply.
func (t *traces) fetched(topic event.Topic, f *task.Fetched) {
	named := f.Traces
	f.Traces = nil
	if topic >= event.Inputs || len(f.Records) == 0 {
		return
	}
	contexts := make(map[int]trace.SpanContext, len(named))
	var links, sampled []trace.Link
	for i := range named {
		c := contextOf(&named[i])
		if !c.IsValid() {
			continue
		}
		contexts[named[i].Record] = c
		link := trace.Link{SpanContext: c, Attributes: []attribute.KeyValue{offset(f.Records[named[i].Record].Offset)}}
		if c.IsSampled() {
			sampled = append(sampled, link)
		} else {
			links = append(links, link)
		}
	}
	b := &tracedBatch{topic: topic, first: f.Records[0].Offset, last: f.Records[len(f.Records)-1].Offset}
	_, b.span = t.tracer.Start(context.Background(), "process "+t.topics[topic], trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(append(links, sampled...)...), // beyond the limit the SDK drops the first
		trace.WithAttributes(append(t.messaging(semconv.MessagingOperationTypeProcess, "process", len(f.Records)),
			semconv.MessagingDestinationName(t.topics[topic]), semconv.MessagingConsumerGroupName(t.group), offset(b.first),
			attribute.Int64("ranker.last_offset", b.last))...))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range f.Records {
		rec := &f.Records[i]
		c, named := contexts[i]
		if rec.Cut != nil || !named && !b.span.IsRecording() {
			continue
		}
		id := recordID{topic, state.IDOf(rec.Key)}
		b.records = append(b.records, id)
		t.records[id] = tracedRecord{b, c}
	}
	if len(b.records) == 0 {
		b.span.End()
		return
	}
	t.open = append(t.open, b)
	if len(t.open) > maxTracedBatches {
		t.end(t.open[0], "not followed any further")
		t.open = slices.Delete(t.open, 0, 1)
	}
}

// end ends a batch's span; why is set if it ends early. The caller removes the batch.
func (t *traces) end(b *tracedBatch, why string) {
	for _, id := range b.records {
		if t.records[id].batch == b {
			delete(t.records, id)
		}
	}
	if why != "" {
		b.span.AddEvent(why)
	}
	b.span.End()
}

func (t *traces) abandon(why string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.open {
		t.end(b, why)
	}
	t.open = nil
}

// request begins the span of a request for some batches: a child of the oldest one's, linked to the others'.
func (t *traces) request(name string, kind trace.SpanKind, isFor func(*tracedBatch) bool, attributes ...attribute.KeyValue) trace.Span {
	t.mu.Lock()
	ctx := context.Background()
	var links []trace.Link
	for _, b := range t.open {
		switch {
		case !b.span.IsRecording() || !isFor(b):
		case trace.SpanFromContext(ctx).IsRecording():
			links = append(links, trace.Link{SpanContext: b.span.SpanContext()})
		default:
			ctx = trace.ContextWithSpan(ctx, b.span)
		}
	}
	t.mu.Unlock()
	if !trace.SpanFromContext(ctx).IsRecording() {
		return trace.SpanFromContext(ctx) // no traced batch: it records nothing
	}
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	return span
}

func (t *traces) looksUp(e *task.LookUp) trace.Span {
	about := map[*tracedBatch]bool{}
	t.mu.Lock()
	for _, place := range e.Places {
		for topic := range event.Topic(event.Inputs) {
			if r, ok := t.records[recordID{topic, place.ID}]; ok {
				about[r.batch] = true
			}
		}
	}
	t.mu.Unlock()
	return t.request("look up", trace.SpanKindClient, func(b *tracedBatch) bool { return about[b] },
		semconv.DBSystemNameRedis, semconv.DBOperationName("look up"), semconv.DBOperationBatchSize(len(e.Places)))
}

// produces begins the span of a produce request, and adds the trace headers of its records; carried reports whether there are any.
func (t *traces) produces(e task.Produce) (span trace.Span, with task.Produce, carried bool) {
	topic, name := e.Topic, "dead letters of "+t.topics[e.Topic]
	attributes := t.messaging(semconv.MessagingOperationTypeSend, "send", len(e.Messages))
	if !e.DeadLetters {
		topic, name = event.Impressions, t.topics[e.Topic]
		attributes = append(attributes, semconv.MessagingDestinationName(name))
	}
	about := map[*tracedBatch]bool{}
	with = e
	t.mu.Lock()
	for i := range e.Messages {
		r, ok := t.records[recordID{topic, state.IDOf(e.Messages[i].Key)}]
		if !ok {
			continue
		}
		about[r.batch] = true
		if !r.context.IsValid() {
			continue
		}
		if !carried {
			with.Messages, carried = slices.Clone(e.Messages), true
		}
		with.Messages[i].Headers = slices.Concat(e.Messages[i].Headers, TraceHeaders(trace.ContextWithRemoteSpanContext(context.Background(), r.context)))
	}
	t.mu.Unlock()
	span = t.request("send "+name, trace.SpanKindProducer, func(b *tracedBatch) bool { return about[b] }, attributes...)
	return span, with, carried
}

func (t *traces) saves(c *state.Checkpoint) trace.Span {
	return t.request("checkpoint", trace.SpanKindClient, func(b *tracedBatch) bool { return b.first < readTo(c, b.topic) },
		semconv.DBSystemNameRedis, semconv.DBOperationName("checkpoint"))
}

// saved ends the spans of batches that a checkpoint holds completely.
func (t *traces) saved(c *state.Checkpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(b *tracedBatch) bool {
		if b.last >= readTo(c, b.topic) {
			return false
		}
		t.end(b, "")
		return true
	})
}

// readTo returns the offset up to which a checkpoint covers a topic.
func readTo(c *state.Checkpoint, topic event.Topic) int64 {
	if int(topic) >= len(c.Meta.Inputs) {
		return -1
	}
	return c.Meta.Inputs[topic].Offset
}

// messaging returns the attributes that OpenTelemetry's conventions require for operations on records.
func (t *traces) messaging(kind attribute.KeyValue, operation string, n int) []attribute.KeyValue {
	return []attribute.KeyValue{semconv.MessagingSystemKafka, kind, semconv.MessagingOperationName(operation),
		semconv.MessagingDestinationPartitionID(t.partition), semconv.MessagingBatchMessageCount(n)}
}

func offset(at int64) attribute.KeyValue { return semconv.MessagingKafkaOffset(int(at)) }

func done(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(semconv.ErrorType(err))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// contextOf returns the trace context of a record's headers, invalid if they are malformed.
func contextOf(r *task.Trace) trace.SpanContext {
	h := propagation.MapCarrier{task.TraceParentHeader: string(r.Parent), task.TraceStateHeader: string(r.State)}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), h))
}

// TraceHeaders returns a record's headers for the trace of ctx, if any.
func TraceHeaders(ctx context.Context) (headers []task.Header) {
	h := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, h)
	for _, key := range []string{task.TraceStateHeader, task.TraceParentHeader} {
		if value := h.Get(key); value != "" {
			headers = append(headers, task.Header{Key: key, Value: []byte(value)})
		}
	}
	return headers
}

// tracedShell is a shell whose requests make spans.
type tracedShell struct {
	shell
	traces *traces
}

var _ task.Shell = tracedShell{}

// Acquire abandons open batches: they are fetched again.
func (s tracedShell) Acquire(e task.Acquire) (state.Meta, error) {
	s.traces.abandon("the partition is acquired again")
	return s.shell.Acquire(e)
}

func (s tracedShell) Fetch(e task.Fetch) (task.Fetched, error) {
	f, err := s.shell.Fetch(e)
	if err == nil {
		s.traces.fetched(e.Topic, &f)
	}
	return f, err
}

func (s tracedShell) LookUp(e task.LookUp) (task.LookedUp, error) {
	span := s.traces.looksUp(&e)
	found, err := s.shell.LookUp(e)
	done(span, err)
	return found, err
}

// Produce has a span, and carries on the traces of its records. The task has not
// counted these headers: if they are too much for the topic, they are left out.
func (s tracedShell) Produce(e task.Produce) (task.Produced, error) {
	span, with, carried := s.traces.produces(e)
	got, err := s.shell.Produce(with)
	if carried && errors.Is(err, task.ErrTooLarge) {
		span.AddEvent("too large with the headers of traces, so it goes without them")
		got, err = s.shell.Produce(e)
	}
	if err == nil && got.BaseOffset >= 0 {
		span.SetAttributes(offset(got.BaseOffset))
	}
	done(span, err)
	return got, err
}

// Checkpoint has a span, and ends those of the batches that it holds completely.
func (s tracedShell) Checkpoint(e task.Checkpoint) error {
	span := s.traces.saves(e.Checkpoint)
	err := s.shell.Checkpoint(e)
	done(span, err)
	if err == nil {
		s.traces.saved(e.Checkpoint)
	}
	return err
}
