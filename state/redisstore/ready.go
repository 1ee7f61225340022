package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

const noEviction = "noeviction"

// Ready implements state.Store. Each server, in a cluster each master, must be a master that evicts nothing, and a trial write must
// succeed. It returns state.ErrUnfit if an operator must act, but not for transient faults, or those that memory or a failover heals.
func (s *Store) Ready(ctx context.Context) error {
	var mu sync.Mutex
	var faults []error
	err := s.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		fault := s.checkServer(ctx, node)
		if fault != nil && s.opts.Cluster {
			fault = fmt.Errorf("%s: %w", node.Options().Addr, fault)
		}
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, fault)
		return nil
	})
	err = errors.Join(append(faults, err)...)
	if err == nil {
		err = s.trialWrite(ctx)
	}
	if err != nil {
		return fmt.Errorf("is Redis ready: %w", err)
	}
	return nil
}

func (s *Store) checkServer(ctx context.Context, node redis.Cmdable) error {
	info, err := readInfo(ctx, node)
	if err != nil {
		return err
	}
	if info["loading"] == "1" {
		return errors.New("the server is still loading its data")
	}
	if role := info["role"]; role != "" && role != "master" {
		return fmt.Errorf("the server's role is %q; a master is needed", role)
	}
	return s.checkEvictions(ctx, node, info)
}

// readInfo parses INFO; it returns nil if INFO is forbidden.
func readInfo(ctx context.Context, node redis.Cmdable) (map[string]string, error) {
	text, err := node.Info(ctx).Result()
	if notPermitted(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("INFO: %w", err)
	}
	return parseInfo(text), nil
}

// checkEvictions fails if the server may evict keys, or has evicted some since it was first asked.
func (s *Store) checkEvictions(ctx context.Context, node redis.Cmdable, info map[string]string) error {
	if info != nil && info["redis_version"] == "" {
		// Redis and its relatives report a version. An embedded server for tests and demonstrations does not, and has no memory limit.
		return nil
	}
	if n, _ := strconv.ParseInt(info["evicted_keys"], 10, 64); s.evicted.since(info["run_id"], n) > 0 {
		return fmt.Errorf("%w: %w: %d under an earlier maxmemory-policy, as evicted_keys of INFO shows; stop the workers and "+
			"run `ranker-worker state rebuild --replace`, or restore a backup", state.ErrUnfit, state.ErrLost, n)
	}
	policy := info["maxmemory_policy"]
	if policy == "" {
		got, err := node.ConfigGet(ctx, "maxmemory-policy").Result()
		var answer redis.Error
		switch {
		case errors.As(err, &answer):
			return fmt.Errorf("%w: neither INFO nor CONFIG GET shows its maxmemory-policy, which must be %s (does the "+
				"ACL allow INFO?): %w", state.ErrUnfit, noEviction, err)
		case err != nil:
			return fmt.Errorf("CONFIG GET: %w", err)
		}
		policy = got["maxmemory-policy"]
	}
	if policy != noEviction {
		return fmt.Errorf("%w: its maxmemory-policy is %q, which can delete state; it must be %s (CONFIG SET "+
			"maxmemory-policy %s, and in redis.conf)", state.ErrUnfit, policy, noEviction, noEviction)
	}
	return nil
}

// checkPartitionEvictions is checkEvictions for the server that holds partition p.
func (s *Store) checkPartitionEvictions(ctx context.Context, p int32) error {
	node, err := s.node(ctx, s.prefix(p)+metaKey)
	if err != nil {
		return fmt.Errorf("find its server: %w", err)
	}
	info, err := readInfo(ctx, node)
	if err != nil {
		return err
	}
	return s.checkEvictions(ctx, node, info)
}

// evictions holds each server process's count of evicted keys when it was first asked: keys evicted under an earlier maxmemory-policy.
type evictions struct {
	mu    sync.Mutex
	first map[string]int64 // by run_id
}

// since returns the increase to n.
func (e *evictions) since(run string, n int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	first, ok := e.first[run]
	if !ok || n < first { // CONFIG RESETSTAT
		if len(e.first) >= maxServers {
			clear(e.first)
		}
		if e.first == nil {
			e.first = map[string]int64{}
		}
		e.first[run], first = n, n
	}
	return n - first
}

// maxServers bounds the server processes in memory; each restart adds one.
const maxServers = 1000

func notPermitted(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if k, v, ok := strings.Cut(strings.TrimRight(line, "\r"), ":"); ok {
			info[k] = v
		}
	}
	return info
}

// trialWrites is the number of keys tried in a cluster, so that each master gets some.
const trialWrites = 16

// trialWrite writes keys that are not read, and expire.
func (s *Store) trialWrite(ctx context.Context) error {
	n := 1
	if s.opts.Cluster {
		n = trialWrites
	}
	pipe := s.client.Pipeline()
	for i := range n {
		tag := "{" + s.opts.Group + ":ready"
		if i > 0 {
			tag += strconv.Itoa(i)
		}
		pipe.Set(ctx, tag+"}:write", "", time.Minute)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		switch {
		case redis.HasErrorPrefix(err, "OOM"):
			return fmt.Errorf("the server is out of memory: %w", err)
		case redis.HasErrorPrefix(err, "READONLY"):
			return fmt.Errorf("the server is a read-only replica: %w", err)
		case redis.HasErrorPrefix(err, "NOREPLICAS"):
			return fmt.Errorf("the server wants more replicas before it writes (min-replicas-to-write): %w", err)
		case redis.HasErrorPrefix(err, "MISCONF"):
			return fmt.Errorf("the server cannot save its data to disk: %w", err)
		}
		return fmt.Errorf("a trial write: %w", err)
	}
	return nil
}
