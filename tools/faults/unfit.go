package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// logsIn is an edit of a configuration: the worker logs in to Redis.
func logsIn(user, password string) func(string) string {
	return func(text string) string {
		return strings.Replace(text, "redis: {", fmt.Sprintf("redis: {username: %s, password: %s, ", user, password), 1)
	}
}

// rankWithout waits until one worker stays outside of the group, and checks that the others rank.
func (s *isolated) rankWithout(ctx context.Context, unfit *Worker, patience time.Duration) {
	expect(ctx, unfit.AwaitUnready(ctx, patience, "stays outside of group"))
	for _, w := range s.Slots {
		if w != unfit {
			expect(ctx, w.AwaitReady(ctx))
		}
	}
	before := get(s.Account(ctx))
	expect(ctx, until(ctx, 30*time.Second, "impressions are ranked while one worker is unfit", func() (bool, error) {
		after, err := s.Account(ctx)
		return after["impressions.read"] > before["impressions.read"], err
	}))
}

// spoilCredentials starts one of several workers with a wrong password for Redis: it
// stays outside of the group, and the others rank everything, until it has the right one.
func spoilCredentials(ctx context.Context, s *isolated) {
	wrong := s.Slots[0]
	for round := range 2 {
		wrong.edit = logsIn("nobody", "wrong")
		end := wrong.Stop
		if round > 0 { // while it is outside
			end = wrong.Kill
		}
		try(errors.Join(end(), wrong.configure(), wrong.Start()))
		s.rankWithout(ctx, wrong, stopPatience)
	}
	wrong.edit = nil
	s.reload(ctx, wrong)
}

// leavePatience is how long an unfit member may take to leave: the time for which it is unfit, and a drain without saves.
const leavePatience = 90 * time.Second

// changeCredentials changes the password of a running worker, or its user's keys. At the
// next rebalance it cannot take over its partitions, and leaves the group until it can.
func changeCredentials(ctx context.Context, s *isolated) {
	user := "user-of-" + s.Name
	run := func(args ...any) error {
		return s.redis.use(func(c goredis.UniversalClient) error { return c.Do(ctx, args...).Err() })
	}
	set := func(rules ...any) error { return run(append([]any{"acl", "setuser", user}, rules...)...) }
	try(set("on", ">right", "~*", "+@all"))
	defer undo(func() error { return run("acl", "deluser", user) })
	wrong, healthy := s.Slots[0], s.Slots[1]
	wrong.edit = logsIn(user, "right")
	s.reload(ctx, wrong)
	spoil, mend := []any{"resetpass", ">other"}, []any{">right"}
	if s.rng.IntN(2) == 0 {
		spoil, mend = []any{"resetkeys", "~another:*"}, []any{"~*"}
	}
	try(errors.Join(set(spoil...), run("client", "kill", "user", user), healthy.Kill(), healthy.Start()))
	s.rankWithout(ctx, wrong, leavePatience)
	try(set(mend...))
	expect(ctx, wrong.AwaitReady(ctx))
	wrong.edit = nil
	s.reload(ctx, wrong)
}
