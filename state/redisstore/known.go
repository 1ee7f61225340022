package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	// shardsAtOnce is how many shards KnownIDs reads in one call: with two million records, about 31,000 ids.
	shardsAtOnce = 256
	// knownBytes is where a call ends before that, with the step that exceeds it.
	knownBytes = 4 << 20
	// knownAtOnce bounds the ids of one step, so that ids of any length take at most knownBytes.
	knownAtOnce = knownBytes / event.MaxIDBytes
	// firstFew is how many records the first step through a large shard asks for: one has at most a megabyte or so.
	firstFew = 4
)

// idList collects ids, those of one step in memory that they share.
type idList struct {
	ids   [][]byte
	bytes int
}

func (l *idList) add(step []string) {
	bytes := 0
	for _, id := range step {
		bytes += len(id)
	}
	l.bytes += bytes
	memory := make([]byte, 0, bytes)
	for _, id := range step {
		start := len(memory)
		memory = append(memory, id...)
		l.ids = append(l.ids, memory[start:len(memory):len(memory)])
	}
}

// KnownIDs implements state.Store. The cursor is a shard's number and, within one of more than knownAtOnce ids, Redis's own
// cursor times Shards; each smaller shard is read at one instant.
func (s *Store) KnownIDs(ctx context.Context, p int32, cursor uint64) ([][]byte, uint64, error) {
	var l idList
	next, err := s.knownIDs(ctx, p, cursor, &l)
	if err != nil {
		return nil, 0, wrap(p, "read known ids", err)
	}
	return l.ids, next, nil
}

func (s *Store) knownIDs(ctx context.Context, p int32, cursor uint64, l *idList) (next uint64, err error) {
	shard := cursor % Shards
	if within := cursor / Shards; within > 0 {
		return s.scanShard(ctx, p, shard, within, l)
	}
	end := min(shard+shardsAtOnce, Shards)
	sizes := make([]*redis.IntCmd, end)
	f, err := s.withFence(ctx, p, func(pipe redis.Pipeliner) {
		for i := shard; i < end; i++ {
			sizes[i] = pipe.HLen(ctx, shardOf(s.prefix(p), i))
		}
	})
	if err != nil {
		return 0, err
	}
	if cursor == 0 && f.Seq == 0 {
		// No checkpoint has been stored yet, and nothing else stores ids. Until the walk is through, every impression is
		// looked up: a new group need not do that for the time of 64 calls.
		return 0, nil
	}
	l.ids = make([][]byte, 0, estimateIDs(sizes[shard:]))
	for shard < end && l.bytes < knownBytes {
		if sizes[shard].Val() > knownAtOnce {
			if len(l.ids) > 0 { // it has a call to itself
				break
			}
			return s.scanShard(ctx, p, shard, 0, l)
		}
		if shard, err = s.readShards(ctx, p, shard, sizes, l); err != nil {
			return 0, err
		}
	}
	return shard % Shards, nil
}

// estimateIDs is about how many ids one call reads of shards of these sizes.
func estimateIDs(sizes []*redis.IntCmd) (n int64) {
	for _, size := range sizes {
		n += size.Val()
	}
	return min(n, 16*knownAtOnce)
}

// readShards reads as many shards as have at most knownAtOnce ids together, and returns the one behind them.
func (s *Store) readShards(ctx context.Context, p int32, shard uint64, sizes []*redis.IntCmd, l *idList) (uint64, error) {
	var cmds []*redis.StringSliceCmd
	_, err := s.withFence(ctx, p, func(pipe redis.Pipeliner) {
		left := int64(knownAtOnce)
		for ; shard < uint64(len(sizes)) && sizes[shard].Val() <= left; shard++ {
			if n := sizes[shard].Val(); n > 0 {
				left -= n
				cmds = append(cmds, pipe.HKeys(ctx, shardOf(s.prefix(p), shard)))
			}
		}
	})
	if err != nil {
		return 0, err
	}
	for _, cmd := range cmds {
		l.add(cmd.Val())
	}
	return shard, nil
}

// scanShard reads ids of one large shard, whose records come with them and count too, and returns where to go on. Only a
// state without a placement has such a shard, if somebody has chosen ids that fall into it.
func (s *Store) scanShard(ctx context.Context, p int32, shard, within uint64, l *idList) (next uint64, err error) {
	step, read := pace(firstFew), 0
	for read < knownBytes {
		var cmd *redis.ScanCmd
		_, err := s.withFence(ctx, p, func(pipe redis.Pipeliner) {
			cmd = pipe.HScan(ctx, shardOf(s.prefix(p), shard), within, "", int64(step))
		})
		if err != nil {
			return 0, err
		}
		fields, at := cmd.Val()
		ids, bytes := make([]string, 0, len(fields)/2), 0
		for i, text := range fields {
			if bytes += len(text); i%2 == 0 {
				ids = append(ids, text)
			}
		}
		l.add(ids)
		step, read = step.next(len(ids), bytes), read+bytes
		if within = at; within == 0 {
			return (shard + 1) % Shards, nil
		}
		if within > 1<<63/Shards {
			return 0, errors.New("a hash's cursor is too large")
		}
	}
	return within*Shards + shard, nil
}

// withFence sends what fill adds with a read of the fence in front. A torn partition may lack ids that were put in, so that
// what is there is not complete.
func (s *Store) withFence(ctx context.Context, p int32, fill func(redis.Pipeliner)) (state.Fence, error) {
	pipe := s.client.Pipeline()
	meta := pipe.HMGet(ctx, s.prefix(p)+metaKey, fieldToken, fieldSeq, fieldTorn)
	fill(pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return state.Fence{}, err
	}
	return readFence(meta.Val())
}

func shardOf(prefix string, shard uint64) string {
	b := make([]byte, 0, len(prefix)+len(shardKey)+shardDigits)
	return string(appendShard(append(append(b, prefix...), shardKey...), shard))
}
