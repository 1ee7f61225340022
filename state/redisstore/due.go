package redisstore

import (
	"context"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// Due implements state.Store, by one script. It blocks the server for some 2 µs an entry, by BenchmarkBusiest.
func (s *Store) Due(ctx context.Context, p int32, upTo int64, limit int, room int64) (state.Fence, []state.Entry, bool, error) {
	fence, due, more, err := s.dueEntries(ctx, p, upTo, limit, room)
	if err != nil {
		return state.Fence{}, nil, false, wrap(p, "read what is due", err)
	}
	return fence, due, more, nil
}

func (s *Store) dueEntries(ctx context.Context, p int32, upTo int64, limit int, room int64) (fence state.Fence, due []state.Entry, more bool, err error) {
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
