package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

// TestCheckpoint_WhileItsSlotMoves: a page that a checkpoint empties is then a key that the server does not have.
func TestCheckpoint_WhileItsSlotMoves(t *testing.T) {
	cluster := testenv.OwnRedisCluster(t)
	s := open(t, redisstore.Options{Addresses: cluster.Addrs(), Cluster: true, Group: "g"})
	ctx := t.Context()
	c := acquire(t, s)
	require.NoError(t, s.Checkpoint(ctx, 0, c))

	slot := client(t, cluster.Addrs()[0]).ClusterKeySlot(ctx, "{g:0}:meta").Val()
	owner := int(slot) * len(cluster.Nodes) / 16384
	from, to := client(t, cluster.Addrs()[owner]), client(t, cluster.Addrs()[(owner+1)%len(cluster.Nodes)])
	require.NoError(t, from.Do(ctx, "cluster", "setslot", slot, "migrating", to.Do(ctx, "cluster", "myid").Val()).Err())

	c.Fence.Seq, c.ID = 1, "d"
	c.Changes = state.Changes{Entries: []state.Entry{{Place: state.Place{Page: 1, ID: state.ID{1}}}}}
	require.NoError(t, s.Checkpoint(ctx, 0, c))
	require.Zero(t, from.ZCard(ctx, "{g:0}:pages").Val())
}

// TestFit_WhileASlotMoves: the server then redirects a worker's commands, and refuses none.
func TestFit_WhileASlotMoves(t *testing.T) {
	cluster := testenv.OwnRedisCluster(t)
	s := open(t, redisstore.Options{Addresses: cluster.Addrs(), Cluster: true, Group: "g"})
	ctx := t.Context()
	acquire(t, s)
	for _, key := range []string{"{g:0}:meta", "{g:doctor}:tried", "{g:ready}:write"} {
		slot := client(t, cluster.Addrs()[0]).ClusterKeySlot(ctx, key).Val()
		owner := int(slot) * len(cluster.Nodes) / 16384
		from, to := client(t, cluster.Addrs()[owner]), client(t, cluster.Addrs()[(owner+1)%len(cluster.Nodes)])
		require.NoError(t, from.Do(ctx, "cluster", "setslot", slot, "migrating", to.Do(ctx, "cluster", "myid").Val()).Err())
		require.NoError(t, to.Do(ctx, "cluster", "setslot", slot, "importing", from.Do(ctx, "cluster", "myid").Val()).Err())
		assert.NoError(t, s.Fit(ctx, 1))
		all, err := s.Examine(ctx, time.Now)
		assert.NoError(t, err)
		for i := range all {
			assert.Empty(t, all[i].Refused)
		}
	}
}
