package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server describes a server, by its INFO and the commands it refuses.
type Server struct {
	Address string
	Info    map[string]string // nil if INFO is forbidden
	// Save is the setting save, the schedule of dumps; SaveKnown is false if CONFIG GET is forbidden.
	Save      string
	SaveKnown bool
	Clock     time.Duration // its clock's lead over Examine's
	// Fault is the error of Ready; nil if a worker would use the server.
	Fault error
	// Refused are the commands that the server would refuse this user.
	Refused []Refusal
}

type Refusal struct {
	Command string
	Err     error
}

// Examine asks the server, in a cluster each master, about itself. It writes nothing (tryCommands). It compares the servers' clocks with
// now.
func (s *Store) Examine(ctx context.Context, now func() time.Time) ([]Server, error) {
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		one, err := s.examine(ctx, s.client.(*redis.Client), now)
		return []Server{one}, err
	}
	var mu sync.Mutex
	var all []Server
	err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		one, err := s.examine(ctx, node, now)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, one)
		return err
	})
	slices.SortFunc(all, func(a, b Server) int { return cmp.Compare(a.Address, b.Address) })
	return all, err
}

func (s *Store) examine(ctx context.Context, node *redis.Client, now func() time.Time) (r Server, err error) {
	r.Address = node.Options().Addr
	if r.Info, err = readInfo(ctx, node); err != nil {
		return r, err
	}
	r.Fault = s.checkServer(ctx, node)
	asked := now()
	at, err := node.Time(ctx).Result()
	if err != nil && !notPermitted(err) {
		return r, fmt.Errorf("TIME: %w", err)
	}
	if err == nil {
		r.Clock = at.Sub(asked.Add(now().Sub(asked) / 2))
	}
	if save, err := node.ConfigGet(ctx, "save").Result(); err == nil {
		r.Save, r.SaveKnown = save["save"]
	}
	r.Refused, err = s.tryCommands(ctx, node, [][]any{{"info"}, {"time"}})
	return r, err
}

// tryCommands finds out which commands the server would refuse, without running them. After MULTI the server checks rights, memory and role
// for each command and queues it; EXEC is never sent. It uses a connection of its own.
func (s *Store) tryCommands(ctx context.Context, node *redis.Client, more [][]any) (refused []Refusal, err error) {
	o := *node.Options()
	o.PoolSize, o.MinIdleConns = 1, 0
	client := redis.NewClient(&o)
	defer func() { err = errors.Join(err, client.Close()) }()
	pipe := client.Pipeline()
	begin := pipe.Do(ctx, "multi")
	key := "{" + s.opts.Group + ":doctor}:tried"
	tried := [][]any{{"eval", "return 1", 1, key}, {"evalsha", s.acquire.sha, 1, key}, {"hget", key, "f"}, {"hmget", key, "f"},
		{"hset", key, "f", "v"}, {"hdel", key, "f"}, {"hgetall", key}, {"hkeys", key}, {"hlen", key}, {"hscan", key, 0},
		{"exists", key}, {"del", key},
		{"zadd", key, 1, "m"}, {"zrem", key, "m"}, {"zcard", key}, {"zrangebyscore", key, 0, 1}, {"zscan", key, 0}, {"xadd", key, "*", "f", "v"},
		{"xrange", key, "-", "+"}, {"set", key, "v"}}
	tried = append(tried, more...)
	if s.opts.WaitReplicas > 0 {
		tried = append(tried, []any{"wait", 0, 1})
	}
	answers := make([]*redis.Cmd, len(tried))
	for i, args := range tried {
		answers[i] = pipe.Do(ctx, args...)
	}
	pipe.Do(ctx, "discard") // closing has the same effect, if this is forbidden
	_, err = pipe.Exec(ctx) // of the first command that failed
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return nil, fmt.Errorf("try commands: %w", err)
	}
	if begin.Err() != nil {
		return []Refusal{{"multi", begin.Err()}}, nil
	}
	for i, a := range answers {
		if a.Err() != nil && !redis.HasErrorPrefix(a.Err(), "MOVED") {
			refused = append(refused, Refusal{tried[i][0].(string), a.Err()})
		}
	}
	return refused, nil
}
