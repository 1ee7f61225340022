package redisstore

import (
	"context"
	"errors"
	"slices"

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
	size   *redis.IntCmd // how many fields it had at the beginning
	cmd    *redis.ScanCmd
	fields []state.Field
	own    int // fields that are the store's own
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
	scans := open
	total := 0
	for first := true; len(open) > 0; first = false {
		pipe := s.client.Pipeline()
		for _, sc := range open {
			if first {
				sc.size = pipe.HLen(ctx, sc.key)
			}
			sc.cmd = pipe.HScan(ctx, sc.key, sc.cursor, "", scanAtOnce)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, wrap(p, doing, err)
		}
		var left []*scan
		for _, sc := range open {
			flat, next := sc.cmd.Val()
			sc.add(flat)
			if sc.cursor = next; next != 0 {
				left = append(left, sc)
				continue
			}
			sc.finish()
			total += len(sc.fields)
		}
		open = left
	}
	all := make([]state.Field, 0, total)
	for _, sc := range scans {
		all = append(all, sc.fields...)
	}
	return all, nil
}

// add appends the fields of one step, which share their memory.
func (sc *scan) add(flat []string) {
	bytes := 0
	for _, text := range flat {
		bytes += len(text)
	}
	memory := make([]byte, 0, bytes)
	keep := func(text string) []byte {
		start := len(memory)
		memory = append(memory, text...)
		return memory[start:len(memory):len(memory)]
	}
	if sc.fields == nil {
		sc.fields = make([]state.Field, 0, max(len(flat)/2, int(sc.size.Val())))
	}
	for i := 0; i+1 < len(flat); i += 2 {
		if sc.hash == metaKey && reserved(flat[i]) {
			sc.own++
			continue
		}
		sc.fields = append(sc.fields, state.Field{Hash: sc.hash, Field: keep(flat[i]), Value: keep(flat[i+1])})
	}
}

// finish drops fields that came twice: a scan can show a field again when the hash is rehashed meanwhile. Each comes at
// least once, so that the right number of them is each of them once.
func (sc *scan) finish() {
	if int64(len(sc.fields)+sc.own) == sc.size.Val() {
		return
	}
	seen := make(map[string]struct{}, len(sc.fields))
	sc.fields = slices.DeleteFunc(sc.fields, func(f state.Field) bool {
		_, twice := seen[string(f.Field)]
		seen[string(f.Field)] = struct{}{}
		return twice
	})
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
	n, bytes := 0, 0
	for _, cmd := range cmds {
		n += len(cmd.Val())
		for _, id := range cmd.Val() {
			bytes += len(id)
		}
	}
	ids, memory := make([][]byte, 0, n), make([]byte, 0, bytes)
	for _, cmd := range cmds {
		for _, id := range cmd.Val() {
			start := len(memory)
			memory = append(memory, id...)
			ids = append(ids, memory[start:len(memory):len(memory)])
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
