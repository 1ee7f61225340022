package e2e

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// copyStore returns the keys of Redis with one hash tag, or a pattern of it: "<group>:0" is partition 0, "<group>:[0-9]" ten partitions.
// It reads them until two copies are equal, since a worker may store a checkpoint between two keys.
func (w *world) copyStore(t *testing.T, of string) (store map[string]storedKey) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := store
		store = w.readStore(t, of)
		return before != nil && reflect.DeepEqual(before, store)
	}, deadline, time.Millisecond)
	return store
}

func (w *world) readStore(t *testing.T, of string) map[string]storedKey {
	t.Helper()
	ctx, store := t.Context(), map[string]storedKey{}
	keys, err := w.redis.Keys(ctx, "{"+of+"}:*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		var k storedKey
		kind, err := w.redis.Type(ctx, key).Result()
		require.NoError(t, err)
		switch kind {
		case "hash":
			k.Hash = map[string][]byte{}
			all, err := w.redis.HGetAll(ctx, key).Result()
			require.NoError(t, err)
			for f, v := range all {
				k.Hash[f] = []byte(v)
			}
		case "set":
			all, err := w.redis.SMembers(ctx, key).Result()
			require.NoError(t, err)
			slices.Sort(all)
			for _, m := range all {
				k.Set = append(k.Set, []byte(m))
			}
		case "zset":
			k.Sorted = map[string]float64{}
			all, err := w.redis.ZRangeWithScores(ctx, key, 0, -1).Result()
			require.NoError(t, err)
			for _, m := range all {
				k.Sorted[m.Member.(string)] = m.Score
			}
		case "stream":
			all, err := w.redis.XRange(ctx, key, "-", "+").Result()
			require.NoError(t, err)
			for _, m := range all {
				e := storedEntry{ID: m.ID, Fields: map[string][]byte{}}
				for f, v := range m.Values {
					e.Fields[f] = []byte(v.(string))
				}
				k.Stream = append(k.Stream, e)
			}
		default:
			t.Fatalf("key %s is a %s", key, kind)
		}
		store[key] = k
	}
	return store
}

// putBack writes a copy to where nothing stands.
func putBack(t *testing.T, raw redis.Cmdable, store map[string]storedKey) {
	t.Helper()
	for key, k := range store {
		for field, value := range k.Hash {
			require.NoError(t, raw.HSet(t.Context(), key, field, value).Err())
		}
		for _, member := range k.Set {
			require.NoError(t, raw.SAdd(t.Context(), key, member).Err())
		}
		for member, score := range k.Sorted {
			require.NoError(t, raw.ZAdd(t.Context(), key, redis.Z{Score: score, Member: member}).Err())
		}
		for _, e := range k.Stream {
			values := map[string]any{}
			for field, value := range e.Fields {
				values[field] = value
			}
			require.NoError(t, raw.XAdd(t.Context(), &redis.XAddArgs{Stream: key, ID: e.ID, Values: values}).Err())
		}
	}
}

// goBack replaces all that Redis has of a group's partitions by a copy, at once: workers go on.
func (w *world) goBack(t *testing.T, store map[string]storedKey) {
	t.Helper()
	keys := w.keys(t, ":[0-9]}")
	_, err := w.redis.TxPipelined(t.Context(), func(all redis.Pipeliner) error {
		all.Del(t.Context(), keys...)
		putBack(t, all, store)
		return nil
	})
	require.NoError(t, err)
}

// storedKey is a hash, set, sorted set or stream.
type storedKey struct {
	Hash   map[string][]byte
	Set    [][]byte
	Sorted map[string]float64
	Stream []storedEntry
}

type storedEntry struct {
	ID     string
	Fields map[string][]byte
}
