package redisstore_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// bounded is a store on a server of the test's own that hangs up when more than 16 MiB wait for a client, and what it takes
// to fill it.
type bounded struct {
	*testing.T
	*redisstore.Store
	raw *redis.Client
	c   *state.Checkpoint
}

func newBounded(t *testing.T) *bounded {
	addr := testenv.OwnRedis(t, server.Options{Args: []string{"--client-output-buffer-limit", "normal", "16mb", "0", "0"}}).Addr
	b := &bounded{T: t, Store: open(t, redisstore.Options{Addresses: []string{addr}, Group: "g"}), raw: client(t, addr)}
	b.c = acquire(t, b.Store)
	return b
}

// save stores changes in a checkpoint of its own.
func (b *bounded) save(c state.Changes) {
	b.Helper()
	b.c.ID, b.c.Changes = strconv.FormatInt(b.c.Fence.Seq, 10), c
	require.NoError(b, b.Checkpoint(b.Context(), 0, b.c))
	b.c.Fence.Seq++
}

// peak is by how much the heap grows at most while f runs, garbage included, of which there is little: the collector is made
// to come often.
func peak(f func()) (grown int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	heap := func() int64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	runtime.GC()
	before := heap()
	done, sampled := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, heap()-before)
			case <-done:
				sampled <- most
				return
			}
		}
	}()
	defer func() {
		close(done)
		grown = <-sampled
	}()
	f()
	return
}

// requirePeak makes sure that f needs at most so many MiB.
func (b *bounded) requirePeak(atMost int64, f func()) {
	b.Helper()
	grown := peak(f)
	b.Logf("the heap grew by %.1f MiB", float64(grown)/(1<<20))
	require.LessOrEqual(b, grown, atMost<<20)
}

// TestLookUp_WorstRecords: an id may have 16 parked payoffs of some 80 kB, and be asked for by as many records as are read
// at once.
func TestLookUp_WorstRecords(t *testing.T) {
	const ids, size, times = 16, 1 << 20, 60
	b := newBounded(t)
	var asked [][]byte
	for i := range ids {
		id := fmt.Appendf(nil, "id-%d", i)
		b.save(state.Changes{Entries: []state.Entry{{ID: id, Value: bytes.Repeat([]byte{byte(i)}, size)}}})
		asked = append(asked, id)
	}
	for range times - 1 {
		asked = append(asked, asked[:ids]...)
	}
	b.requirePeak(24, func() {
		for from := 0; from < 4*ids; {
			_, values, err := b.LookUp(t.Context(), 0, asked[from:], 4<<20)
			require.NoError(t, err)
			require.Len(t, values, 4)
			for _, v := range values {
				require.Len(t, v, size)
				require.Equal(t, byte(from%ids), v[size/2])
				from++
			}
		}
	})
}

// TestDue_WorstRecords: 4,000 impressions of 10,000 candidates whose time has come.
func TestDue_WorstRecords(t *testing.T) {
	const n, size, atOnce = 4000, 130 << 10, 60
	b := newBounded(t)
	value := make([]byte, size)
	for from := 0; from < n; from += atOnce {
		var c state.Changes
		for i := from; i < min(n, from+atOnce); i++ {
			id := fmt.Appendf(nil, "id-%d", i)
			c.Entries = append(c.Entries, state.Entry{ID: id, Value: value})
			c.Due = append(c.Due, state.Due{Bucket: int64(i % 3), ID: id})
		}
		b.save(c)
	}
	seen := map[string]bool{}
	b.requirePeak(64, func() {
		for steps, more := 0, true; more; steps++ {
			require.Less(t, steps, 2*n*size>>24)
			_, due, rest, err := b.Due(t.Context(), 0, 9, n, 16<<20)
			require.NoError(t, err)
			require.NotEmpty(t, due)
			var c state.Changes
			for _, e := range due {
				require.Len(t, e.Value, size)
				seen[string(e.ID)] = true
				c.Due = append(c.Due, state.Due{Bucket: e.Bucket, ID: e.ID, Remove: true})
			}
			b.save(c)
			more = rest
		}
	})
	require.Len(t, seen, n)
}

// TestDue_LongestIDs: a step of the walk that may take 32,000 of them.
func TestDue_LongestIDs(t *testing.T) {
	const n, atOnce = 24_000, 6000
	b := newBounded(t)
	for from := 0; from < n; from += atOnce {
		var c state.Changes
		for i := from; i < from+atOnce; i++ {
			c.Due = append(c.Due, state.Due{Bucket: 1, ID: longID(i)})
		}
		b.save(c)
	}
	b.requirePeak(32, func() {
		_, due, more, err := b.Due(t.Context(), 0, 1, 32_000, 16<<20)
		require.NoError(t, err)
		require.True(t, more)
		require.Greater(t, len(due), 2000)
	})
}

func longID(i int) []byte {
	id := fmt.Appendf(make([]byte, 0, 1024), "%d-", i)
	return append(id, bytes.Repeat([]byte("x"), 1024-len(id))...)
}

// TestKnownIDs_InOneShard: 30,000 of the longest ids and some of the largest records lie in one shard, as somebody can bring
// about in a state without a placement.
func TestKnownIDs_InOneShard(t *testing.T) {
	const n, large = 30_000, 40
	b := newBounded(t)
	b.save(state.Changes{})
	pipe := b.raw.Pipeline()
	for i := range n {
		pipe.HSet(t.Context(), "{g:0}:e:0007", longID(i), "v")
	}
	for i := range large {
		pipe.HSet(t.Context(), "{g:0}:e:0007", fmt.Sprint("large-", i), make([]byte, 13<<17))
	}
	pipe.HSet(t.Context(), "{g:0}:e:0006", "before", "v")
	pipe.HSet(t.Context(), "{g:0}:e:0008", "behind", "v")
	pipe.HSet(t.Context(), "{g:0}:e:3fff", "last", "v")
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	seen := make(map[string]bool, 2*n)
	b.requirePeak(64, func() {
		cursor := uint64(0)
		for {
			ids, next, err := b.KnownIDs(t.Context(), 0, cursor)
			require.NoError(t, err)
			require.Less(t, len(ids), 2*(4<<20)/1024)
			for _, id := range ids {
				seen[string(id)] = true
			}
			if cursor = next; next == 0 {
				return
			}
		}
	})
	require.Len(t, seen, n+large+3)
}

// TestLoad_LargeValues: a learner's hashes whose fields are of 4 KiB.
func TestLoad_LargeValues(t *testing.T) {
	const hashes, n, size, atOnce = 6, 4500, 4 << 10, 1500
	b := newBounded(t)
	value := make([]byte, size)
	var names []string
	for h := range hashes {
		names = append(names, fmt.Sprint("feed:", h))
		for from := 0; from < n; from += atOnce {
			var c state.Changes
			for i := from; i < from+atOnce; i++ {
				c.Writes = append(c.Writes, state.Write{Hash: names[h], Field: fmt.Append(nil, i), Value: value})
			}
			b.save(c)
		}
	}
	var fields []state.Field
	b.requirePeak(hashes*n*size>>20+48, func() {
		var err error
		fields, err = b.Load(t.Context(), 0, names)
		require.NoError(t, err)
	})
	require.Len(t, fields, hashes*n)
}

// TestCheckpoint_WorstChanges: what is more than the deltas carry is read anew by followers, and records of any legal size
// are stored.
func TestCheckpoint_WorstChanges(t *testing.T) {
	b := newBounded(t)
	at, _, err := b.Sums(t.Context(), 0, []string{"h"})
	require.NoError(t, err)
	value := make([]byte, redisstore.MaxDeltaBytes)
	c := state.Changes{Writes: []state.Write{{Hash: "h", Field: []byte("f"), Value: value, Publish: true}}}
	for i := range 6 {
		c.Entries = append(c.Entries, state.Entry{ID: longID(i), Value: make([]byte, 13<<17)})
	}
	b.save(c)
	for i := range 6 {
		_, values, err := b.LookUp(t.Context(), 0, [][]byte{longID(i)}, 1)
		require.NoError(t, err)
		require.Len(t, values[0], 13<<17)
	}
	_, err = b.Deltas(t.Context(), 0, at)
	require.ErrorIs(t, err, state.ErrGap)
	at, fields, err := b.Sums(t.Context(), 0, []string{"h"})
	require.NoError(t, err)
	require.Equal(t, value, fields[0].Value)
	b.save(state.Changes{Writes: []state.Write{{Hash: "h", Field: []byte("f"), Publish: true}}})
	deltas, err := b.Deltas(t.Context(), 0, at)
	require.NoError(t, err)
	require.Len(t, deltas, 1)
	require.LessOrEqual(t, b.raw.XLen(t.Context(), "{g:0}:deltas").Val(), int64(2))
}
