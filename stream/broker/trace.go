package broker

import (
	"unsafe"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Bounds of a record's trace, and of the header bytes read for it. W3C lets a tracestate above 512 bytes be dropped; a traceparent has 55.
const (
	maxTraceHeaders = 16 << 10
	maxTraceParent  = 256
	maxTraceState   = 512
)

const traceCost = int64(unsafe.Sizeof(task.Trace{}))

// traceIn returns the trace in headers. Malformed ones give no trace and no error: traces decide nothing, and without tracing the headers
// are not read.
func traceIn(b []byte) (t task.Trace) {
	_ = eachHeader(b, func(name, value []byte) {
		switch {
		case string(name) == task.TraceParentHeader && len(value) <= maxTraceParent:
			t.Parent = value
		case string(name) == task.TraceStateHeader && len(value) <= maxTraceState:
			t.State = value
		}
	})
	return t
}
