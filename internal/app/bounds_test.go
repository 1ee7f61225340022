//go:build !race

package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// TestTheLargestRecordFits: the impression has the most candidates, in the longest record that lint allows. Kafka takes its ranking, and a
// worker reads it back. Redis holds its entry, with as many parked records as are allowed. The learners are of the kinds that record most:
// with propensities, with expected payoffs, and with a learned order.
func TestTheLargestRecordFits(t *testing.T) {
	for policy, more := range map[string]string{"osmd": "", "robust": ", on_expiry: drop, prior: {mean: 0.987654, sd: 0.1}"} {
		for _, utilities := range []string{"given", "sorted", "social"} {
			t.Run(policy+"/"+utilities, func(t *testing.T) { largest(t, policy+more, utilities) })
		}
	}
}

func largest(t *testing.T, learner, utilities string) {
	const candidates, recordBytes, waiting = 100_000, 16 << 20, 16
	cfg, _, err := config.Load("largest.yaml", []byte("kafka: {brokers: ['127.0.0.1:9092']}\nredis: {url: 'redis://127.0.0.1'}\n"+
		fmt.Sprintf("limits: {max_candidates: %d, max_record_bytes: %d}\n", candidates, recordBytes)+
		"learners: {feed: {payoffs: adversarial, policy: "+learner+", utilities: "+utilities+"}}\n"), nil)
	require.NoError(t, err)
	value := []byte(`{"impression_id":"i","candidates":[`)
	for i := range candidates {
		value = fmt.Appendf(value, `{"item":"%0138d","utility":0},`, i)
	}
	value = append(value[:len(value)-1], "]}"...)
	value = append(value, bytes.Repeat([]byte(" "), recordBytes-len(value))...)

	m := machine(t, cfg)
	require.NoError(t, m.Loaded())
	m.KnownComplete()
	var out partition.Output
	r := partition.Record{Topic: event.Impressions, Timestamp: now, Key: []byte("i"), Value: value}
	require.NoError(t, m.Step(&partition.Input{Record: &r, Now: now}, &out))
	require.Empty(t, out.DeadLetters)
	require.Len(t, out.Rankings, 1)
	require.Equal(t, strings.Contains(learner, "robust") && utilities == "given", // the others find the order first
		bytes.Contains(out.Rankings[0].Value, []byte(`"expected":[0.987654,`)))
	ranking := len(out.Rankings[0].Value)
	require.LessOrEqual(t, ranking, recordBytes+63*candidates+1024)
	require.Less(t, ranking+(1<<20), 64<<20, "what a worker reads back")
	require.Less(t, ranking+(1<<20), 100<<20, "socket.request.max.bytes")

	var changes state.Changes
	m.Seal(&changes)
	require.Len(t, changes.Entries, 1)
	entry := len(changes.Entries[0].Value)
	t.Logf("a record of %d bytes: a ranking of %d, an entry of %d", recordBytes, ranking, entry)
	require.LessOrEqual(t, entry, 20*candidates)
	require.Less(t, 20*candidates+waiting*(recordBytes+64), 512<<20, "proto-max-bulk-len")
}
