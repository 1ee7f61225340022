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

	"github.com/ranker-worker/ranker-worker/state"
)

// triedPage is the page in the dry run's keys.
const triedPage = "1"

// Fit implements state.Store. Commands and keys are checked without being run, as in Examine, and each script with its keys in each
// partition.
func (s *Store) Fit(ctx context.Context, partitions int) error {
	err := s.Ready(ctx)
	if err == nil {
		err = s.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return s.rehearse(ctx, node, partitions) })
	}
	switch {
	case err == nil:
		return nil
	case notPermitted(err):
		return fmt.Errorf("%w: the user of redis.username needs the commands and the keys ~{%s:* of docs/do/security.md: %w", state.ErrForbidden, s.opts.Group, err)
	case refusesUs(err):
		return fmt.Errorf("%w: %w", state.ErrForbidden, err)
	}
	return err
}

// eachMaster calls do for the server, in a cluster for each master.
func (s *Store) eachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch c := s.client.(type) {
	case *redis.Client:
		return do(ctx, c)
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, do)
	}
	return fmt.Errorf("unexpected kind of client: %T", s.client)
}

// rehearse checks all commands that a worker needs for partitions 0 to partitions-1.
func (s *Store) rehearse(ctx context.Context, node *redis.Client, partitions int) error {
	var tried [][]any
	for p := range int32(partitions) {
		prefix := s.prefix(p)
		meta, pages, page := prefix+metaKey, prefix+pagesKey, prefix+pageKey+triedPage
		tried = append(tried,
			[]any{"evalsha", s.acquire.sha, 3, meta, pages, prefix + deltasKey},
			[]any{"evalsha", s.checkpoint.sha, 4, meta, pages, prefix + deltasKey, page},
			[]any{"evalsha", s.lookUp.sha, 2, meta, page},
			[]any{"evalsha", s.due.sha, 2, meta, pages})
	}
	refused, err := s.tryCommands(ctx, node, tried)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("the rights of this worker's Redis user leave out %s: %w", refused[0].Command, refused[0].Err)
	}
	return nil
}

// refusesUs reports whether the server refuses this user or its password, which other workers need not share.
func refusesUs(err error) bool {
	return slices.ContainsFunc([]string{"NOAUTH", "WRONGPASS", "AUTH ", "Client sent AUTH", "invalid password"},
		func(answer string) bool { return redis.HasErrorPrefix(err, answer) })
}

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
	var mu sync.Mutex
	var all []Server
	err := s.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
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
		{"exists", key}, {"del", key}, {"pexpire", key, 1},
		{"zadd", key, 1, "m"}, {"zrem", key, "m"}, {"zcard", key}, {"zrangebyscore", key, 0, 1}, {"zrange", key, 0, 1}, {"xadd", key, "*", "f", "v"},
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
		if a.Err() != nil && !sentOn(a.Err()) {
			refused = append(refused, Refusal{tried[i][0].(string), a.Err()})
		}
	}
	return refused, nil
}

// sentOn reports whether a node of a cluster has checked the rights, and names another node for the keys, or moves their slot.
func sentOn(err error) bool {
	return slices.ContainsFunc([]string{"MOVED ", "ASK ", "TRYAGAIN "}, func(answer string) bool { return redis.HasErrorPrefix(err, answer) })
}
