package redisstore_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// busyBench is a store filled so that requests are as large as they can be.
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

	const many = 100_000
	small := b.store(1, many, 60)
	b.run("whole/ids=100000", func() {
		_, _, pages, err := b.ViewAll(b.Context(), 0, nil)
		require.NoError(b, err)
		require.NotEmpty(b, pages)
	})
	large := b.store(many, 40, 128<<10)
	b.run("look-up/ids=8000", func() { b.lookUp(small[:8000]) })
	b.run("look-up/bytes=4MiB", func() { b.lookUp(large) })
	b.run("due/ids=32000", b.walk)
	b.run("checkpoint/bytes=8MiB, records of 60", func() { b.store(1, 8<<20/(60+36), 60) })
	b.run("checkpoint/bytes=8MiB, records of 1.3 MiB", func() { b.store(many, 6, 13<<17) })
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

// store stores n records of a size, in pages from a number on, and returns where they lie.
func (b *busyBench) store(page uint32, n, size int) (places []state.Place) {
	c := entriesAt(page, someIDs(int(page)*1_000_000, n), make([]byte, size))
	b.save(c)
	for i := range c.Entries {
		places = append(places, c.Entries[i].Place)
	}
	return places
}

func (b *busyBench) lookUp(places []state.Place) {
	_, _, err := b.LookUp(b.Context(), 0, places, 4<<20)
	require.NoError(b, err)
}

func (b *busyBench) walk() {
	_, _, _, err := b.Due(b.Context(), 0, 1<<40, 32_000, 16<<20)
	require.NoError(b, err)
}
