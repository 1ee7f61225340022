package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Records in Protobuf and Avro are joined like JSON's, also after a restart
// with other formats. A dead letter that was parked before has its own bytes.
func TestFormats_OfWhatWaits(t *testing.T) {
	cfg := testConfig()
	cfg.Formats = event.Formats{event.Protobuf, event.Avro, event.Protobuf}
	w := newWorld(t, cfg)
	w.now = day
	avro := func(id, item string) Record {
		rec := w.record(event.Selections, id, []byte("\x00\x00\x00\x00\x07"+item), day)
		rec.Plain = event.AppendProtobufSelection(nil, &event.Selection{ID: []byte(id), Item: []byte(item)})
		return rec
	}
	paid := func(id string) []byte {
		return event.AppendProtobufPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 0.5})
	}
	for _, id := range []string{"i-0", "i-1"} {
		require.NoError(t, w.read(event.Payoffs, id, paid(id), day))
	}
	require.NoError(t, w.step(avro("i-0", "a"), day))
	require.NoError(t, w.step(avro("i-1", "other"), day))
	a := w.m.Account()
	require.Equal(t, int64(2), a.Payoffs.Parked)
	require.Equal(t, int64(2), a.Selections.Parked)

	w.save()
	w.cfg.Formats = event.Formats{}
	w.crash()
	for _, id := range []string{"i-0", "i-1"} {
		require.NoError(t, w.read(event.Impressions, id, impression(id, "a"), day))
	}
	a = w.m.Account()
	require.Equal(t, int64(1), a.Payoffs.Applied)
	require.Equal(t, int64(1), a.Selections.Joined)
	require.Equal(t, int64(1), a.Selections.Rejected)
	require.Equal(t, "\x00\x00\x00\x00\x07other", string(w.letters[0].Value))
}

// The shell's decoding of a record is believed. A record of Avro without one is faulty.
func TestFormats_WhatTheShellSays(t *testing.T) {
	cfg := testConfig()
	cfg.Formats = event.Formats{event.Avro, event.Avro, event.Avro}
	w := newWorld(t, cfg)
	w.now = day
	rec := w.record(event.Impressions, "i-0", []byte("\x00\x00\x00\x00\x07x"), day)
	rec.Fault = &event.Fault{Reason: event.UnknownSchema, Detail: "7"}
	require.NoError(t, w.step(rec, day))
	require.NoError(t, w.step(w.record(event.Payoffs, "i-0", []byte("no header"), day), day))
	require.NoError(t, w.read(event.Impressions, "i-1", impression("i-1", "a"), day), "JSON is read too")
	var reasons []string
	for _, l := range w.letters {
		reasons = append(reasons, l.Reason)
	}
	require.Equal(t, []string{"unknown_schema", "malformed_avro"}, reasons)
}
