package checker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/config"
)

type store struct {
	client redis.UniversalClient
	group  string
}

func newStore(cfg *config.Config) (*store, error) {
	tls, err := cfg.RedisTLSConfig()
	if err != nil {
		return nil, err
	}
	password, err := cfg.RedisPassword()
	if err != nil {
		return nil, err
	}
	o := &redis.UniversalOptions{Addrs: cfg.Redis.Addresses, Username: cfg.Redis.Username, Password: password, DB: cfg.Redis.DB,
		TLSConfig: tls, IsClusterMode: cfg.Redis.Cluster, ReadTimeout: time.Minute, DisableIdentity: true}
	return &store{client: redis.NewUniversalClient(o), group: cfg.Kafka.Group}, nil
}

func (s *store) close() { _ = s.client.Close() }

// dump reads all keys of a partition in one step: name, type and content. It blocks Redis for about two seconds per million ids.
//
// KEYS 1: the key "meta"  ARGV 1: a pattern of all keys
const dump = `
local out = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key)
  if type(kind) == 'table' then kind = kind.ok end
  local content
  if kind == 'hash' then content = redis.call('HGETALL', key)
  elseif kind == 'set' then content = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then content = redis.call('XRANGE', key, '-', '+')
  else content = {} end
  out[#out + 1] = {key, kind, content}
end
return out
`

type key struct {
	name    string // without the partition's prefix
	kind    string // Redis' type
	content []any  // strings; of a stream its entries
}

// strings returns the content of a hash, set or sorted set.
func (k *key) strings() ([]string, error) {
	all := make([]string, len(k.content))
	for i, v := range k.content {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("key %q holds a %T", k.name, v)
		}
		all[i] = s
	}
	return all, nil
}

// snapshot is all that Redis holds of a partition at one moment.
type snapshot struct {
	meta map[string]string
	keys []key // all but meta
}

var (
	errTorn    = errors.New("a checkpoint stands half-written")
	errNoState = errors.New("nothing is stored")
)

const retryPause = 100 * time.Millisecond

// snapshot reads a partition atomically. It waits up to patience for the repair of a half-written checkpoint, and then returns it torn.
func (s *store) snapshot(ctx context.Context, p int32, patience time.Duration) (*snapshot, error) {
	until := time.Now().Add(patience)
	for {
		snap, err := s.read(ctx, p)
		if err == nil && snap.meta["torn"] != "" {
			err = errTorn
		}
		if err == nil || errors.Is(err, errNoState) {
			return snap, err
		}
		if time.Now().After(until) || ctx.Err() != nil {
			if errors.Is(err, errTorn) {
				return snap, nil
			}
			return nil, fmt.Errorf("reading partition %d from Redis: %w", p, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

func (s *store) read(ctx context.Context, p int32) (*snapshot, error) {
	prefix := fmt.Sprintf("{%s:%d}:", s.group, p)
	reply, err := s.dump(ctx, prefix)
	if err != nil {
		return nil, err
	}
	snap := &snapshot{}
	for _, one := range reply {
		parts, ok := one.([]any)
		if !ok || len(parts) != 3 {
			return nil, fmt.Errorf("unexpected reply: %T", one)
		}
		name, _ := parts[0].(string)
		kind, _ := parts[1].(string)
		content, _ := parts[2].([]any)
		k := key{name: strings.TrimPrefix(name, prefix), kind: kind, content: content}
		if k.name != "meta" {
			snap.keys = append(snap.keys, k)
			continue
		}
		fields, err := k.strings()
		if err != nil {
			return nil, err
		}
		snap.meta = make(map[string]string, len(fields)/2)
		for i := 0; i+1 < len(fields); i += 2 {
			snap.meta[fields[i]] = fields[i+1]
		}
	}
	if snap.meta == nil {
		return nil, errNoState
	}
	return snap, nil
}

// errMigrating means that a partition's keys are moving between servers of a cluster.
var errMigrating = errors.New("the slot is being moved")

// dump runs the script on the partition's server. A cluster may be moving the slot: a server would show the keys that it still has.
func (s *store) dump(ctx context.Context, prefix string) ([]any, error) {
	meta := prefix + "meta"
	run := func(c *redis.Client) ([]any, error) {
		return c.Eval(ctx, dump, []string{meta}, prefix+"*").Slice()
	}
	switch c := s.client.(type) {
	case *redis.Client:
		return run(c)
	case *redis.ClusterClient:
		node, err := c.MasterForKey(ctx, meta)
		if err != nil {
			return nil, err
		}
		reply, err := run(node)
		if err == nil {
			err = checkSlotOwned(ctx, node, meta)
		}
		if err != nil {
			c.ReloadState(ctx) // it may have moved away
			return nil, err
		}
		return reply, nil
	}
	return nil, fmt.Errorf("unexpected kind of client: %T", s.client)
}

// checkSlotOwned fails unless a cluster node has all of a key's slot.
func checkSlotOwned(ctx context.Context, node *redis.Client, key string) error {
	slot, err := node.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	nodes, err := node.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	for line := range strings.Lines(nodes) {
		if !strings.Contains(line, "myself") {
			continue
		}
		for _, part := range strings.Fields(line)[8:] {
			first, last, span := strings.Cut(part, "-")
			from, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				if strings.HasPrefix(part, fmt.Sprintf("[%d-", slot)) { // moving in or out
					return errMigrating
				}
				continue
			}
			to := from
			if span {
				to, err = strconv.ParseInt(last, 10, 64)
			}
			if err == nil && from <= slot && slot <= to && !strings.Contains(line, fmt.Sprintf("[%d-", slot)) {
				return nil
			}
		}
	}
	return errMigrating
}
