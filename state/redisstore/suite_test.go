package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/statetest"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

var groups atomic.Int64

// open makes a store of a group that nobody else uses.
func open(t testing.TB, opts redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// subject returns the suite's subject on a Redis server.
func subject(t *testing.T, opts redisstore.Options, flush bool) statetest.Subject {
	opts.Group = "suite" + strconv.FormatInt(groups.Add(1), 10)
	opts.IOTimeout = time.Minute // miniredis takes long for the largest checkpoints on a busy machine
	raw := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: opts.Addresses, IsClusterMode: opts.Cluster,
		Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLS})
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	prefix := func(p int32) string { return fmt.Sprintf("{%s:%d}:", opts.Group, p) }
	s := statetest.Subject{
		Store: open(t, opts), Other: open(t, opts),
		Snapshot: func(t *testing.T, p int32) func() {
			copied := dump(t, raw, prefix(p))
			return func() { restore(t, raw, prefix(p), copied) }
		},
		Tear: func(t *testing.T, p int32, id string) {
			require.NoError(t, raw.HSet(t.Context(), prefix(p)+"meta", "torn", id).Err())
		},
	}
	workers := "{" + opts.Group + ":workers}"
	s.Later = func(t *testing.T, d time.Duration) { older(t, raw, workers, d) }
	s.Note = func(t *testing.T, says map[string]string) { note(t, raw, workers, says) }
	if flush {
		s.Hook = func(t *testing.T) { require.NoError(t, raw.ScriptFlush(t.Context()).Err()) }
	}
	return s
}

// older ages announcements, since no client can set a real server's clock.
func older(t *testing.T, raw redis.UniversalClient, key string, d time.Duration) {
	t.Helper()
	all, err := raw.HGetAll(t.Context(), key).Result()
	require.NoError(t, err)
	for id, says := range all {
		var at int64
		_, err := fmt.Sscanf(says, `{"at":%d,`, &at)
		require.NoError(t, err)
		all[id] = fmt.Sprintf(`{"at":%d,`, at-d.Milliseconds()) + says[strings.Index(says, ",")+1:]
	}
	require.NoError(t, raw.HSet(t.Context(), key, all).Err())
}

// note stores announcements as of now.
func note(t *testing.T, raw redis.UniversalClient, key string, says map[string]string) {
	t.Helper()
	now, err := raw.Time(t.Context()).Result()
	require.NoError(t, err)
	noted := map[string]string{}
	for id, one := range says {
		noted[id] = fmt.Sprintf(`{"at":%d,`, now.UnixMilli()) + one[1:]
	}
	require.NoError(t, raw.HSet(t.Context(), key, noted).Err())
}

// dump reads all keys that begin with prefix, by type. It is for small states.
func dump(t *testing.T, raw redis.UniversalClient, prefix string) map[string]any {
	t.Helper()
	ctx := t.Context()
	all := map[string]any{}
	for _, key := range keys(t, raw, prefix) {
		var err error
		switch kind := raw.Type(ctx, key).Val(); kind {
		case "hash":
			all[key], err = raw.HGetAll(ctx, key).Result()
		case "set":
			all[key], err = raw.SMembersMap(ctx, key).Result()
		case "zset":
			all[key], err = raw.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "stream":
			all[key], err = raw.XRange(ctx, key, "-", "+").Result()
		default:
			require.Fail(t, "unexpected key", "%s of type %s", key, kind)
		}
		require.NoError(t, err)
	}
	return all
}

func keys(t *testing.T, raw redis.UniversalClient, prefix string) []string {
	t.Helper()
	var all []string
	cursor := uint64(0)
	seen := map[string]bool{}
	for {
		page, next, err := raw.Scan(t.Context(), cursor, prefix+"*", 10000).Result()
		require.NoError(t, err)
		for _, k := range page {
			if !seen[k] {
				seen[k] = true
				all = append(all, k)
			}
		}
		if cursor = next; next == 0 {
			return all
		}
	}
}

func restore(t *testing.T, raw redis.UniversalClient, prefix string, all map[string]any) {
	t.Helper()
	ctx := t.Context()
	for _, key := range keys(t, raw, prefix) {
		require.NoError(t, raw.Del(ctx, key).Err())
	}
	for key, value := range all {
		switch v := value.(type) {
		case map[string]string:
			require.NoError(t, raw.HSet(ctx, key, v).Err())
		case map[string]struct{}:
			for m := range v {
				require.NoError(t, raw.SAdd(ctx, key, m).Err())
			}
		case []redis.Z:
			require.NoError(t, raw.ZAdd(ctx, key, v...).Err())
		case []redis.XMessage:
			for _, m := range v {
				require.NoError(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: m.ID, Values: m.Values}).Err())
			}
		}
	}
}

// eachRedis runs f on miniredis and on a real redis-server of the test's own.
func eachRedis(t *testing.T, f func(t *testing.T, addr string)) {
	t.Run("embedded", func(t *testing.T) { f(t, miniredis.RunT(t).Addr()) })
	if testenv.Short() {
		t.Logf("LEFT OUT, because %s=1: the same tests on a real redis-server", testenv.ShortEnv)
		return
	}
	t.Run("real", func(t *testing.T) { f(t, testenv.OwnRedis(t).Addr) })
}

func TestSuite(t *testing.T) {
	eachRedis(t, func(t *testing.T, addr string) {
		opts := redisstore.Options{Addresses: []string{addr}}
		statetest.Run(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
		statetest.RunFollower(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
		statetest.RunAdminStore(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
		statetest.RunRegistry(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
	})
}

// TestSuiteScriptsForgotten runs it with SCRIPT FLUSH between all steps: on a real redis-server, and on miniredis where a short run has no other.
func TestSuiteScriptsForgotten(t *testing.T) {
	addr := ""
	if testenv.Short() {
		addr = miniredis.RunT(t).Addr()
	} else {
		addr = testenv.OwnRedis(t).Addr
	}
	opts := redisstore.Options{Addresses: []string{addr}}
	statetest.Run(t, func(t *testing.T) statetest.Subject { return subject(t, opts, true) })
}

// TestSuiteCluster runs the suite on a cluster of one server, which refuses keys outside the partition's slot and
// undeclared keys.
func TestSuiteCluster(t *testing.T) {
	s := testenv.OwnRedis(t, server.Options{Args: []string{"--cluster-enabled", "yes"}})
	raw := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { require.NoError(t, raw.Close()) }()
	require.NoError(t, raw.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	eventually(t, func(ctx context.Context) bool {
		return strings.Contains(raw.ClusterInfo(ctx).Val(), "cluster_state:ok")
	})
	opts := redisstore.Options{Addresses: []string{s.Addr}, Cluster: true}
	statetest.Run(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
	statetest.RunFollower(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
	statetest.RunAdminStore(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
	statetest.RunRegistry(t, func(t *testing.T) statetest.Subject { return subject(t, opts, false) })
}

// eventually waits until a condition holds.
func eventually(t testing.TB, holds func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.FailNow(t, "it never held")
		}
	}
}
