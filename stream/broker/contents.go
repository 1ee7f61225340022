package broker

import (
	"context"
	"errors"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// ErrContent: this value cannot be read at present, since something it needs is missing. Other values can be read.
var ErrContent = errors.New("this record cannot be read")

// Contents reads input records whose values cannot be read alone.
type Contents interface {
	// Read reads values of a topic in order. For nil, and for a value that can be read alone, it returns an empty Content. It stops before
	// the first value that cannot be read at present, with the error: ErrContent if only this value is affected.
	Read(ctx context.Context, topic event.Topic, values [][]byte) ([]Content, error)
}

// Content is the result of reading a value: the same record in Protobuf, or its fault. Both are functions of the value that never change.
type Content struct {
	Plain []byte
	Fault *event.Fault
}

// read converts the records of an answer. A record that cannot be read at present fails only if it is the first. Otherwise the answer ends
// before it.
func (c *Client) read(ctx context.Context, t event.Topic, out *task.Fetched) error {
	if c.o.Contents == nil || t >= event.Inputs || len(out.Records) == 0 {
		return nil
	}
	values := make([][]byte, len(out.Records))
	for i := range out.Records {
		if rec := &out.Records[i]; rec.Cut == nil && len(rec.Value) <= c.o.MaxValue {
			values[i] = rec.Value
		}
	}
	contents, err := c.o.Contents.Read(ctx, t, values)
	for i := range contents {
		out.Records[i].Plain, out.Records[i].Fault = contents[i].Plain, contents[i].Fault
	}
	read := len(contents)
	if err == nil || read == 0 {
		return err
	}
	out.Next, out.LastRead = out.Records[read].Offset, false
	out.Records = slices.Clip(out.Records[:read])
	out.Traces = slices.DeleteFunc(out.Traces, func(t task.Trace) bool { return t.Record >= read })
	out.Markers = slices.DeleteFunc(out.Markers, func(m task.Marker) bool { return m.Offset >= out.Next })
	return nil
}
