package redisstore

import (
	"context"
	"fmt"

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
	for _, answer := range []string{"NOAUTH", "WRONGPASS", "AUTH ", "Client sent AUTH", "invalid password"} {
		if redis.HasErrorPrefix(err, answer) {
			return true
		}
	}
	return false
}
