package redisstore

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
)

// onEachRedis runs f on each Redis, with stores of one group.
func onEachRedis(t *testing.T, f func(t *testing.T, raw *redis.Client, open func() *Store)) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		raw := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { require.NoError(t, raw.Close()) })
		group := testenv.Unique(t, "internal")
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
