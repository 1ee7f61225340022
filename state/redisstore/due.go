package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Due implements state.Store: the ids by one script, their records by look-ups. These may see later checkpoints of the same
// owner. To wait for two moments without one in between would be to wait for ever beside a writer that is never idle. What
// there is no room for, and what another owner may have changed, is left out: the index still has it.
func (s *Store) Due(ctx context.Context, p int32, upTo int64, limit int,
	room int64) (state.Fence, []state.DueEntry, bool, error) {
	const doing = "read what is due"
	for range readTries {
		f, due, more, err := s.dueIDs(ctx, p, upTo, limit, room)
		if err != nil {
			return state.Fence{}, nil, false, wrap(p, doing, err)
		}
		if len(due) == 0 {
			return f, nil, more, nil
		}
		ids, left := make([][]byte, len(due)), room
		for i := range due {
			ids[i] = due[i].ID
			left -= int64(len(ids[i]))
		}
		last := f
		values, err := s.lookUpParts(ctx, p, ids, left, func(g state.Fence) bool {
			goesOn := g.Token == last.Token && g.Seq >= last.Seq
			last = g
			return goesOn
		})
		if err != nil {
			return state.Fence{}, nil, false, wrap(p, doing, err)
		}
		for i := range values {
			due[i].Value = values[i]
		}
		if n := len(values); n > 0 {
			return f, due[:n], more || n < len(due), nil
		}
		// Another owner has begun, or the server went back.
	}
	return state.Fence{}, nil, false, wrap(p, doing, errMoving)
}

// dueIDs reads the ids, in the order of buckets and, within one, of bytes. They have half of the room, so that there is some
// for their records. The script keeps the server busy for some 3 µs an id, a tenth of a second with a limit of 32,000, by
// BenchmarkBusiest.
func (s *Store) dueIDs(ctx context.Context, p int32, upTo int64, limit int,
	room int64) (state.Fence, []state.DueEntry, bool, error) {
	prefix := s.prefix(p)
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []any{nil, nil, 2, prefix + metaKey, prefix + dueKey, prefix + bucketKey, number(min(upTo, maxBucket)),
		number(int64(max(0, limit))), number(min(room/2, scriptBytes)), number(event.MaxIDBytes)}
	reply, err := s.run(ctx, s.due, args)
	if err != nil {
		return state.Fence{}, nil, false, incomplete(err)
	}
	if len(reply) < 3 || len(reply)%2 != 1 {
		return state.Fence{}, nil, false, errUnexpected
	}
	fence, err := parseFence(reply[0], reply[1])
	if err != nil {
		return fence, nil, false, err
	}
	more, _ := reply[2].(int64)
	var due []state.DueEntry
	for i := 3; i < len(reply); i += 2 {
		text, _ := reply[i].(string)
		bucket, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fence, nil, false, errors.New("the expiry index holds something that is not a bucket")
		}
		ids, _ := reply[i+1].([]any)
		for _, id := range ids {
			if id, ok := id.(string); ok {
				due = append(due, state.DueEntry{Bucket: bucket, ID: []byte(id)})
			}
		}
	}
	slices.SortFunc(due, func(a, b state.DueEntry) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), slices.Compare(a.ID, b.ID))
	})
	return fence, due, more > 0, nil
}
