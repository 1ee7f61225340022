package faults

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// Store is a Redis with an append-only file and a replica. Workers reach the primary through proxies.
type Store struct {
	proxies proxies
	dump    string // a backup

	mu      sync.Mutex // guards which server is the primary
	primary *redis.Server
	replica *redis.Server
}

// storeTimeout bounds the harness' own requests.
const storeTimeout = 10 * time.Second

func startStore(ctx context.Context, dump string) (_ *Store, err error) {
	goredis.SetLogger(silence{})
	s := &Store{dump: dump}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	// Written once a second: with "always" each checkpoint would wait for the disk.
	opts := redis.Options{AppendOnly: true, Args: []string{"--appendfsync", "everysec"}}
	if s.primary, err = redis.Start(ctx, opts); err != nil {
		return nil, err
	}
	if s.replica, err = redis.Start(ctx, opts); err != nil {
		return nil, err
	}
	if s.proxies, err = newProxies(s.primary.Addr()); err != nil {
		return nil, err
	}
	return s, s.follow(ctx)
}

// silence drops go-redis' messages on standard error about a killed server.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func server(r *redis.Server, f func(c *goredis.Client) error) error {
	c := goredis.NewClient(&goredis.Options{Addr: r.Addr(), MaxRetries: -1, DialTimeout: time.Second,
		ReadTimeout: storeTimeout, PoolSize: 4})
	defer func() { _ = c.Close() }()
	return f(c)
}

// Addr returns the present primary's address, without proxy.
func (s *Store) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.primary.Addr()
}

// use runs f with a client of the present primary, without proxy.
func (s *Store) use(f func(c goredis.UniversalClient) error) error {
	s.mu.Lock()
	primary := s.primary
	s.mu.Unlock()
	return server(primary, func(c *goredis.Client) error { return f(c) })
}

// follow makes the replica one of the primary, and waits until it has everything.
func (s *Store) follow(ctx context.Context) error {
	host, port, _ := strings.Cut(s.primary.Addr(), ":")
	return server(s.replica, func(c *goredis.Client) error {
		err := until(ctx, storeTimeout, "a Redis is made a replica", func() (bool, error) { // it may still be loading
			return true, c.ReplicaOf(ctx, host, port).Err()
		})
		if err != nil {
			return err
		}
		return until(ctx, storeTimeout*3, "the replica follows", func() (bool, error) {
			info, err := c.Info(ctx, "replication").Result()
			return strings.Contains(info, "master_link_status:up") && !strings.Contains(info, "master_sync_in_progress:1"), err
		})
	})
}

// Backup takes a dump of the primary. One for the replica may be under way.
func (s *Store) Backup(ctx context.Context) error {
	return until(ctx, storeTimeout, "a backup is taken", func() (bool, error) {
		return true, s.primary.Dump(ctx, s.dump)
	})
}

func (s *Store) RollBack(ctx context.Context) error {
	if err := s.primary.Kill(); err != nil {
		return err
	}
	return s.primary.StartFrom(ctx, s.dump)
}

// Stall lets the replica stay behind from now on. It may be loading the primary's data.
func (s *Store) Stall(ctx context.Context) error {
	return server(s.replica, func(c *goredis.Client) error {
		return until(ctx, storeTimeout*3, "the replica stays behind", func() (bool, error) {
			return true, c.ReplicaOf(ctx, "no", "one").Err()
		})
	})
}

// FailOver exchanges primary and replica, with the replica's data.
func (s *Store) FailOver(ctx context.Context) error {
	if err := s.Stall(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.primary, s.replica = s.replica, s.primary
	s.mu.Unlock()
	s.proxies.SetTarget(s.primary.Addr())
	return s.follow(ctx)
}

// shard reads all keys of a pattern at one moment, with their values as of DUMP.
func (s *Store) shard(ctx context.Context, pattern string) (stored []any, err error) {
	err = s.use(func(c goredis.UniversalClient) error {
		stored, err = c.Eval(ctx, `local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
	all[#all+1] = key
	all[#all+1] = redis.call('DUMP', key)
end
return all`, nil, pattern).Slice()
		return err
	})
	return stored, err
}

// rollBackShard replaces all keys of a pattern by the result of shard at one moment. Other keys stay: they are other masters'.
func (s *Store) rollBackShard(ctx context.Context, pattern string, stored []any) error {
	return s.use(func(c goredis.UniversalClient) error {
		return c.Eval(ctx, `for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
	redis.call('DEL', key)
end
for k = 2, #ARGV, 2 do
	redis.call('RESTORE', ARGV[k], 0, ARGV[k+1])
end
return 'OK'`, nil, append([]any{pattern}, stored...)...).Err()
	})
}

func (s *Store) Restart(ctx context.Context, away time.Duration) error {
	if err := s.primary.Kill(); err != nil {
		return err
	}
	pause(ctx, away)
	return s.primary.Start(context.WithoutCancel(ctx))
}

// Fill sets the memory limit to the memory in use, so that writes fail; false removes the limit.
func (s *Store) Fill(ctx context.Context, on bool) error {
	limit := "0"
	if on {
		limit = "1mb"
	}
	return s.config(ctx, "maxmemory", limit)
}

func (s *Store) config(ctx context.Context, name, value string) error {
	return s.use(func(c goredis.UniversalClient) error { return c.ConfigSet(ctx, name, value).Err() })
}

func (s *Store) heal(ctx context.Context) error {
	s.proxies.Heal()
	for _, r := range []*redis.Server{s.primary, s.replica} {
		var err error
		if r.Running() {
			err = r.FillDisk(false)
		} else {
			err = r.Start(ctx)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(s.Fill(ctx, false), s.follow(ctx))
}

func (s *Store) Close() error {
	var errs []error
	s.proxies.Close()
	for _, r := range []*redis.Server{s.primary, s.replica} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}
