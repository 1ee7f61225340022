package redisstore

import (
	"context"
	"errors"

	"github.com/ranker-worker/ranker-worker/state"
)

const (
	// lookUpAtOnce bounds the ids of one look-up script.
	lookUpAtOnce = 8000
	// scriptBytes bounds the ids that one script is given or returns, and is where it ends reading values: with the one that
	// exceeds it. So a look-up's script keeps the server busy for some 10 ms, by BenchmarkBusiest.
	scriptBytes = 4 << 20
	// readTries is how often a read begins again because something came in between.
	readTries = 10
)

// errMoving says that the steps of a read never fitted together.
var errMoving = errors.New("what is stored keeps changing in between")

// LookUp implements state.Store: one script, or for many ids or much room several that all saw the same fence.
func (s *Store) LookUp(ctx context.Context, p int32, ids [][]byte, room int64) (fence state.Fence, values [][]byte, err error) {
	first := true
	values, err = s.lookUpParts(ctx, p, ids, room, func(f state.Fence) bool {
		if first {
			fence, first = f, false
		}
		return f == fence
	})
	if err != nil {
		return state.Fence{}, nil, wrap(p, "look records up", err)
	}
	return fence, values, nil
}

// lookUpParts reads what is stored under ids as far as there is room, part by part, and ends before a part whose fence does
// not fit.
func (s *Store) lookUpParts(ctx context.Context, p int32, ids [][]byte, room int64,
	fits func(state.Fence) bool) ([][]byte, error) {
	values := make([][]byte, 0, len(ids))
	for {
		f, part, err := s.lookUpPart(ctx, p, firstIDs(ids[len(values):]), min(room, scriptBytes))
		if err != nil || !fits(f) {
			return values, err
		}
		for _, v := range part {
			room -= int64(len(v))
		}
		values = append(values, part...)
		if len(values) == len(ids) || room <= 0 {
			return values, nil
		}
	}
}

// firstIDs are as many as one script is given.
func firstIDs(ids [][]byte) [][]byte {
	bytes := 0
	for i, id := range ids {
		if bytes += len(id); i == lookUpAtOnce || i > 0 && bytes > scriptBytes {
			return ids[:i]
		}
	}
	return ids
}

// lookUpPart reads what is stored under ids by one script, as far as there is room.
func (s *Store) lookUpPart(ctx context.Context, p int32, ids [][]byte, room int64) (f state.Fence, values [][]byte, err error) {
	err = s.withPlacement(p, func(pl placement) error {
		k := s.pack.Get().(*packer)
		defer s.release(k)
		prefix := s.prefix(p)
		k.argv = append(k.argv, k.text(string(pl)), k.number(room))
		for _, id := range ids {
			k.keys = append(k.keys, k.shardKey(prefix, pl.shard(id)))
			k.argv = append(k.argv, id)
		}
		reply, err := s.run(ctx, s.lookUp, k.command(prefix+metaKey))
		if err != nil {
			return incomplete(err)
		}
		if len(reply) < 2 || len(reply)-2 > len(ids) || len(reply) == 2 && len(ids) > 0 {
			return errUnexpected
		}
		if f, err = parseFence(reply[0], reply[1]); err != nil {
			return err
		}
		values, err = valuesOf(reply[2:])
		return err
	})
	return f, values, err
}

// valuesOf takes what is stored under ids out of a reply. The values share their memory.
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
