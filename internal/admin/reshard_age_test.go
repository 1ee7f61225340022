package admin

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// reading is a partition that reads records, and stores the outcome of each.
type reading struct {
	t *testing.T
	*writer
	next [event.Inputs]int64
	out  partition.Output
}

func (r *reading) read(topic event.Topic, id string, value []byte, at event.Millis) {
	r.t.Helper()
	found, err := r.find(r.t.Context(), state.IDOf([]byte(id)))
	require.NoError(r.t, err)
	rec := partition.Record{Topic: topic, Offset: r.next[topic], Timestamp: at, Key: []byte(id), Value: value}
	r.next[topic]++
	require.NoError(r.t, r.machine.Step(&partition.Input{Record: &rec, Now: at, Found: found, Read: [event.Inputs]bool{true, true, true}}, &r.out))
	require.Empty(r.t, r.out.DeadLetters)
	require.NoError(r.t, r.flush(r.t.Context()))
}

func (r *reading) impression(id string, at event.Millis) {
	r.read(event.Impressions, id, event.AppendImpression(nil, &event.Impression{ID: []byte(id), HasUtilities: true,
		Candidates: []event.Candidate{{Item: []byte("a")}}}), at)
}

// TestReshard_CarriedSelectionsHaveTheirAge: selections go to a new partition that takes items' ages over from another old one. Most of
// them are paid. The state loads: the features that were added are those that are taken away.
func TestReshard_CarriedSelectionsHaveTheirAge(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [\"127.0.0.1:1\"]}\nredis: {url: \"redis://127.0.0.1:1/0\"}\n"+
		"learners: {feed: {payoffs: stochastic, context: {age: true}}}\n"), nil)
	require.NoError(t, err)
	machine, err := app.MachineConfig(cfg)
	require.NoError(t, err)
	tools := [2]*Tool{}
	for i := range tools { // the old state, and the new one
		tools[i] = &Tool{cfg: cfg, machine: machine, store: memstore.New(rand.Text), now: time.Now, progress: func(string) {}}
	}
	f := &resharding{tool: tools[0], staging: tools[1], source: tools[0], from: 2, to: 3}
	begin := func(tool *Tool, p int32, partitions int) *reading {
		m, err := tool.emptyMachine(p)
		require.NoError(t, err)
		meta := &state.Meta{Layout: task.StateUnfinished, Partitions: partitions, Inputs: make([]state.Position, event.Inputs)}
		w, err := newWriter(t.Context(), tool.store, p, meta, m)
		require.NoError(t, err)
		return &reading{t: t, writer: w}
	}

	const hour, met = int64(3_600_000), int64(1_790_000_000_000)
	ids := [6][]string{} // by hash modulo 6
	for i := range 100 {
		id := fmt.Sprint("i-", i)
		rest := state.KeyHash([]byte(id)) % 6
		ids[rest] = append(ids[rest], id)
	}
	moved := ids[4][:3] // from old partition 0 to new partition 1, which takes the ages over from old partition 1
	for p := range int32(2) {
		old := begin(tools[0], p, 2)
		old.impression(ids[p][0], met)
		for _, id := range moved[:3*(1-p)] {
			old.impression(id, met+hour)
			old.read(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte("a")}), met+hour)
		}
		v, err := tools[0].look(t.Context(), p)
		require.NoError(t, err)
		f.old = append(f.old, v)
	}
	for p := range int32(3) {
		f.new = append(f.new, begin(tools[1], p, 3).writer)
	}
	require.NoError(t, f.merge(t.Context()))

	now := &reading{t: t, writer: f.new[1]}
	for _, id := range moved[:2] {
		now.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1}), met+2*hour)
	}
	require.EqualValues(t, 2, now.machine.Counts()["payoffs.applied"])
	_, err = tools[1].look(t.Context(), 1)
	require.NoError(t, err)
}
