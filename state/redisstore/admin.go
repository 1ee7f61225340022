package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// View implements state.AdminStore, by one transaction that blocks the server while it reads the hashes, like Sums.
func (s *Store) View(ctx context.Context, p int32, hashes []string) (m state.Meta, fields []state.Field, err error) {
	defer wrap(&err, p, "view")
	return s.view(ctx, p, hashes, func(redis.Pipeliner) {})
}

// view reads the cut, hashes and the results of also, in one transaction.
func (s *Store) view(ctx context.Context, p int32, hashes []string, also func(redis.Pipeliner)) (m state.Meta, all []state.Field, err error) {
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
	also(pipe)
	if err := execute(ctx, pipe); err != nil {
		return m, nil, err
	}
	stored := meta.Val()
	if stored[fieldToken] == "" {
		return m, nil, state.ErrNoState
	}
	if stored[fieldTorn] != "" {
		return m, nil, state.ErrIncomplete
	}
	if m, err = parseMeta(stored); err != nil {
		return m, nil, err
	}
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

// wholeTries bounds the retries of ViewAll, for pages that begin between the list of pages and the transaction.
const wholeTries = 20

// ViewAll implements state.AdminStore, by one transaction over the pages listed just before.
func (s *Store) ViewAll(ctx context.Context, p int32, hashes []string) (m state.Meta, _ []state.Field, _ []state.PageOfEntries, err error) {
	defer wrap(&err, p, "read all")
	for range wholeTries {
		listed, err := s.client.ZRange(ctx, s.prefix(p)+pagesKey, 0, -1).Result()
		if err != nil {
			return m, nil, nil, err
		}
		var list *redis.ZSliceCmd
		cmds := make(map[string]*redis.MapStringStringCmd, len(listed))
		m, fields, err := s.view(ctx, p, hashes, func(pipe redis.Pipeliner) {
			list = pipe.ZRangeWithScores(ctx, s.prefix(p)+pagesKey, 0, -1)
			for _, number := range listed {
				cmds[number] = pipe.HGetAll(ctx, s.prefix(p)+pageKey+number)
			}
		})
		if err != nil {
			return m, nil, nil, err
		}
		pages, complete, err := pagesOf(list.Val(), cmds)
		if err != nil {
			return m, nil, nil, err
		}
		if complete {
			return m, fields, pages, nil
		}
	}
	return m, nil, nil, errors.New("pages begin faster than they can be read")
}

// pagesOf returns the pages of a list; complete is false if one was not read.
func pagesOf(list []redis.Z, read map[string]*redis.MapStringStringCmd) (pages []state.PageOfEntries, complete bool, err error) {
	for _, z := range list {
		number, err := parsePage(z.Member)
		if err != nil {
			return nil, false, err
		}
		cmd := read[z.Member.(string)]
		if cmd == nil {
			return nil, false, nil
		}
		page := state.PageOfEntries{Page: state.Page{Number: number, Bucket: int64(z.Score)}, Entries: make(map[state.ID][]byte, len(cmd.Val()))}
		for field, value := range cmd.Val() {
			id, err := parseID(field)
			if err != nil {
				return nil, false, err
			}
			page.Entries[id] = []byte(value)
		}
		pages = append(pages, page)
	}
	return pages, true, nil
}

// keysAtOnce is the approximate number of keys scanned, and the maximum deleted, in one step.
const keysAtOnce = 1000

// Drop implements state.AdminStore. It scans all keys of the server, since hashes of removed learners are not listed.
func (s *Store) Drop(ctx context.Context, p int32, token string) (err error) {
	defer wrap(&err, p, "drop")
	meta := s.prefix(p) + metaKey
	stored, err := s.client.HGet(ctx, meta, fieldToken).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if token != "" && err == nil && stored != token {
		return state.ErrFenced
	}
	node, err := s.node(ctx, meta)
	if err != nil {
		return err
	}
	scan := node.Scan(ctx, 0, escapeGlob(s.prefix(p))+"*", keysAtOnce).Iterator()
	var keys []string
	for scan.Next(ctx) {
		if k := scan.Val(); k != meta {
			keys = append(keys, k)
		}
		if len(keys) == keysAtOnce {
			if err := node.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
			keys = keys[:0]
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return node.Unlink(ctx, append(keys, meta)...).Err()
}

// escapeGlob escapes a text for a pattern.
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
