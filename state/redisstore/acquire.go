package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// Acquire implements state.Store. If the client library sends the script twice, the second run finds its own token.
func (s *Store) Acquire(ctx context.Context, p int32, generation int64, force bool, fresh *state.Meta) (state.Meta, error) {
	const doing = "take over"
	prefix := s.prefix(p)
	flag := func(b bool) string {
		if b {
			return "1"
		}
		return "0"
	}
	args := []any{nil, nil, 3, prefix + metaKey, prefix + pagesKey, prefix + deltasKey,
		newToken(), strconv.FormatInt(generation, 10), flag(force), flag(fresh != nil)}
	if fresh != nil {
		if err := eachCutField(fresh, func(field, value string) { args = append(args, field, value) }); err != nil {
			return state.Meta{}, wrap(p, doing, err)
		}
	}
	reply, err := s.run(ctx, s.acquire, args)
	if err != nil {
		return state.Meta{}, wrap(p, doing, err)
	}
	fields, err := metaFields(reply)
	if err != nil {
		return state.Meta{}, wrap(p, doing, err)
	}
	m, err := parseMeta(fields)
	if err != nil {
		return state.Meta{}, wrap(p, "read what is stored", err)
	}
	return m, nil
}

func metaFields(reply []any) (map[string]string, error) {
	if len(reply) != 1 {
		return nil, errUnexpected
	}
	flat, ok := reply[0].([]any)
	if !ok || len(flat)%2 != 0 {
		return nil, errUnexpected
	}
	fields := make(map[string]string, len(flat)/2)
	for i := 0; i < len(flat); i += 2 {
		field, _ := flat[i].(string)
		value, ok := flat[i+1].(string)
		if !ok {
			return nil, errUnexpected
		}
		fields[field] = value
	}
	return fields, nil
}

// newToken returns 128 random bits, unique among all owners. crypto/rand does not fail.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
