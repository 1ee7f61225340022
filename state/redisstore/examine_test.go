package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// TestExamine: a server is described correctly, and not changed.
func TestExamine(t *testing.T) {
	eachRedis(t, func(t *testing.T, addr string) {
		group := testenv.Unique(t, "g")
		s := open(t, redisstore.Options{Addresses: []string{addr}, Group: group})
		ahead := func() time.Time { return time.Now().Add(time.Hour) }
		all, err := s.Examine(t.Context(), ahead)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, addr, all[0].Address)
		require.NoError(t, all[0].Fault)
		require.Empty(t, all[0].Refused)
		require.InDelta(t, -time.Hour, all[0].Clock, float64(time.Minute))
		require.Empty(t, keys(t, client(t, addr), "{"+group))
	})
}

// TestExamineFindsWhatIsRefused by the user's rights, by the server's role, and for want of memory.
func TestExamineFindsWhatIsRefused(t *testing.T) {
	srv := testenv.OwnRedis(t)
	raw, ctx := client(t, srv.Addr), t.Context()
	refused := func(opts redisstore.Options) (commands []string, first error) {
		opts.Addresses, opts.Group = []string{srv.Addr}, "g"
		all, err := open(t, opts).Examine(ctx, time.Now)
		require.NoError(t, err)
		for _, r := range all[0].Refused {
			if first == nil {
				first = r.Err
			}
			commands = append(commands, r.Command)
		}
		return commands, first
	}
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "u", "on", ">p", "~{g:*", "+@all", "-xadd", "-zrem", "-discard", "-config").Err())
	user := redisstore.Options{Username: "u", Password: "p"}
	commands, first := refused(user)
	require.Equal(t, []string{"zrem", "xadd"}, commands)
	require.True(t, redis.HasErrorPrefix(first, "NOPERM"), first)
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "u", "+@all", "resetkeys", "~{other:*").Err())
	commands, _ = refused(user)
	require.Contains(t, commands, "hset", "not on our keys")

	require.NoError(t, raw.ConfigSet(ctx, "maxmemory", "1").Err())
	commands, first = refused(redisstore.Options{})
	require.Contains(t, commands, "hset")
	require.True(t, redis.HasErrorPrefix(first, "OOM"), first)
	require.NoError(t, raw.ConfigSet(ctx, "maxmemory", "0").Err())

	require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	all, err := open(t, redisstore.Options{Addresses: []string{srv.Addr}, Group: "g"}).Examine(ctx, time.Now)
	require.NoError(t, err)
	require.ErrorIs(t, all[0].Fault, state.ErrUnfit)
	size, err := raw.DBSize(ctx).Result()
	require.NoError(t, err)
	require.Zero(t, size)
}
