package checker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestRedisClusterIsReadLikeOneServer: partitions on several masters of a
// Redis Cluster, beside a worker and after it; corruption of each is found.
func TestRedisClusterIsReadLikeOneServer(t *testing.T) {
	t.Parallel()
	addrs := testenv.OwnRedisCluster(t).Addrs()
	const partitions, impressions = 16, 800
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	w := newWorldOn(t, testenv.Embedded(t), partitions, feed, "redis: {addresses: ["+strings.Join(addrs, ", ")+"], cluster: true}", client)
	half, begun := make(chan struct{}), false
	worker := w.start(t, nil)
	done := w.play(t, impressions, 11, func(p platform.Progress) {
		if !begun && p.Rankings >= impressions/2 {
			begun = true
			close(half)
		}
	})
	<-half
	requireClean(t, w.check(t))
	require.NoError(t, <-done)
	worker.stop(t)
	r := w.check(t)
	requireClean(t, r)
	require.Len(t, r.Partitions, partitions)
	w.movingSlot(t, client)

	spoilt := map[string]int{} // one partition on each master
	for p := range partitions {
		node, err := client.MasterForKey(t.Context(), w.key(p, "meta"))
		require.NoError(t, err)
		spoilt[node.Options().Addr] = p
	}
	require.Greater(t, len(spoilt), 1) // all 16 on one of three masters: with probability 3^-15 < 1e-6
	for _, p := range spoilt {
		require.NoError(t, client.HIncrBy(context.Background(), w.key(p, "meta"), "account.payoffs.applied", 1).Err())
	}
	found := map[int]bool{}
	for _, v := range w.check(t).Violations {
		if v.Law == lawNames[accountSum] {
			found[int(v.Partition)] = true
		}
	}
	require.Len(t, found, len(spoilt))
	for _, p := range spoilt {
		require.True(t, found[p], "partition %d", p)
	}
}

// movingSlot sees that a partition is not judged whose slot is on its way: a server shows the keys that it still has.
func (w *world) movingSlot(t *testing.T, client *redis.ClusterClient) {
	t.Helper()
	var mu sync.Mutex
	slot, err := client.ClusterKeySlot(t.Context(), w.key(0, "meta")).Result()
	require.NoError(t, err)
	owner, err := client.MasterForKey(t.Context(), w.key(0, "meta"))
	require.NoError(t, err)
	var other string
	require.NoError(t, client.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		if c.Options().Addr == owner.Options().Addr {
			return nil
		}
		id, err := c.ClusterMyID(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		other = id
		return err
	}))
	require.NoError(t, owner.Do(t.Context(), "cluster", "setslot", slot, "migrating", other).Err())
	_, err = Check(t.Context(), Options{Config: w.cfg, Partitions: []int32{0}, Patience: time.Second})
	require.ErrorIs(t, err, errMigrating)
	require.NoError(t, owner.Do(t.Context(), "cluster", "setslot", slot, "stable").Err())
	requireClean(t, w.check(t))
}
