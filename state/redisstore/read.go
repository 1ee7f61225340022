package redisstore

import (
	"context"

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
	first := true
	values, err = s.lookUpParts(ctx, p, places, room, func(f state.Fence) bool {
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

// lookUpParts reads the values at places by several scripts, up to room bytes. It stops before a part whose fence differs.
func (s *Store) lookUpParts(ctx context.Context, p int32, places []state.Place, room int64,
	fits func(state.Fence) bool) ([][]byte, error) {
	values := make([][]byte, 0, len(places))
	for {
		rest := places[len(values):]
		f, part, err := s.lookUpPart(ctx, p, rest[:min(len(rest), lookUpAtOnce)], min(room, scriptBytes))
		if err != nil || !fits(f) {
			return values, err
		}
		for _, v := range part {
			room -= int64(len(v))
		}
		values = append(values, part...)
		if len(values) == len(places) || room <= 0 {
			return values, nil
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
