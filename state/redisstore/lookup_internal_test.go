package redisstore

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/testenv"
	"github.com/ranker-worker/ranker-worker/state"
)

// BenchmarkLookUpByTransaction is what LookUp was chosen over: MULTI with one HMGET per shard.
func BenchmarkLookUpByTransaction(b *testing.B) {
	s, err := New(Options{Addresses: []string{testenv.OwnRedis(b).Addr}, Group: "g"})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	ctx := b.Context()
	m, err := s.Acquire(ctx, 0, 1, false, &state.Meta{})
	require.NoError(b, err)
	c := &state.Checkpoint{Fence: m.Fence, Meta: m}
	var ids []string
	value := make([]byte, 120)
	for round := range 10 {
		c.ID, c.Changes = strconv.Itoa(round), state.Changes{}
		for i := range 10000 {
			id := fmt.Sprintf("impression-%d-%d", round, i)
			c.Changes.Entries = append(c.Changes.Entries, state.Entry{ID: []byte(id), Value: value})
			if i%97 == 0 && len(ids) < 1000 {
				ids = append(ids, id)
			}
		}
		require.NoError(b, s.Checkpoint(ctx, 0, c))
		c.Fence.Seq++
	}
	for _, n := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k := newPacker()
				shards := map[int32][]string{}
				for _, id := range ids[:n] {
					g := k.shard(s.prefix(0), []byte(id))
					shards[g] = append(shards[g], id)
				}
				pipe := s.client.TxPipeline()
				pipe.HMGet(ctx, s.prefix(0)+metaKey, fieldToken, fieldSeq, fieldTorn)
				cmds := make([]*redis.SliceCmd, 0, n)
				for g, of := range shards {
					cmds = append(cmds, pipe.HMGet(ctx, string(k.groups[g].key), of...))
				}
				_, err := pipe.Exec(ctx)
				require.NoError(b, err)
				require.Len(b, cmds, len(shards))
			}
		})
	}
}
