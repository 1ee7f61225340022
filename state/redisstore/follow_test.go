package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/state"
)

// TestDeltas_Forms: an entry of a version that is not known here is a gap, for the follower then reads all there is; one
// without a version is of before there were any.
func TestDeltas_Forms(t *testing.T) {
	onEachRedis(t, func(t *testing.T, raw *redis.Client, open func() *Store) {
		ctx := t.Context()
		s := open()
		c := begin(t, s, state.Changes{Writes: []state.Write{write("h", "f", "v")}})
		after := state.Fence{Token: c.Fence.Token}
		deltas, err := s.Deltas(ctx, 0, after)
		require.NoError(t, err)
		require.Len(t, deltas, 1)

		key := s.prefix(0) + deltasKey
		written, err := raw.XRange(ctx, key, "-", "+").Result()
		require.NoError(t, err)
		values := written[0].Values
		require.Equal(t, "1", values["form"])
		for _, x := range []struct {
			form  string
			known bool
		}{{"", true}, {"1", true}, {"2", false}, {"10", false}, {"x", false}} {
			if delete(values, "form"); x.form != "" {
				values["form"] = x.form
			}
			require.NoError(t, raw.Del(ctx, key).Err())
			require.NoError(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: "1-0", Values: values}).Err())
			again, err := s.Deltas(ctx, 0, after)
			if x.known {
				require.NoError(t, err, x.form)
				require.Equal(t, deltas, again)
			} else {
				require.ErrorIs(t, err, state.ErrGap, x.form)
			}
		}
	})
}
