package checker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/config"
)

// store reads Redis.
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

// dump reads all that is stored of a partition, in one step: name, type and content of each key. It takes about two
// seconds for a million ids, in which Redis answers nobody else.
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
  elseif kind == 'zset' then content = redis.call('ZRANGE', key, 0, -1)
  elseif kind == 'stream' then content = redis.call('XRANGE', key, '-', '+')
  else content = {} end
  out[#out + 1] = {key, kind, content}
end
return out
`

// key is one of a partition's keys.
type key struct {
	name    string // behind the partition's prefix
	kind    string // Redis' type
	content []any  // strings; of a stream its entries
}

// strings gives the content of a hash, set or sorted set.
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
	partition int32
	meta      map[string]string
	keys      []key // all but meta
}

var (
	errTorn    = errors.New("a checkpoint stands half-written")
	errNoState = errors.New("nothing is stored")
)

const retryPause = 100 * time.Millisecond

// snapshot reads a partition atomically. A checkpoint that was written only in part is waited for, because its writer
// repairs it; if it does not, what there is is taken, and found torn.
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
	node, err := s.node(ctx, prefix+"meta")
	if err != nil {
		return nil, err
	}
	reply, err := node.Eval(ctx, dump, []string{prefix + "meta"}, prefix+"*").Slice()
	if err != nil {
		return nil, err
	}
	snap := &snapshot{partition: p}
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

// node is the server that a key is on.
func (s *store) node(ctx context.Context, key string) (*redis.Client, error) {
	switch c := s.client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("unexpected kind of client: %T", s.client)
}
