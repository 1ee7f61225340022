package partition

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// BenchmarkGrowth measures an impression, and an item of a partition, with many partitions and many items in a
// process. Shared names, pooled state and pages keep the cost from growing. Impressions go to partitions a thousand at
// a time, and published changes are read after each turn. With "paid" an item of each impression is selected and paid.
func BenchmarkGrowth(b *testing.B) {
	for _, size := range []struct {
		partitions, items int
		paid              bool
	}{{6, 2_000, false}, {6, 200_000, false}, {64, 200_000, false}, {24, 20_000, true}, {64, 20_000, true}} {
		b.Run(fmt.Sprintf("partitions=%d/items=%d/paid=%v", size.partitions, size.items, size.paid), func(b *testing.B) {
			benchmarkGrowth(b, size.partitions, size.items, size.paid)
		})
	}
}

func benchmarkGrowth(b *testing.B, partitions, items int, paid bool) {
	cfg := testConfig()
	cfg.Names = NewNameTable()
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "moss", "direct"
	cfg.Learners = cfg.Learners[:1]
	l.New = func() delay.Learner {
		p, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
		require.NoError(b, err)
		return delay.NewDirect(p, delay.Silence{Law: delay.SilenceAges, Horizon: 30 * day})
	}
	cfg.Pooled = NewPooledState(cfg.Learners, cfg.Names)
	reader := NewPublishedReader(cfg.Learners, cfg.Names)
	before := heap()
	machines := make([]*Machine, partitions)
	for p := range machines {
		cfg.Partition = int32(p)
		m, err := New(cfg)
		require.NoError(b, err)
		require.NoError(b, m.Loaded())
		m.KnownComplete()
		machines[p] = m
	}
	const turn = 1000
	records, chosen := make([]Record, turn), make([]string, turn)
	seen, offset := 0, int64(0)
	var out Output
	step := func(m *Machine, rec *Record) {
		if err := m.Step(&Input{Record: rec, Now: day}, &out); err != nil {
			b.Fatal(err)
		}
	}
	for p := 0; b.Loop() || p < partitions*(items/(20*turn)+1); p++ { // until all items are met everywhere
		m := machines[p%partitions]
		b.StopTimer()
		for k := range records {
			names := make([]string, 20)
			for j := range names {
				names[j] = fmt.Sprintf("item-%07d", (((p/partitions)*turn+k)*20+j)%items)
			}
			seen++
			offset++
			id := fmt.Sprintf("impression-%012d", offset)
			chosen[k] = names[0]
			records[k] = Record{Topic: event.Impressions, Offset: offset, Timestamp: day, Key: []byte(id), Value: impression(id, names...)}
		}
		b.StartTimer()
		for k := range records {
			step(m, &records[k])
			if paid {
				id := records[k].Key
				step(m, &Record{Topic: event.Selections, Offset: offset, Timestamp: day, Key: id,
					Value: event.AppendSelection(nil, &event.Selection{ID: id, Item: []byte(chosen[k])})})
				step(m, &Record{Topic: event.Payoffs, Offset: offset, Timestamp: day, Key: id,
					Value: event.AppendPayoff(nil, &event.Payoff{ID: id, Payoff: 0.5})})
			}
		}
		var changes state.Changes
		segment, _ := m.Seal(&changes)
		m.Forget(segment)
		cfg.Pooled.Update(m.cfg.Partition, reader.Read(m.cfg.Partition, published(&changes), func(err error) { b.Error(err) }))
		cfg.Pooled.Commit()
		out.Reset()
		m.known = idIndex{complete: true} // ids are another matter
	}
	b.StopTimer()
	require.Equal(b, items, machines[0].Learners()[0].Items)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seen), "ns/impression")
	b.ReportMetric(float64(heap()-before)/float64(items*partitions), "B/item-in-partition")
	runtime.KeepAlive(machines)
}

// published returns the published part of changes.
func published(c *state.Changes) (fields []state.Field) {
	for _, w := range c.Writes {
		if w.Publish {
			fields = append(fields, state.Field{Hash: w.Hash, Field: w.Field, Value: w.Value})
		}
	}
	return fields
}

// heap is how much memory lives.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
