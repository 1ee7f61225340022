package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// View implements state.AdminStore, by one transaction: the server is busy for as long as reading the hashes takes, as it is
// with Sums.
func (s *Store) View(ctx context.Context, p int32, hashes []string) (state.Meta, []state.Field, error) {
	const doing = "view"
	prefix := s.prefix(p)
	pipe := s.client.TxPipeline()
	meta := pipe.HGetAll(ctx, prefix+metaKey)
	cmds := make([]*redis.MapStringStringCmd, 0, len(hashes))
	names := make([]string, 0, len(hashes))
	for _, h := range hashes {
		if h != metaKey {
			cmds, names = append(cmds, pipe.HGetAll(ctx, prefix+h)), append(names, h)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return state.Meta{}, nil, wrap(p, doing, err)
	}
	stored := meta.Val()
	if stored[fieldToken] == "" {
		return state.Meta{}, nil, wrap(p, doing, state.ErrNoState)
	}
	if stored[fieldTorn] != "" {
		return state.Meta{}, nil, wrap(p, doing, state.ErrIncomplete)
	}
	m, err := parseMeta(stored)
	if err != nil {
		return state.Meta{}, nil, wrap(p, doing, err)
	}
	var all []state.Field
	add := func(hash string, fields map[string]string) {
		for f, v := range fields {
			if hash != metaKey || !reserved(f) {
				all = append(all, state.Field{Hash: hash, Field: []byte(f), Value: []byte(v)})
			}
		}
	}
	add(metaKey, stored)
	for i, h := range names {
		add(h, cmds[i].Val())
	}
	return m, all, nil
}

// keysAtOnce is about how many keys are looked through, and at most how many are deleted, in one step.
const keysAtOnce = 1000

// Drop implements state.AdminStore. It looks through all keys of the server, since hashes of
// learners that are not configured any more have no other list.
func (s *Store) Drop(ctx context.Context, p int32, token string) error {
	const doing = "drop"
	meta := s.prefix(p) + metaKey
	stored, err := s.client.HGet(ctx, meta, fieldToken).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return wrap(p, doing, err)
	}
	if token != "" && err == nil && stored != token {
		return wrap(p, doing, state.ErrFenced)
	}
	node, err := s.node(ctx, meta)
	if err != nil {
		return wrap(p, doing, err)
	}
	scan := node.Scan(ctx, 0, escapeGlob(s.prefix(p))+"*", keysAtOnce).Iterator()
	var keys []string
	for scan.Next(ctx) {
		if k := scan.Val(); k != meta {
			keys = append(keys, k)
		}
		if len(keys) == keysAtOnce {
			if err := node.Unlink(ctx, keys...).Err(); err != nil {
				return wrap(p, doing, err)
			}
			keys = keys[:0]
		}
	}
	if err := scan.Err(); err != nil {
		return wrap(p, doing, err)
	}
	if err := node.Unlink(ctx, append(keys, meta)...).Err(); err != nil {
		return wrap(p, doing, err)
	}
	return nil
}

// escapeGlob makes a text match itself in a pattern.
func escapeGlob(s string) string {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		switch s[i] {
		case '*', '?', '[', ']', '\\':
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return string(b)
}
