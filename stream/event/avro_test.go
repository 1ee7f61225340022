package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestAvro_MalformedText: an Avro record is read in Protobuf, which its dead letter does not name.
func TestAvro_MalformedText(t *testing.T) {
	text := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("\xff"))
	candidate := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), text)
	d := event.NewDecoder(event.Limits{})
	for form, reason := range map[event.Form]event.Reason{event.Avro: event.MalformedAvro, event.Protobuf: event.MalformedProtobuf} {
		var f *event.Fault
		require.ErrorAs(t, d.ImpressionIn(new(event.Impression), nil, event.Content{Form: form, Value: candidate, Plain: candidate}), &f)
		require.Equal(t, reason, f.Reason)
		require.ErrorAs(t, d.PayoffIn(new(event.Payoff), nil, event.Content{Form: form, Value: text, Plain: text}), &f)
		require.Equal(t, reason, f.Reason)
	}
}
