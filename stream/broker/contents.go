package broker

import (
	"context"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Contents reads input records whose values cannot be read alone.
type Contents interface {
	// Reads tells whether it reads a value of a topic; else the value can be read alone.
	Reads(topic event.Topic, value []byte) bool
	// Read makes of a value the same record in Protobuf, or says what is wrong with it. Both must be functions of the value for
	// ever. An error says that it cannot be known at present.
	Read(ctx context.Context, topic event.Topic, value []byte) (plain []byte, f *event.Fault, err error)
}

// read has the records of an answer read. What cannot be read at present fails only where nothing stands before it: else the answer
// ends there, and the next one begins with it.
func (c *Client) read(ctx context.Context, f *task.Fetch, out *task.Fetched) error {
	for i := range out.Records {
		rec := &out.Records[i]
		if rec.Cut != nil || len(rec.Value) > c.o.MaxValue || !c.o.Contents.Reads(f.Topic, rec.Value) {
			continue
		}
		var err error
		if rec.Plain, rec.Fault, err = c.o.Contents.Read(ctx, f.Topic, rec.Value); err == nil {
			continue
		}
		if i == 0 {
			return err
		}
		out.Next, out.LastRead = rec.Offset, false
		out.Records = slices.Clip(out.Records[:i])
		out.Traces = slices.DeleteFunc(out.Traces, func(t task.Trace) bool { return t.Record >= i })
		out.Markers = slices.DeleteFunc(out.Markers, func(m task.Marker) bool { return m.Offset >= out.Next })
		return nil
	}
	return nil
}
