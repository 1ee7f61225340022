package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// stateStore is a group's Redis or Redis Cluster.
type stateStore interface {
	// section returns the configuration's redis section for the worker in a slot, or for the harness, without proxies.
	section(slot int) string
	use(f func(c goredis.UniversalClient) error) error
}

var (
	_ stateStore = (*Store)(nil)
	_ stateStore = (*redisCluster)(nil)
)

// harness is the slot of the tests' own clients, which use no proxies.
const harness = -1

func (s *Store) section(slot int) string {
	addr := s.Addr()
	if slot != harness {
		addr = s.proxies.of(slot).Addr()
	}
	return fmt.Sprintf(`{url: "redis://%s/0"}`, addr)
}

type redisCluster struct{ *redis.Cluster }

func (rc *redisCluster) section(int) string {
	return fmt.Sprintf("{addresses: [%s], cluster: true}", strings.Join(rc.Addrs(), ", "))
}

func (rc *redisCluster) use(f func(c goredis.UniversalClient) error) error {
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: rc.Addrs(), DialTimeout: time.Second, ReadTimeout: storeTimeout})
	defer func() { _ = c.Close() }()
	return f(c)
}

// owner returns the slot of a key, and the node that serves it.
func (rc *redisCluster) owner(ctx context.Context, key string) (slot int64, node int) {
	try(rc.use(func(c goredis.UniversalClient) error {
		slot = get(c.ClusterKeySlot(ctx, key).Result())
		node = slices.Index(rc.Addrs(), get(c.(*goredis.ClusterClient).MasterForKey(ctx, key)).Options().Addr)
		return nil
	}))
	if node < 0 {
		fail(fmt.Errorf("slot %d is served by a stranger", slot))
	}
	return slot, node
}

// move moves a key's slot to the next node, key by key, like a resharding, under writes.
func (rc *redisCluster) move(ctx context.Context, key string) {
	slot, from := rc.owner(ctx, key)
	to := (from + 1) % len(rc.Nodes)
	id := make([]string, len(rc.Nodes))
	for i, n := range rc.Nodes {
		try(server(n, func(c *goredis.Client) (err error) { id[i], err = c.ClusterMyID(ctx).Result(); return err }))
	}
	set := func(node int, args ...any) error {
		return server(rc.Nodes[node], func(c *goredis.Client) error {
			return c.Do(ctx, append([]any{"cluster", "setslot", slot}, args...)...).Err()
		})
	}
	try(errors.Join(set(to, "importing", id[from]), set(from, "migrating", id[to])))
	host, port, _ := strings.Cut(rc.Nodes[to].Addr(), ":")
	err := server(rc.Nodes[from], func(c *goredis.Client) error {
		for {
			keys, err := c.ClusterGetKeysInSlot(ctx, int(slot), 50).Result()
			if err != nil || len(keys) == 0 {
				return err
			}
			args := []any{"migrate", host, port, "", 0, 5000, "keys"}
			for _, k := range keys {
				args = append(args, k)
			}
			if err := c.Do(ctx, args...).Err(); err != nil {
				return fmt.Errorf("move keys of slot %d: %w", slot, err)
			}
			pause(ctx, 20*time.Millisecond)
		}
	})
	for node := range rc.Nodes { // the new owner first
		err = errors.Join(err, set((to+node)%len(rc.Nodes), "node", id[to]))
	}
	try(err)
}
