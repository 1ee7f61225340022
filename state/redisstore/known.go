package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// pagesAtOnce is the approximate number of pages read in one call of KnownIDs: of a worker's, up to 128,000 ids.
const pagesAtOnce = 1000

// KnownIDs implements state.Store. The cursor is Redis's own, over the list of pages; each page is read atomically. Redis may return pages
// twice if their number has changed a lot recently.
func (s *Store) KnownIDs(ctx context.Context, p int32, cursor uint64) ([]state.PageOfIDs, uint64, error) {
	pages, next, err := s.knownIDs(ctx, p, cursor)
	if err != nil {
		return nil, 0, wrap(p, "read known ids", err)
	}
	return pages, next, nil
}

func (s *Store) knownIDs(ctx context.Context, p int32, cursor uint64) ([]state.PageOfIDs, uint64, error) {
	var list *redis.ScanCmd
	_, err := s.withFence(ctx, p, func(pipe redis.Pipeliner) {
		list = pipe.ZScan(ctx, s.prefix(p)+pagesKey, cursor, "", pagesAtOnce)
	})
	if err != nil {
		return nil, 0, err
	}
	flat, next := list.Val()
	pages := make([]state.PageOfIDs, len(flat)/2)
	cmds := make([]*redis.StringSliceCmd, len(pages))
	for i := range pages {
		if pages[i].Number, err = parsePage(flat[2*i]); err != nil {
			return nil, 0, err
		}
		bucket, err := strconv.ParseFloat(flat[2*i+1], 64)
		if err != nil {
			return nil, 0, fmt.Errorf("page %d has bucket %q", pages[i].Number, flat[2*i+1])
		}
		pages[i].Bucket = int64(bucket)
	}
	_, err = s.withFence(ctx, p, func(pipe redis.Pipeliner) {
		for i := range pages {
			cmds[i] = pipe.HKeys(ctx, s.prefix(p)+pageKey+flat[2*i])
		}
	})
	if err != nil {
		return nil, 0, err
	}
	through := pages[:0]
	for i := range pages {
		page := pages[i]
		page.IDs = make([]state.ID, 0, len(cmds[i].Val()))
		for _, field := range cmds[i].Val() {
			id, err := parseID(field)
			if err != nil {
				return nil, 0, err
			}
			page.IDs = append(page.IDs, id)
		}
		if len(page.IDs) > 0 { // else it was deleted meanwhile
			through = append(through, page)
		}
	}
	return through, next, nil
}

func parsePage(reply any) (uint32, error) {
	text, _ := reply.(string)
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40q is listed as a page, and is no number", text)
	}
	return uint32(n), nil
}

func parseID(reply any) (id state.ID, err error) {
	text, _ := reply.(string)
	if len(text) != len(id) {
		return id, fmt.Errorf("a page has a field %.40q of %d bytes, which is no id", text, len(text))
	}
	copy(id[:], text)
	return id, nil
}

// withFence sends the commands that fill adds, after a read of the fence. It fails on a torn partition, which may lack ids.
func (s *Store) withFence(ctx context.Context, p int32, fill func(redis.Pipeliner)) (state.Fence, error) {
	pipe := s.client.Pipeline()
	meta := pipe.HMGet(ctx, s.prefix(p)+metaKey, fieldToken, fieldSeq, fieldTorn)
	fill(pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return state.Fence{}, err
	}
	return readFence(meta.Val())
}
