package sizing

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// benchmarkItems are enough that hash tables no longer fit into a processor's nearest caches.
const benchmarkItems = 50_000

// taughtPartition returns partition 0 in a Redis of its own, after so many impressions that were all paid, and as
// many checkpoints of 1,000.
func taughtPartition(b *testing.B, ids int) *owner {
	b.Helper()
	f := newTraffic(benchmarkItems)
	o := own(b, machineConfig(b, measuredLearners[0].yaml, partition.NewNameTable()))
	for range ids / 1000 {
		var all []shown
		var records []*partition.Record
		for range 1000 {
			s, r := f.impression()
			all, records = append(all, s), append(records, r)
		}
		for _, s := range all {
			records = append(records, f.selection(s), f.payoff(s))
		}
		o.step(records)
		o.save(o.seal())
	}
	return o
}

// spent is processor time so far: of this process, and of Redis.
func (o *owner) spent() (own, server time.Duration) {
	o.t.Helper()
	var r syscall.Rusage
	require.NoError(o.t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	for line := range strings.SplitSeq(o.raw.Info(context.Background(), "cpu").Val(), "\r\n") {
		if k, v, _ := strings.Cut(line, ":"); k == "used_cpu_user_main_thread" || k == "used_cpu_sys_main_thread" {
			seconds, err := strconv.ParseFloat(v, 64)
			require.NoError(o.t, err)
			server += time.Duration(seconds * 1e9)
		}
	}
	return own, server
}

// measure runs do repeatedly, and reports processor time for each of the things that one run handles.
func (o *owner) measure(b *testing.B, what string, do func() (things int)) {
	b.Run(what, func(b *testing.B) {
		ownBefore, serverBefore := o.spent()
		things := 0
		for b.Loop() {
			things += do()
		}
		own, server := o.spent()
		b.ReportMetric(float64(own-ownBefore)/float64(things)/1e3, "worker-µs/each")
		b.ReportMetric(float64(server-serverBefore)/float64(things)/1e3, "redis-µs/each")
		b.ReportMetric(float64(things)/float64(b.N), "each/op")
	})
}

// BenchmarkFleet measures the constants of following.go.
func BenchmarkFleet(b *testing.B) {
	o := taughtPartition(b, 2*benchmarkItems)
	ctx := context.Background()
	cfg := machineConfig(b, measuredLearners[0].yaml, partition.NewNameTable())
	reader := partition.NewPublishedReader(cfg.Learners, cfg.Names)
	failed := func(err error) { require.NoError(b, err) }
	at, fields, err := o.store.Sums(ctx, 0, reader.Hashes())
	require.NoError(b, err)
	all := reader.Read(1, fields, failed)
	size := 0
	for _, f := range fields {
		size += len(f.Hash) + len(f.Field) + len(f.Value)
	}
	b.Logf("%d items: %d fields, %.0f bytes an item", benchmarkItems, len(fields), float64(size)/benchmarkItems)

	o.measure(b, "read without news", func() int {
		_, err := o.store.Deltas(ctx, 0, at)
		require.NoError(b, err)
		return 1
	})
	early := state.Fence{Token: at.Token, Seq: at.Seq - 40}
	o.measure(b, "published field", func() (n int) {
		deltas, err := o.store.Deltas(ctx, 0, early)
		require.NoError(b, err)
		for _, d := range deltas {
			n += len(reader.Read(1, d.Fields, failed))
		}
		return n
	})
	var some []partition.Published
	for i := range all {
		if i%9 == 0 {
			some = append(some, all[i])
		}
	}
	for _, sources := range []int32{1, 16, 128} {
		shared := partition.NewPooledState(cfg.Learners, cfg.Names)
		for source := range sources {
			shared.Update(source, some)
		}
		o.measure(b, fmt.Sprintf("read by a pooled state of %d", sources), func() int {
			shared.Update(sources/2, some)
			shared.Commit()
			return len(some)
		})
	}
	o.measure(b, "item read whole", func() int {
		_, fields, err := o.store.Sums(ctx, 0, reader.Hashes())
		require.NoError(b, err)
		reader.Read(1, fields, failed)
		return benchmarkItems
	})
	o.measure(b, "item loaded", func() int {
		m, err := partition.New(machineConfig(b, measuredLearners[0].yaml, partition.NewNameTable()))
		require.NoError(b, err)
		fields, err := o.store.Load(ctx, 0, m.Hashes())
		require.NoError(b, err)
		for _, f := range fields {
			require.NoError(b, m.Load(f))
		}
		require.NoError(b, m.Loaded())
		return benchmarkItems
	})
	o.measure(b, "known id", func() (n int) {
		m := emptyMachine(b, cfg)
		for cursor := uint64(0); ; {
			pages, next, err := o.store.KnownIDs(ctx, 0, cursor)
			require.NoError(b, err)
			for i := range pages {
				m.AddKnown(&pages[i])
				n += len(pages[i].IDs)
			}
			if cursor = next; next == 0 {
				return n
			}
		}
	})
}
