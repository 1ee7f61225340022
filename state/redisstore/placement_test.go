package redisstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/state"
)

// TestPlacement_OfIDsThatCollideForEverySeed: as the seed of xxhash64 the digits would not help. In each pair of its stripes
// a difference of the first one's highest bit is undone by one or the other of two differences of the second, whatever went
// before: of the three ways to fill a pair, two make the same hash.
func TestPlacement_OfIDsThatCollideForEverySeed(t *testing.T) {
	const (
		pairs      = 9
		n          = 19683              // 3 to that
		inverse    = 0x0ba79078168d4baf // of the second prime, modulo 2 to the 64th
		firstPrime = 11400714785074694791
	)
	high, undo := uint64(inverse), uint64(firstPrime)
	high, undo = high<<63, (undo<<30)*inverse
	ids := make([][]byte, n)
	for i := range ids {
		ids[i] = make([]byte, 1024)
		for pair, ways := 0, i; pair < pairs; pair, ways = pair+1, ways/3 {
			if way := ways % 3; way > 0 {
				binary.LittleEndian.PutUint64(ids[i][64*pair:], high)
				binary.LittleEndian.PutUint64(ids[i][64*pair+32:], undo*uint64(3-2*way)) // or its negative
			}
		}
	}
	shards := func(of func(id []byte) uint64) int {
		seen := map[uint64]bool{}
		for _, id := range ids {
			seen[of(id)%Shards] = true
		}
		return len(seen)
	}
	for range 5 {
		pl := newPlacement()
		seed, err := strconv.ParseUint(string(pl), 16, 64)
		require.NoError(t, err)
		require.Less(t, shards(func(id []byte) uint64 {
			d := xxhash.NewWithSeed(seed)
			_, _ = d.Write(id) // never fails
			return d.Sum64()
		}), 1000)
		require.InDelta(t, 11456, shards(pl.shard), 500) // of as many at random
	}
}

// crafted are ids that all fall into one shard of a state without a placement.
func crafted(n int) (ids [][]byte) {
	var id []byte
	for i := int64(0); len(ids) < n; i++ {
		if id = strconv.AppendInt(id[:0], i, 36); placement("").shard(id) == 0x123 {
			ids = append(ids, bytes.Clone(id))
		}
	}
	return ids
}

func entries(ids [][]byte) (c state.Changes) {
	for _, id := range ids {
		c.Entries = append(c.Entries, state.Entry{ID: id, Value: append([]byte("of "), id...)})
		c.Due = append(c.Due, state.Due{Bucket: 1, ID: id})
	}
	return c
}

// onEachRedis runs f on each Redis, with stores of one group.
func onEachRedis(t *testing.T, f func(t *testing.T, raw *redis.Client, open func() *Store)) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		raw := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { require.NoError(t, raw.Close()) })
		group := testenv.Unique(t, "placed")
		f(t, raw, func() *Store {
			s, err := New(Options{Addresses: []string{addr}, Group: group})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		})
	})
}

// begin begins partition 0 with these changes.
func begin(t *testing.T, s *Store, c state.Changes) *state.Checkpoint {
	t.Helper()
	m, err := s.Acquire(t.Context(), 0, 1, false, &state.Meta{Layout: 1})
	require.NoError(t, err)
	require.Zero(t, m.Seq)
	cp := &state.Checkpoint{Fence: m.Fence, ID: "first", Meta: m, Changes: c}
	require.NoError(t, s.Checkpoint(t.Context(), 0, cp))
	cp.Fence.Seq++
	return cp
}

// requireFinds makes sure that a store finds these ids, and no others, each by each way to read.
func requireFinds(t *testing.T, s *Store, ids [][]byte) {
	t.Helper()
	_, values, err := s.LookUp(t.Context(), 0, ids, 1<<30)
	require.NoError(t, err)
	_, due, more, err := s.Due(t.Context(), 0, 9, len(ids)+1, 1<<30)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, due, len(ids))
	for i, id := range ids {
		require.Equal(t, "of "+string(id), string(values[i]))
		require.Equal(t, "of "+string(due[i].ID), string(due[i].Value))
	}
	known := map[string]bool{}
	for cursor := uint64(0); ; {
		some, next, err := s.KnownIDs(t.Context(), 0, cursor)
		require.NoError(t, err)
		for _, id := range some {
			known[string(id)] = true
		}
		if cursor = next; next == 0 {
			break
		}
	}
	require.Len(t, known, len(ids))
}

func TestPlacement_SpreadsCraftedIDs(t *testing.T) {
	ids := crafted(5000)
	onEachRedis(t, func(t *testing.T, raw *redis.Client, open func() *Store) {
		s := open()
		begin(t, s, entries(ids))
		requireFinds(t, s, ids)
		requireFinds(t, open(), ids) // which has to learn first how they are placed
		shards := raw.Keys(t.Context(), s.prefix(0)+shardKey+"*").Val()
		require.InDelta(t, 4310, len(shards), 300) // as many at random
		for _, key := range shards {
			require.Less(t, raw.HLen(t.Context(), key).Val(), int64(12))
		}
	})
}

// TestPlacement_StateOfBefore: one that was begun when there was none is read and written as it was.
func TestPlacement_StateOfBefore(t *testing.T) {
	ids := crafted(3)
	onEachRedis(t, func(t *testing.T, raw *redis.Client, open func() *Store) {
		before := open()
		before.newPlacement = func() placement { return "" }
		c := begin(t, before, entries(ids[:1]))
		meta := before.prefix(0) + metaKey
		require.NoError(t, raw.HDel(t.Context(), meta, fieldPlacement).Err())
		require.Equal(t, "1", raw.HGet(t.Context(), meta, fieldLayout).Val())
		s := open()
		requireFinds(t, s, ids[:1])
		c.ID, c.Changes = "second", entries(ids[1:2])
		require.NoError(t, s.Checkpoint(t.Context(), 0, c))
		m, err := s.Acquire(t.Context(), 0, 2, false, &state.Meta{Layout: 1})
		require.NoError(t, err)
		require.Equal(t, 1, m.Layout)
		c.ID, c.Changes, c.Fence = "third", entries(ids[2:]), m.Fence
		require.NoError(t, s.Checkpoint(t.Context(), 0, c))
		requireFinds(t, s, ids)
		require.Equal(t, []string{shardOf(s.prefix(0), 0x123)}, raw.Keys(t.Context(), s.prefix(0)+shardKey+"*").Val())
		require.Equal(t, "1", raw.HGet(t.Context(), meta, fieldLayout).Val(), "versions of before can go on with it")
	})
}

// TestPlacement_IsOfTheStateThatIsThere: what a store remembers is of no use for a state that another one has begun since.
func TestPlacement_IsOfTheStateThatIsThere(t *testing.T) {
	onEachRedis(t, func(t *testing.T, _ *redis.Client, open func() *Store) {
		ids := crafted(4)
		s, other := open(), open()
		old := begin(t, s, entries(ids[:2]))
		requireFinds(t, s, ids[:2])
		require.NoError(t, other.Drop(t.Context(), 0, ""))
		begin(t, other, entries(ids[1:3]))
		requireFinds(t, s, ids[1:3])
		old.ID = "next"
		require.ErrorIs(t, s.Checkpoint(t.Context(), 0, old), state.ErrFenced)

		// A checkpoint by a store that has not met this state yet, as one that was opened anew.
		require.NoError(t, other.Drop(t.Context(), 0, ""))
		c := begin(t, other, entries(ids[:1]))
		c.ID, c.Changes = "by another store", entries(ids[1:])
		require.NoError(t, s.Checkpoint(t.Context(), 0, c))
		requireFinds(t, other, ids)

		_, err := s.Acquire(t.Context(), 0, 2, false, nil)
		require.NoError(t, err)
		_, fields, err := s.View(t.Context(), 0, nil)
		require.NoError(t, err)
		require.Empty(t, fields, "the placement is nobody else's")
	})
}

// TestPlacement_ThatKeepsChanging ends all the same.
func TestPlacement_ThatKeepsChanging(t *testing.T) {
	onEachRedis(t, func(t *testing.T, raw *redis.Client, open func() *Store) {
		s := open()
		c := begin(t, s, entries(crafted(1)))
		n := 0
		s.client.AddHook(before(func() {
			n++
			require.NoError(t, raw.HSet(t.Context(), s.prefix(0)+metaKey, fieldPlacement, fmt.Sprint(n)).Err())
		}))
		_, _, err := s.LookUp(t.Context(), 0, crafted(1), 1)
		require.ErrorIs(t, err, errMoving)
		c.ID = "second"
		err = s.Checkpoint(t.Context(), 0, c)
		require.ErrorIs(t, err, errMoving)
		require.True(t, strings.HasPrefix(err.Error(), "partition 0 in Redis: store a checkpoint: "), "%v", err)
	})
}
