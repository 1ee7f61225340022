package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

const (
	// lookUpAtOnce bounds the ids of one look-up script, which must not keep the server busy for long.
	lookUpAtOnce = 8000
	// hmgetAtOnce bounds the ids of one group: Lua's unpack fails above about 8,000.
	hmgetAtOnce = 4000
	// readTries is how often a read in several steps begins again because something came in between.
	readTries = 10
)

// errMoving says that the steps of a read never fitted together.
var errMoving = errors.New("what is stored keeps changing in between")

// LookUp implements state.Store: one script, or for many ids several that all saw the same fence.
func (s *Store) LookUp(ctx context.Context, p int32, ids [][]byte, room int64) (state.Fence, [][]byte, error) {
	for range readTries {
		f, values, same, err := s.lookUpOnce(ctx, p, ids)
		if err != nil {
			return state.Fence{}, nil, wrap(p, "look records up", err)
		}
		if same {
			return f, values, nil
		}
	}
	return state.Fence{}, nil, wrap(p, "look records up", errMoving)
}

// lookUpOnce reports whether all parts belong to the fence that it returns.
func (s *Store) lookUpOnce(ctx context.Context, p int32, ids [][]byte) (fence state.Fence, values [][]byte, same bool, err error) {
	first := true
	values, same, err = s.lookUpParts(ctx, p, ids, func(f state.Fence) bool {
		if first {
			fence, first = f, false
		}
		return f == fence
	})
	return fence, values, same, err
}

// lookUpParts reads what is stored under ids, so many at a time, and gives up where the fence of a part does not fit.
func (s *Store) lookUpParts(ctx context.Context, p int32, ids [][]byte, fits func(state.Fence) bool) ([][]byte, bool, error) {
	values := make([][]byte, len(ids))
	for from := 0; from == 0 || from < len(ids); from += lookUpAtOnce {
		to := min(len(ids), from+lookUpAtOnce)
		f, err := s.lookUpPart(ctx, p, ids[from:to], values[from:to])
		if err != nil {
			return nil, false, err
		}
		if !fits(f) {
			return nil, false, nil
		}
	}
	return values, true, nil
}

// lookUpPart reads what is stored under ids into values.
func (s *Store) lookUpPart(ctx context.Context, p int32, ids, values [][]byte) (state.Fence, error) {
	k := s.pack.Get().(*packer)
	defer s.release(k)
	prefix := s.prefix(p)
	for i, id := range ids {
		k.ask(k.shard(prefix, id), int32(i))
	}
	k.questions(ids)
	reply, err := s.run(ctx, s.lookUp, k.command(prefix+metaKey))
	if err != nil {
		return state.Fence{}, incomplete(err)
	}
	if len(reply) < 2 {
		return state.Fence{}, errors.New("unexpected reply")
	}
	fence, err := parseFence(reply[0], reply[1])
	if err != nil {
		return fence, err
	}
	return fence, k.answers(reply[2:], values)
}

// ask adds the i-th id to its group; unlike put it keeps an id that comes twice.
func (k *packer) ask(g, i int32) {
	if t := k.groups[g].tail; t < 0 {
		k.groups[g].head = i
	} else {
		k.elems[t].next = i
	}
	k.groups[g].tail = i
	k.groups[g].puts++
	k.elems = append(k.elems, elem{group: g, next: -1})
}

// questions makes keys and arguments of the look-up script.
func (k *packer) questions(ids [][]byte) {
	for g := range k.groups {
		i := k.groups[g].head
		for left := k.groups[g].puts; left > 0; {
			n := min(left, hmgetAtOnce)
			left -= n
			k.keys = append(k.keys, k.groups[g].key)
			k.argv = append(k.argv, k.number(int64(n)))
			for ; n > 0; n-- {
				k.argv = append(k.argv, ids[i])
				i = k.elems[i].next
			}
		}
	}
}

// answers puts the values of the script's reply in their places.
func (k *packer) answers(reply []any, values [][]byte) error {
	size := 0
	for _, r := range reply {
		switch r := r.(type) {
		case string:
			size += len(r)
		case []any:
			for _, v := range r {
				if v, ok := v.(string); ok {
					size += len(v)
				}
			}
		}
	}
	memory := make([]byte, 0, size)
	at := 0
	for g := range k.groups {
		i := k.groups[g].head
		for left := k.groups[g].puts; left > 0; at++ {
			if at >= len(reply) {
				return errors.New("unexpected reply")
			}
			n := min(left, hmgetAtOnce)
			left -= n
			many := []any{reply[at]}
			if n > 1 {
				many, _ = reply[at].([]any)
			}
			if len(many) != int(n) {
				return errors.New("unexpected reply")
			}
			for _, v := range many {
				if v, ok := v.(string); ok {
					start := len(memory)
					memory = append(memory, v...)
					values[i] = memory[start:len(memory):len(memory)]
				}
				i = k.elems[i].next
			}
		}
	}
	return nil
}

// Due implements state.Store: the ids by one script, their records by look-ups. These may see later checkpoints of the same
// owner. To wait for two moments without one in between would be to wait for ever beside a writer that is never idle.
func (s *Store) Due(ctx context.Context, p int32, upTo int64, limit int, room int64) (state.Fence, []state.DueEntry, bool, error) {
	const doing = "read what is due"
	for range readTries {
		f, due, err := s.dueIDs(ctx, p, upTo, limit)
		if err != nil {
			return state.Fence{}, nil, false, wrap(p, doing, err)
		}
		if len(due) == 0 {
			return f, nil, false, nil
		}
		ids := make([][]byte, len(due))
		for i := range due {
			ids[i] = due[i].ID
		}
		last := f
		values, ok, err := s.lookUpParts(ctx, p, ids, func(g state.Fence) bool {
			goesOn := g.Token == last.Token && g.Seq >= last.Seq
			last = g
			return goesOn
		})
		if err != nil {
			return state.Fence{}, nil, false, wrap(p, doing, err)
		}
		if !ok { // another owner has begun, or the server went back
			continue
		}
		for i := range due {
			due[i].Value = values[i]
		}
		return f, due, len(due) >= limit, nil
	}
	return state.Fence{}, nil, false, wrap(p, doing, errMoving)
}

// dueIDs reads the ids, in the order of buckets and, within one, of bytes.
func (s *Store) dueIDs(ctx context.Context, p int32, upTo int64, limit int) (state.Fence, []state.DueEntry, error) {
	prefix := s.prefix(p)
	args := []any{nil, nil, 2, prefix + metaKey, prefix + dueKey,
		prefix + bucketKey, strconv.FormatInt(min(upTo, maxBucket), 10), strconv.Itoa(max(0, limit))}
	reply, err := s.run(ctx, s.due, args)
	if err != nil {
		return state.Fence{}, nil, incomplete(err)
	}
	if len(reply) < 2 || len(reply)%2 != 0 {
		return state.Fence{}, nil, errors.New("unexpected reply")
	}
	fence, err := parseFence(reply[0], reply[1])
	if err != nil {
		return fence, nil, err
	}
	var due []state.DueEntry
	for i := 2; i < len(reply); i += 2 {
		text, _ := reply[i].(string)
		bucket, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fence, nil, errors.New("the expiry index holds something that is not a bucket")
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
	return fence, due, nil
}
