package broker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

var errAway = errors.New("away")

// halfway reads values that begin with '+', refuses '-', cannot read '?' at present, and leaves others alone.
type halfway struct{}

func (halfway) Read(_ context.Context, _ event.Topic, values [][]byte) (out []Content, err error) {
	for _, v := range values {
		switch {
		case v == nil || v[0] == '{':
			out = append(out, Content{})
		case v[0] == '+':
			out = append(out, Content{Plain: v[1:]})
		case v[0] == '-':
			out = append(out, Content{Fault: &event.Fault{Reason: event.MalformedAvro}})
		default:
			return out, errAway
		}
	}
	return out, nil
}

// An answer ends before the first record that cannot be read at present, and fails only where it is the first.
func TestContents(t *testing.T) {
	c := &Client{o: Options{Contents: halfway{}, MaxValue: 5}}
	answer := func(values ...string) *task.Fetched {
		f := &task.Fetched{Next: 20, High: 20, LastRead: true, Markers: []task.Marker{{Offset: 11}, {Offset: 19}},
			Traces: []task.Trace{{Record: 1}, {Record: 3}}}
		for i, v := range values {
			f.Records = append(f.Records, partition.Record{Offset: 10 + 2*int64(i), Value: []byte(v)})
		}
		return f
	}
	f := answer("{}", "+a", "-", "?too long", "+b")
	f.Records[4].Cut = &partition.Cut{}
	require.NoError(t, c.read(t.Context(), event.Payoffs, f))
	require.Len(t, f.Records, 5)
	require.Len(t, f.Traces, 2)
	require.Equal(t, int64(20), f.Next)
	require.Nil(t, f.Records[0].Plain)
	require.Equal(t, "a", string(f.Records[1].Plain))
	require.Equal(t, event.MalformedAvro, f.Records[2].Fault.Reason)
	require.Nil(t, f.Records[4].Plain, "what is cut off is too long in any case")

	f = answer("{}", "+a", "?", "+b")
	require.NoError(t, c.read(t.Context(), event.Payoffs, f))
	require.Len(t, f.Records, 2)
	require.Equal(t, int64(14), f.Next)
	require.False(t, f.LastRead)
	require.Equal(t, []task.Marker{{Offset: 11}}, f.Markers)
	require.Equal(t, []task.Trace{{Record: 1}}, f.Traces, "of the records that are given")

	require.ErrorIs(t, c.read(t.Context(), event.Payoffs, answer("?", "+b")), errAway)
}
