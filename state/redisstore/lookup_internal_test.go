package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
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
				k.placement = s.placements.get(0)
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
				require.NotNil(b, cmds[0].Val()[0])
			}
		})
	}
}

// TestDue_BesideAWriterThatIsNeverIdle: a checkpoint comes in between any two steps of reading what is due, every time. The
// ids are all there, and no record is older than the ids; the walk over deadlines would stand still otherwise, and what is
// stored would grow and grow, just when there is much to do.
func TestDue_BesideAWriterThatIsNeverIdle(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		group := testenv.Unique(t, "due")
		open := func() *Store {
			s, err := New(Options{Addresses: []string{addr}, Group: group})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
		reader, writer := open(), open()
		ctx := t.Context()
		m, err := writer.Acquire(ctx, 0, 1, false, &state.Meta{})
		require.NoError(t, err)
		fence := m.Fence
		save := func(c state.Changes) {
			require.NoError(t, writer.Checkpoint(ctx, 0, &state.Checkpoint{Fence: fence, ID: fmt.Sprint("c", fence.Seq), Meta: m, Changes: c}))
			fence.Seq++
		}
		const n = lookUpAtOnce + 100 // more than one look-up's worth
		var all state.Changes
		for i := range n {
			id := []byte(fmt.Sprintf("id-%05d", i))
			all.Due = append(all.Due, state.Due{Bucket: 7, ID: id})
			all.Entries = append(all.Entries, state.Entry{ID: id, Value: []byte("1")})
		}
		save(all)
		last := []byte(fmt.Sprintf("id-%05d", n-1))
		reader.client.AddHook(before(func() {
			save(state.Changes{Entries: []state.Entry{{ID: last, Value: []byte(strconv.FormatInt(fence.Seq, 10))}}})
		}))
		f, due, _, err := reader.Due(ctx, 0, 7, 2*n, 1<<30)
		require.NoError(t, err)
		require.Len(t, due, n)
		require.Equal(t, fence.Token, f.Token)
		for _, e := range due[:n-1] {
			require.Equal(t, "1", string(e.Value))
		}
		require.Equal(t, last, due[n-1].ID)
		value, err := strconv.ParseInt(string(due[n-1].Value), 10, 64)
		require.NoError(t, err)
		require.Greater(t, value+1, f.Seq)

		// Another owner's records do not belong to the ids.
		m, err = writer.Acquire(ctx, 0, 2, false, nil)
		require.NoError(t, err)
		fence = m.Fence
		begun := 0
		reader.client.AddHook(before(func() {
			begun++
			m, err := writer.Acquire(ctx, 0, int64(2+begun), false, nil)
			require.NoError(t, err)
			fence = m.Fence
		}))
		_, _, _, err = reader.Due(ctx, 0, 7, 2*n, 1<<30)
		require.ErrorIs(t, err, errMoving)
	})
}

// before does something before each script.
type before func()

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			b()
		}
		return next(ctx, cmd)
	}
}

func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
