package redisstore_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// busyBench is a store with what makes requests as large as they may be.
type busyBench struct {
	*testing.B
	*redisstore.Store
	raw *redis.Client
	c   *state.Checkpoint
}

// BenchmarkBusiest is for the claim of how long one request keeps the server busy that is as large as it may be. It reports
// the commands of a millisecond or more, by the server's own clock.
func BenchmarkBusiest(t *testing.B) {
	s, addr := benchStore(t)
	b := &busyBench{B: t, Store: s, raw: redis.NewClient(&redis.Options{Addr: addr})}
	defer func() { require.NoError(b, b.raw.Close()) }()
	require.NoError(b, b.raw.ConfigSet(b.Context(), "slowlog-log-slower-than", "1000").Err())
	m, err := s.Acquire(b.Context(), 0, 1, false, benchMeta())
	require.NoError(b, err)
	b.c = &state.Checkpoint{Fence: m.Fence, Meta: m}

	const many = 300_000
	var ids, large, long [][]byte
	for i := range many {
		ids = append(ids, fmt.Appendf(nil, "impression-%025d", i))
	}
	for i := range 40 {
		large = append(large, fmt.Append(nil, "large-", i))
	}
	for i := range 8000 {
		long = append(long, longID(i))
	}
	b.store(ids, 10_000, 120)
	b.store(large, 40, 128<<10)
	b.run("look-up/ids=8000", func() { b.lookUp(ids[:8000]) })
	b.run("look-up/bytes=4MiB", func() { b.lookUp(large) })

	b.due(long, false, func(int) int64 { return 0 })
	b.run("due/bytes of ids=4MiB", b.walk)
	b.due(long, true, func(int) int64 { return 0 })
	b.due(ids, false, func(i int) int64 { return int64(i) })
	b.run("due/ids=32000, each in a bucket of its own", b.walk)
	b.due(ids, true, func(i int) int64 { return int64(i) })
	b.due(ids, false, func(int) int64 { return 0 })
	b.run("due/ids=32000 of a bucket of 300000", b.walk)

	b.run("checkpoint/bytes=8MiB, records of 120", func() { b.store(ids[:8<<20/(120+36)], many, 120) })
	b.run("checkpoint/bytes=8MiB, records of 1.3 MiB", func() { b.store(large[:6], many, 13<<17) })
}

func (b *busyBench) run(name string, f func()) {
	b.Run(name, func(t *testing.B) {
		require.NoError(t, b.raw.SlowLogReset(t.Context()).Err())
		for t.Loop() {
			f()
		}
		slow, err := b.raw.SlowLogGet(t.Context(), 128).Result()
		require.NoError(t, err)
		var all []time.Duration
		for _, one := range slow {
			all = append(all, one.Duration)
		}
		slices.Sort(all)
		t.ReportMetric(float64(len(all))/float64(t.N), "commands/op")
		if len(all) > 0 {
			t.ReportMetric(float64(all[len(all)/2].Microseconds()), "median-µs")
			t.ReportMetric(float64(all[len(all)-1].Microseconds()), "longest-µs")
		}
	})
}

func (b *busyBench) save(c state.Changes) {
	b.c.ID, b.c.Changes = strconv.FormatInt(b.c.Fence.Seq, 10), c
	require.NoError(b, b.Checkpoint(b.Context(), 0, b.c))
	b.c.Fence.Seq++
}

// store stores a record of a size under each id, so many at a time.
func (b *busyBench) store(ids [][]byte, atOnce, size int) {
	value := make([]byte, size)
	for some := range slices.Chunk(ids, atOnce) {
		var c state.Changes
		for _, id := range some {
			c.Entries = append(c.Entries, state.Entry{ID: id, Value: value})
		}
		b.save(c)
	}
}

// due puts ids into the expiry index, or takes them out.
func (b *busyBench) due(ids [][]byte, remove bool, bucket func(i int) int64) {
	i := 0
	for some := range slices.Chunk(ids, 4000) {
		var c state.Changes
		for _, id := range some {
			c.Due = append(c.Due, state.Due{Bucket: bucket(i), ID: id, Remove: remove})
			i++
		}
		b.save(c)
	}
}

func (b *busyBench) lookUp(ids [][]byte) {
	_, _, err := b.LookUp(b.Context(), 0, ids, 4<<20)
	require.NoError(b, err)
}

func (b *busyBench) walk() {
	_, _, _, err := b.Due(b.Context(), 0, 1<<40, 32_000, 16<<20)
	require.NoError(b, err)
}
