// Package bench measures the performance that docs/contribute/benchmarks.md states. The packages below report on the whole
// pipeline.
package bench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// The contents of a partition of BenchmarkTakeover.
const (
	takeoverItems   = 200_000
	takeoverPending = 1_000_000
	pageEntries     = 128 // that a worker puts into one page
)

// BenchmarkTakeover tests the claim that a partition with 200,000 items and 1,000,000 pending impressions is ready
// within a second on loopback. "ready" is the work before the first impression is ranked. "known-ids" is the walk
// behind it; nothing is looked up until it ends. Kafka's part, the fence, takes a few milliseconds more. In partition
// 0 one item in twenty was paid, in partition 1 all were. A selection of each is in flight.
func BenchmarkTakeover(b *testing.B) {
	addr := testenv.OwnRedis(b, server.Options{Args: []string{"--hash-max-listpack-value", "512"}}).Addr
	s, err := redisstore.New(redisstore.Options{Addresses: []string{addr}, Group: "takeover"})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	fillTakeover(b, s, 0, 20, takeoverPending)
	fillTakeover(b, s, 1, 1, 0)
	ready := func(b *testing.B, p int32) {
		b.ReportAllocs()
		for b.Loop() {
			m := takeoverMachine(b)
			_, err := s.Acquire(b.Context(), p, 1, true, nil)
			require.NoError(b, err)
			fields, err := s.Load(b.Context(), p, m.Hashes())
			require.NoError(b, err)
			for _, f := range fields {
				if err := m.Load(f); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, m.Loaded())
			if n := m.Learners()[0].Items; n != takeoverItems {
				b.Fatalf("%d items", n)
			}
		}
	}
	b.Run("ready", func(b *testing.B) { ready(b, 0) })
	b.Run("ready/all-known", func(b *testing.B) { ready(b, 1) })
	b.Run("known-ids", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := takeoverMachine(b)
			for cursor := uint64(0); ; {
				pages, next, err := s.KnownIDs(b.Context(), 0, cursor)
				require.NoError(b, err)
				for i := range pages {
					m.AddKnown(&pages[i])
				}
				if cursor = next; next == 0 {
					break
				}
			}
			m.KnownComplete()
		}
	})
}

func takeoverMachine(b *testing.B) *partition.Machine {
	m, err := partition.New(partition.Config{Group: "takeover", HasSelections: true, MaxRankingBytes: 1 << 20,
		Learners: []partition.LearnerConfig{{Name: "feed", Default: true, PayoffMax: 1,
			New: func() delay.Learner { return delay.NewQPMD(policy.NewGreedy()) }}}})
	require.NoError(b, err)
	return m
}

// fillTakeover stores the state of a machine that has seen all items, of which one in oneIn was paid, with pending
// impressions.
func fillTakeover(b *testing.B, s *redisstore.Store, p int32, oneIn, pending int) {
	meta := state.Meta{Layout: 1, Partitions: 2, Inputs: make([]state.Position, 3)}
	m, err := s.Acquire(b.Context(), p, 1, true, &meta)
	require.NoError(b, err)
	save := func(c state.Changes) {
		require.NoError(b, s.Checkpoint(b.Context(), p, &state.Checkpoint{Fence: m.Fence, ID: fmt.Sprint(m.Seq), Meta: meta, Changes: c}))
		m.Seq++
	}
	const atOnce = 10_000
	value := make([]byte, 62) // about the size of 20 candidates
	for from := 0; from < pending; from += atOnce {
		var c state.Changes
		for i := from; i < from+atOnce; i++ {
			page := uint32(1 + i/pageEntries)
			if i%pageEntries == 0 || i == from {
				c.Pages = append(c.Pages, state.Page{Number: page, Bucket: int64(i / 1000)})
			}
			id := state.IDOf(fmt.Appendf(nil, "impression-%016d", i))
			c.Entries = append(c.Entries, state.Entry{Place: state.Place{Page: page, ID: id}, Value: value})
		}
		save(c)
	}
	met := takeoverMachine(b)
	require.NoError(b, met.Loaded())
	met.KnownComplete()
	var out partition.Output
	for from := 0; from < takeoverItems; from += 20 {
		imp := event.Impression{ID: fmt.Append(nil, "meeting-", from), HasUtilities: true}
		for i := range 20 {
			imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Appendf(nil, "item-%06d", from+i), Utility: float64(i)})
		}
		r := partition.Record{Topic: event.Impressions, Offset: int64(from / 20), Timestamp: 1, Key: imp.ID, Value: event.AppendImpression(nil, &imp)}
		require.NoError(b, met.Step(&partition.Input{Record: &r, Now: 1, Read: [event.Inputs]bool{true, true, true}}, &out))
		require.Empty(b, out.DeadLetters)
		out.Reset()
	}
	var all state.Changes
	met.Seal(&all)
	all.Entries, all.Pages = nil, nil
	save(all)
	for from := 0; from < takeoverItems; from += atOnce {
		var c state.Changes
		for i := from; i < from+atOnce; i += oneIn {
			c.Writes = append(c.Writes, state.Write{Hash: "feed:items", Field: fmt.Appendf(nil, "item-%06d", i),
				Value: fmt.Appendf(nil, `{"no":%d,"n":17,"sum":12.25,"sumsq":9.0625}`, i)},
				state.Write{Hash: "feed:flights", Field: fmt.Append(nil, i), Value: []byte("1")})
		}
		save(c)
	}
}
