package broker

import (
	"encoding/binary"
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

// traced reads the trace in the rest of the present record. Malformed headers give no trace and no error: traces decide nothing, and
// without tracing the headers are not read.
func (r *recordReader) traced() (t task.Trace, err error) {
	n := r.body
	r.body = 0
	b, err := r.take(n, maxTraceHeaders, nil)
	if err != nil {
		return t, err
	}
	return traceIn(b), nil
}

// traceIn returns the trace in headers. The last header of a name counts, as in Kafka's own clients.
func traceIn(b []byte) (t task.Trace) {
	h := headers{b: b}
	for count := h.number(); count > 0 && !h.bad; count-- {
		key, value := h.bytes(), h.bytes()
		switch {
		case h.bad:
		case string(key) == task.TraceParentHeader && len(value) <= maxTraceParent:
			t.Parent = value
		case string(key) == task.TraceStateHeader && len(value) <= maxTraceState:
			t.State = value
		}
	}
	return t
}

// headers reads headers from their bytes, up to the first malformed one.
type headers struct {
	b   []byte
	bad bool
}

func (h *headers) number() int64 {
	v, n := binary.Varint(h.b)
	if n <= 0 {
		h.bad = true
		return 0
	}
	h.b = h.b[n:]
	return v
}

func (h *headers) bytes() []byte {
	n := h.number()
	if h.bad || n < 0 { // null
		return nil
	}
	if n > int64(len(h.b)) {
		h.bad = true
		return nil
	}
	b := h.b[:n:n]
	h.b = h.b[n:]
	return b
}
