package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

const (
	lookUpAtOnce = 8000
	// scriptBytes bounds the values read by one script, except for the last value. So a look-up blocks the server for some 10 ms, by
	// BenchmarkBusiest.
	scriptBytes = 4 << 20
)

// LookUp implements state.Store by one script, or for many places or much room by several that read the same fence.
func (s *Store) LookUp(ctx context.Context, p int32, places []state.Place, room int64) (fence state.Fence, values [][]byte, err error) {
	defer wrap(&err, p, "look records up")
	values = make([][]byte, 0, len(places))
	for {
		rest := places[len(values):]
		f, part, err := s.lookUpPart(ctx, p, rest[:min(len(rest), lookUpAtOnce)], min(room, scriptBytes))
		if err != nil {
			return state.Fence{}, nil, err
		}
		if len(values) == 0 {
			fence = f
		} else if f != fence {
			return fence, values, nil
		}
		for _, v := range part {
			room -= int64(len(v))
		}
		values = append(values, part...)
		if len(values) == len(places) || room <= 0 {
			return fence, values, nil
		}
	}
}

// lookUpPart reads the values at places by one script, up to room bytes.
func (s *Store) lookUpPart(ctx context.Context, p int32, places []state.Place, room int64) (f state.Fence, values [][]byte, err error) {
	k := s.pack.Get().(*packer)
	defer s.release(k)
	prefix := s.prefix(p)
	k.argv = append(k.argv, k.number(room))
	for i := range places {
		k.keys = append(k.keys, k.pageKey(prefix, places[i].Page))
		k.argv = append(k.argv, places[i].ID[:])
	}
	reply, err := s.run(ctx, s.lookUp, k.command(prefix+metaKey))
	if err != nil {
		return f, nil, incomplete(err)
	}
	if len(reply) < 2 || len(reply)-2 > len(places) || len(reply) == 2 && len(places) > 0 {
		return f, nil, errUnexpected
	}
	if f, err = parseFence(reply[0], reply[1]); err != nil {
		return f, nil, err
	}
	values, err = valuesOf(reply[2:])
	return f, values, err
}

// valuesOf decodes the values in a reply. They share their memory.
func valuesOf(reply []any) ([][]byte, error) {
	size := 0
	for _, r := range reply {
		text, ok := r.(string)
		if !ok && r != nil {
			return nil, errUnexpected
		}
		size += len(text)
	}
	values, memory := make([][]byte, len(reply)), make([]byte, 0, size)
	for i, r := range reply {
		if text, ok := r.(string); ok {
			start := len(memory)
			memory = append(memory, text...)
			values[i] = memory[start:len(memory):len(memory)]
		}
	}
	return values, nil
}

// Due implements state.Store, by one script. It blocks the server for some 2 µs an entry, by BenchmarkBusiest.
func (s *Store) Due(ctx context.Context, p int32, upTo int64, limit int, room int64) (fence state.Fence, due []state.Entry, more bool, err error) {
	defer wrap(&err, p, "reading due entries")
	prefix := s.prefix(p)
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []any{nil, nil, 2, prefix + metaKey, prefix + pagesKey, prefix + pageKey, number(min(upTo, maxBucket)),
		number(int64(max(0, limit))), number(min(room, maxDueBytes))}
	reply, err := s.run(ctx, s.due, args)
	if err != nil {
		return fence, nil, false, incomplete(err)
	}
	if len(reply) < 3 || len(reply)%2 != 1 {
		return fence, nil, false, errUnexpected
	}
	if fence, err = parseFence(reply[0], reply[1]); err != nil {
		return fence, nil, false, err
	}
	rest, _ := reply[2].(int64)
	for i := 3; i < len(reply); i += 2 {
		page, err := parsePage(reply[i])
		if err != nil {
			return fence, nil, false, err
		}
		flat, _ := reply[i+1].([]any)
		if len(flat)%2 != 0 {
			return fence, nil, false, errUnexpected
		}
		for j := 0; j < len(flat); j += 2 {
			id, err := parseID(flat[j])
			if err != nil {
				return fence, nil, false, err
			}
			value, ok := flat[j+1].(string)
			if !ok {
				return fence, nil, false, errUnexpected
			}
			due = append(due, state.Entry{Place: state.Place{Page: page, ID: id}, Value: []byte(value)})
		}
	}
	return fence, due, rest > 0, nil
}

// maxDueBytes bounds the reply of Due's script.
const maxDueBytes = 12 << 20

// pagesAtOnce is the number of pages read in one call of KnownIDs: of a worker's, up to 128,000 ids.
const pagesAtOnce = 1000

// KnownIDs implements state.Store. The cursor is a rank in the list of pages, whose order is the same on every server. A cursor of ZSCAN
// means nothing to a server that has restarted. Each page is read atomically.
func (s *Store) KnownIDs(ctx context.Context, p int32, cursor uint64) (_ []state.PageOfIDs, next uint64, err error) {
	defer wrap(&err, p, "read known ids")
	var list *redis.ZSliceCmd
	err = s.withFence(ctx, p, func(pipe redis.Pipeliner) {
		list = pipe.ZRangeWithScores(ctx, s.prefix(p)+pagesKey, int64(cursor), int64(cursor+pagesAtOnce-1))
	})
	if err != nil {
		return nil, 0, err
	}
	pages := make([]state.PageOfIDs, len(list.Val()))
	if len(pages) == pagesAtOnce {
		next = cursor + pagesAtOnce
	}
	cmds := make([]*redis.StringSliceCmd, len(pages))
	for i, listed := range list.Val() {
		if pages[i].Number, err = parsePage(listed.Member); err != nil {
			return nil, 0, err
		}
		pages[i].Bucket = int64(listed.Score)
	}
	err = s.withFence(ctx, p, func(pipe redis.Pipeliner) {
		for i := range pages {
			cmds[i] = pipe.HKeys(ctx, s.prefix(p)+pageKey+strconv.FormatUint(uint64(pages[i].Number), 10))
		}
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range pages {
		page := &pages[i]
		page.IDs = make([]state.ID, 0, len(cmds[i].Val()))
		for _, field := range cmds[i].Val() {
			id, err := parseID(field)
			if err != nil {
				return nil, 0, err
			}
			page.IDs = append(page.IDs, id)
		}
	}
	ended := func(page state.PageOfIDs) bool { return len(page.IDs) == 0 }
	return slices.DeleteFunc(pages, ended), next, nil
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
func (s *Store) withFence(ctx context.Context, p int32, fill func(redis.Pipeliner)) error {
	pipe := s.client.Pipeline()
	meta := pipe.HMGet(ctx, s.prefix(p)+metaKey, fieldToken, fieldSeq, fieldTorn)
	fill(pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	_, err := readFence(meta.Val())
	return err
}
