package stream

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// recorded are traces whose spans a test can look at once they have ended.
func recorded(sampler sdktrace.Sampler) (*traces, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sampler))
	return newTraces(&Options{Group: "g", TopicNames: [event.Topics]string{"impressions", "selections", "payoffs", "rankings"},
		Tracer: provider.Tracer("test")}, 3), spans
}

// parent is a traceparent whose trace id ends in n.
func parent(n, sampled int) []byte {
	return fmt.Appendf(nil, "00-%032x-%016x-%02x", n+1, n+1, sampled)
}

// batchOf are n records from an offset on, each with its own id, the named ones with a trace.
func batchOf(topic event.Topic, from int64, n int, named ...int) *task.Fetched {
	f := &task.Fetched{Next: from + int64(n)}
	for i := range n {
		f.Records = append(f.Records, partition.Record{Topic: topic, Offset: from + int64(i), Key: fmt.Appendf(nil, "i%d", from+int64(i))})
	}
	for _, i := range named {
		f.Traces = append(f.Traces, task.Trace{Record: i, Parent: parent(i, 1), State: []byte("v=1")})
	}
	return f
}

func checkpointTo(offsets ...int64) *state.Checkpoint {
	c := &state.Checkpoint{}
	for _, at := range offsets {
		c.Meta.Inputs = append(c.Meta.Inputs, state.Position{Offset: at})
	}
	return c
}

func messagesOf(ids ...string) (all []task.OutMessage) {
	for _, id := range ids {
		all = append(all, task.OutMessage{Key: []byte(id), Headers: []task.Header{{Key: "steps", Value: []byte{1}}}})
	}
	return all
}

func named(spans tracetest.SpanStubs, name string) (all tracetest.SpanStubs) {
	for _, s := range spans {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// TestTracesOfABatch: a batch's span is linked to its records' traces, has its requests below it, and ends when all of it is saved.
func TestTracesOfABatch(t *testing.T) {
	tr, spans := recorded(sdktrace.AlwaysSample())
	first, second := batchOf(event.Impressions, 0, 3, 0, 2), batchOf(event.Impressions, 3, 2, 1)
	tr.fetched(event.Impressions, first)
	tr.fetched(event.Impressions, second)
	require.Empty(t, first.Traces, "what the task is given has none")

	done(tr.looksUp(&task.LookUp{Places: []state.Place{{Page: 1, ID: state.IDOf([]byte("i4"))}}}), nil)
	span, with, carried := tr.produces(task.Produce{Topic: event.Rankings, Messages: messagesOf("i0", "i1", "i3", "i4")})
	done(span, fmt.Errorf("producing: %w", context.DeadlineExceeded))
	require.True(t, carried)
	assert.Equal(t, []task.Header{{Key: "steps", Value: []byte{1}}, {Key: "tracestate", Value: []byte("v=1")}, {Key: "traceparent", Value: parent(0, 1)}},
		with.Messages[0].Headers)
	assert.Len(t, with.Messages[1].Headers, 1, "its impression names no trace")
	assert.Equal(t, parent(1, 1), with.Messages[3].Headers[2].Value)
	save := func(to int64) {
		c := checkpointTo(to, 0, 0)
		done(tr.saves(c), nil)
		tr.saved(c)
	}
	save(2)
	require.Empty(t, named(spans.GetSpans(), "process impressions"), "the first has another record")
	save(3)
	save(5)
	require.Empty(t, tr.open)
	require.Empty(t, tr.records)

	batches := named(spans.GetSpans(), "process impressions")
	require.Len(t, batches, 2)
	require.Equal(t, trace.SpanKindConsumer, batches[0].SpanKind)
	require.Len(t, batches[0].Links, 2)
	require.Equal(t, fmt.Sprintf("%032x", 1), batches[0].Links[0].SpanContext.TraceID().String())
	lookedUp, sent := named(spans.GetSpans(), "look up"), named(spans.GetSpans(), "send rankings")
	require.Equal(t, batches[1].SpanContext.SpanID(), lookedUp[0].Parent.SpanID(), "it is for the second alone")
	require.Equal(t, batches[0].SpanContext.SpanID(), sent[0].Parent.SpanID())
	require.Equal(t, batches[1].SpanContext.SpanID(), sent[0].Links[0].SpanContext.SpanID(), "for both")
	require.Equal(t, "Error", sent[0].Status.Code.String())
	require.Len(t, named(spans.GetSpans(), "checkpoint"), 3)
}

// TestTracesNotSampled: without spans, traces are carried on all the same, and nothing is kept of other records.
func TestTracesNotSampled(t *testing.T) {
	tr, spans := recorded(sdktrace.NeverSample())
	tr.fetched(event.Impressions, batchOf(event.Impressions, 0, 3))
	require.Empty(t, tr.open)
	tr.fetched(event.Impressions, batchOf(event.Impressions, 3, 3, 1))
	require.Len(t, tr.records, 1)
	span, with, carried := tr.produces(task.Produce{Topic: event.Rankings, Messages: messagesOf("i3", "i4")})
	require.False(t, span.IsRecording())
	require.True(t, carried)
	require.Equal(t, parent(1, 1), with.Messages[1].Headers[2].Value)
	done(tr.looksUp(&task.LookUp{}), nil)
	tr.abandon("the end")
	require.Empty(t, tr.records)
	require.Empty(t, spans.GetSpans())
}

// TestTracesAreBounded: links by the SDK's limit, which keeps those to sampled traces; batches by ours. Malformed headers make no link.
func TestTracesAreBounded(t *testing.T) {
	tr, spans := recorded(sdktrace.AlwaysSample())
	f := batchOf(event.Payoffs, 0, 300)
	for i := range f.Records {
		f.Traces = append(f.Traces, task.Trace{Record: i, Parent: parent(i, min(1, i%100))})
	}
	f.Traces[0].Parent = []byte("00-0-0-00")
	for i, p := range []string{"", "00", "zz", string(parent(7, 1)) + "-more"} {
		f.Traces[i+1].Parent = []byte(p)
	}
	tr.fetched(event.Payoffs, f)
	for i := range maxTracedBatches {
		tr.fetched(event.Selections, batchOf(event.Selections, int64(i), 1))
	}
	require.Len(t, tr.open, maxTracedBatches)
	got := spans.GetSpans()
	require.Len(t, got, 1, "the oldest has ended")
	require.Len(t, got[0].Links, 128)
	require.True(t, slices.ContainsFunc(got[0].Links, func(l sdktrace.Link) bool { return l.SpanContext.IsSampled() }))
	require.Equal(t, 300-5-128, got[0].DroppedLinks)
	tr.abandon("the end")
	require.Len(t, spans.GetSpans(), 1+maxTracedBatches)
}

// strict is a log that refuses traces' headers as too much.
type strict struct {
	Log
	got [][]task.OutMessage
}

func (s *strict) Produce(_ context.Context, e task.Produce) (task.Produced, error) {
	s.got = append(s.got, e.Messages)
	if len(e.Messages[0].Headers) > 1 {
		return task.Produced{}, task.ErrTooLarge
	}
	return task.Produced{BaseOffset: 7}, nil
}

// TestTracesNeverRefuseARanking: a batch that is too large with traces goes without them.
func TestTracesNeverRefuseARanking(t *testing.T) {
	tr, spans := recorded(sdktrace.AlwaysSample())
	tr.fetched(event.Impressions, batchOf(event.Impressions, 0, 1, 0))
	log := &strict{}
	s := tracedShell{shell{Executor: Executor{Ctx: t.Context(), Log: log}}, tr}
	messages := messagesOf("i0")
	got, err := s.Produce(task.Produce{Topic: event.Rankings, Messages: messages})
	require.NoError(t, err)
	require.EqualValues(t, 7, got.BaseOffset)
	require.Len(t, log.got, 2)
	require.Len(t, log.got[0][0].Headers, 3)
	require.Equal(t, messages, log.got[1])
	require.Len(t, messages[0].Headers, 1, "the task's own are as they were")
	require.Len(t, spans.GetSpans(), 1)
}

// TestTracesOff: without a tracer nothing is called, and a request costs as much as before.
func TestTracesOff(t *testing.T) {
	l := &loop{w: &Worker{}, traces: newTraces(&Options{}, 0)}
	require.Nil(t, l.traces)
	require.IsType(t, shell{}, l.shell(t.Context()))
	l.traces.abandon("the end")
	bare := testing.AllocsPerRun(100, func() { var s task.Shell = shell{Executor{t.Context(), l.kafka, l.w.opt.Store, l.p}, l}; kept = s })
	require.Equal(t, bare, testing.AllocsPerRun(100, func() { kept = l.shell(t.Context()) }))
}

var kept task.Shell

// BenchmarkTraces measures tracing of a batch of 500 impressions, a tenth of which name traces, without the export.
func BenchmarkTraces(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "unsampled": sdktrace.NeverSample()} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
			tr := newTraces(&Options{Tracer: provider.Tracer("test")}, 0)
			var ids []string
			var which []int
			for i := range 500 {
				ids = append(ids, fmt.Sprintf("i%d", i))
				if i%10 == 0 {
					which = append(which, i)
				}
			}
			messages := messagesOf(ids...)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				f := batchOf(event.Impressions, 0, 500, which...)
				b.StartTimer()
				tr.fetched(event.Impressions, f)
				span, _, _ := tr.produces(task.Produce{Topic: event.Rankings, Messages: messages})
				done(span, nil)
				tr.saved(checkpointTo(500, 0, 0))
			}
		})
	}
}
