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

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// bounded is a store on a Redis server of its own that disconnects clients with more than 16 MiB of pending output.
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

// requirePeak fails the test if f needs more than atMost MiB.
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
	var asked []state.Place
	for i := range ids {
		c := entriesAt(uint32(1+i), someIDs(i, 1), bytes.Repeat([]byte{byte(i)}, size))
		b.save(c)
		asked = append(asked, c.Entries[0].Place)
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
		b.save(entriesAt(uint32(1+from), someIDs(from, min(n-from, atOnce)), value))
	}
	seen := map[state.ID]bool{}
	b.requirePeak(64, func() {
		for steps, more := 0, true; more; steps++ {
			require.Less(t, steps, 2*n*size>>24)
			_, due, rest, err := b.Due(t.Context(), 0, n, n, 16<<20)
			require.NoError(t, err)
			require.NotEmpty(t, due)
			var c state.Changes
			for _, e := range due {
				require.Len(t, e.Value, size)
				seen[e.ID] = true
				c.Entries = append(c.Entries, state.Entry{Place: e.Place})
			}
			b.save(c)
			more = rest
		}
	})
	require.Len(t, seen, n)
}

// TestKnownIDs_ManyPages: hundreds of thousands of ids come in pieces of bounded size.
func TestKnownIDs_ManyPages(t *testing.T) {
	const n, atOnce = 400_000, 40_000
	b := newBounded(t)
	for from := 0; from < n; from += atOnce {
		b.save(entriesAt(uint32(1+from), someIDs(from, atOnce), []byte("v")))
	}
	seen := make(map[state.ID]bool, 2*n)
	b.requirePeak(128, func() {
		for cursor := uint64(0); ; {
			pages, next, err := b.KnownIDs(t.Context(), 0, cursor)
			require.NoError(t, err)
			require.Less(t, len(pages), 3000)
			for _, page := range pages {
				require.LessOrEqual(t, len(page.IDs), pageSize)
				for _, id := range page.IDs {
					seen[id] = true
				}
			}
			if cursor = next; next == 0 {
				return
			}
		}
	})
	require.Len(t, seen, n)
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

// TestCheckpoint_WorstChanges: followers reload when a checkpoint publishes more than a delta carries, and records of
// any legal size are stored.
func TestCheckpoint_WorstChanges(t *testing.T) {
	b := newBounded(t)
	at, _, err := b.Sums(t.Context(), 0, []string{"h"})
	require.NoError(t, err)
	value := make([]byte, redisstore.MaxDeltaBytes)
	c := state.Changes{Writes: []state.Write{{Hash: "h", Field: []byte("f"), Value: value, Publish: true}}}
	large := entriesAt(1, someIDs(0, 6), make([]byte, 13<<17))
	c.Pages, c.Entries = large.Pages, large.Entries
	b.save(c)
	for i := range 6 {
		_, values, err := b.LookUp(t.Context(), 0, []state.Place{c.Entries[i].Place}, 1)
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
