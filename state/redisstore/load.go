package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

const (
	// scanAtOnce is about how many fields of a hash are read in one step.
	scanAtOnce = 4096
	// shardsAtOnce is how many shards KnownIDs reads in one call: with two million records, about 31,000 ids.
	shardsAtOnce = 256
)

// scan is the reading of one hash.
type scan struct {
	hash   string
	key    string
	cursor uint64
	cmd    *redis.ScanCmd
	// seen is set from the second step on: a scan can show a field twice when the hash is rehashed meanwhile.
	seen map[string]struct{}
}

// Load implements state.Store. The hashes are scanned in steps, all of them at once, so that no step keeps the server
// busy for long. Nobody but the caller, who has just acquired the partition, can change them meanwhile.
func (s *Store) Load(ctx context.Context, p int32, hashes []string) ([]state.Field, error) {
	const doing = "load"
	if _, err := s.Probe(ctx, p); err != nil {
		return nil, err
	}
	prefix := s.prefix(p)
	open := []*scan{{hash: metaKey, key: prefix + metaKey}}
	for _, h := range hashes {
		if h != metaKey {
			open = append(open, &scan{hash: h, key: prefix + h})
		}
	}
	var all []state.Field
	for len(open) > 0 {
		pipe := s.client.Pipeline()
		for _, sc := range open {
			sc.cmd = pipe.HScan(ctx, sc.key, sc.cursor, "", scanAtOnce)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, wrap(p, doing, err)
		}
		left := open[:0]
		for _, sc := range open {
			flat, next := sc.cmd.Val()
			all = sc.add(all, flat, next)
			if sc.cursor = next; next != 0 {
				left = append(left, sc)
			}
		}
		open = left
	}
	return all, nil
}

// add appends the fields of one step.
func (sc *scan) add(all []state.Field, flat []string, next uint64) []state.Field {
	if next != 0 && sc.seen == nil {
		sc.seen = make(map[string]struct{}, len(flat))
	}
	for i := 0; i+1 < len(flat); i += 2 {
		if sc.seen != nil {
			if _, twice := sc.seen[flat[i]]; twice {
				continue
			}
			sc.seen[flat[i]] = struct{}{}
		}
		if sc.hash == metaKey && reserved(flat[i]) {
			continue
		}
		all = append(all, state.Field{Hash: sc.hash, Field: []byte(flat[i]), Value: []byte(flat[i+1])})
	}
	return all
}

// KnownIDs implements state.Store. The cursor counts shards; each shard is read at one instant.
func (s *Store) KnownIDs(ctx context.Context, p int32, cursor uint64) ([][]byte, uint64, error) {
	const doing = "read known ids"
	if cursor >= Shards {
		return nil, 0, wrap(p, doing, errors.New("the cursor is not one of this store"))
	}
	prefix := s.prefix(p)
	pipe := s.client.Pipeline()
	meta := pipe.HMGet(ctx, prefix+metaKey, fieldToken, fieldSeq, fieldTorn)
	end := min(cursor+shardsAtOnce, Shards)
	cmds := make([]*redis.StringSliceCmd, 0, shardsAtOnce)
	for shard := cursor; shard < end; shard++ {
		cmds = append(cmds, pipe.HKeys(ctx, shardOf(prefix, shard)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, wrap(p, doing, err)
	}
	// A torn partition may lack ids that were put in; what is there is not to be called complete.
	f, err := readFence(meta.Val())
	if err != nil {
		return nil, 0, wrap(p, doing, err)
	}
	if cursor == 0 && f.Seq == 0 {
		// No checkpoint has been stored yet, and nothing else stores ids. Until the walk is through, every impression is
		// looked up: a new group need not do that for the time of 64 calls.
		return nil, 0, nil
	}
	var ids [][]byte
	for _, cmd := range cmds {
		for _, id := range cmd.Val() {
			ids = append(ids, []byte(id))
		}
	}
	if end == Shards {
		end = 0
	}
	return ids, end, nil
}

func shardOf(prefix string, shard uint64) string {
	b := make([]byte, 0, len(prefix)+len(shardKey)+shardDigits)
	return string(appendShard(append(append(b, prefix...), shardKey...), shard))
}
