package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// TestConvert_MayBeCutOff: a conversion of an older layout that ends anywhere, again and again, is gone on with by the next owner, and
// comes to the same as one that was never cut off: each entry once, in its bucket, converted, and nothing left of the old layout. From the
// first step on it says that it is of the present one.
func TestConvert_MayBeCutOff(t *testing.T) {
	addr := testenv.OwnRedis(t, server.Options{}).Addr
	raw := client(t, addr)
	const ids, buckets = 1500, 4
	for cut, every := range []int{0, 1, 127, 128, 129, 400, 1499} { // Convert is called so often before the connection fails; 0: for ever
		t.Run(strconv.Itoa(every), func(t *testing.T) {
			group := fmt.Sprintf("cut%d", cut)
			prefix := "{" + group + ":0}:"
			acquire(t, open(t, redisstore.Options{Addresses: []string{addr}, Group: group}))
			require.NoError(t, raw.HSet(t.Context(), prefix+"meta", "layout", "2").Err())
			pipe := raw.Pipeline()
			for i := range ids {
				text := fmt.Sprintf("impression-%d", i)
				pipe.HSet(t.Context(), fmt.Sprintf("%se:%04x", prefix, xxhash.Sum64String(text)%(1<<14)), text, "value "+text)
				if bucket := i%(buckets+1) - 1; bucket >= 0 { // else the index does not tell of it
					pipe.ZAdd(t.Context(), prefix+"due", redis.Z{Score: float64(bucket), Member: bucket})
					pipe.SAdd(t.Context(), fmt.Sprintf("%sdue:%d", prefix, bucket), text)
				}
			}
			_, err := pipe.Exec(t.Context())
			require.NoError(t, err)

			attempts := 0
			for generation := int64(2); ; generation++ {
				ctx, cancel := context.WithCancel(t.Context())
				left := every
				convert := func(_, value []byte) []byte {
					if left--; left == 0 {
						cancel()
					}
					return append([]byte("new "), value...)
				}
				s := open(t, redisstore.Options{Addresses: []string{addr}, Group: group, Convert: convert})
				_, err := s.Acquire(ctx, 0, generation, false, nil)
				cancel()
				attempts++
				layout := raw.HGet(t.Context(), prefix+"meta", "layout").Val()
				if err == nil {
					require.Equal(t, "3", layout)
					requireConverted(t, s, ids, buckets)
					break
				}
				require.ErrorIs(t, err, context.Canceled)
				if every <= 128 { // not even one page is ever made: its script comes behind
					require.Equal(t, "2", layout)
					every = 300
				}
			}
			if every > 0 && every < ids {
				require.Greater(t, attempts, 1)
			}
			for _, key := range keys(t, raw, prefix) {
				require.NotContains(t, key, prefix+"e:")
				require.NotContains(t, key, prefix+"due")
			}
			require.False(t, raw.HExists(t.Context(), prefix+"meta", "converting").Val())
		})
	}
}

func requireConverted(t *testing.T, s *redisstore.Store, ids, buckets int) {
	t.Helper()
	got := map[state.ID]string{}
	for cursor := uint64(0); ; {
		pages, next, err := s.KnownIDs(t.Context(), 0, cursor)
		require.NoError(t, err)
		for _, p := range pages {
			require.LessOrEqual(t, len(p.IDs), 128)
			places := make([]state.Place, len(p.IDs))
			for i, id := range p.IDs {
				places[i] = state.Place{Page: p.Number, ID: id}
			}
			_, values, err := s.LookUp(t.Context(), 0, places, 1<<30)
			require.NoError(t, err)
			for i, id := range p.IDs {
				require.NotContains(t, got, id, "it lies in two pages")
				got[id] = fmt.Sprintf("%d %s", p.Bucket, values[i])
			}
		}
		if cursor = next; next == 0 {
			break
		}
	}
	want := map[state.ID]string{}
	for i := range ids {
		text := fmt.Sprintf("impression-%d", i)
		want[state.IDOf([]byte(text))] = fmt.Sprintf("%d new value %s", max(0, i%(buckets+1)-1), text)
	}
	require.Equal(t, want, got)
}
