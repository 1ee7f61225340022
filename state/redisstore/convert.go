package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// layoutOfPages is the first layout whose entries lie in pages. Those before it have them in 16,384 hashes by the ids' texts, and beside
// them an expiry index, which is a sorted set of buckets and a set of ids for each. Acquire converts such a state.
const layoutOfPages = 3

// Keys and fields of layouts below 3, and of the conversion.
const (
	oldDueKey    = "due"
	oldBucketKey = "due:" // and the bucket
	oldShardKey  = "e:"   // and the shard as four hex digits
	oldShards    = 1 << 14

	fieldConverted  = "converted"  // the layout that a state had which no checkpoint has been made of since it was converted
	fieldConverting = "converting" // while that is under way: the number of the last page that was made
)

// ErrConverting says that a state of an older layout is being converted, and that there was no time to finish it: the next Acquire goes on.
var ErrConverting = errors.New("redisstore: the stored state is of an older layout, and is being converted")

// convertMargin is how long before its deadline a call stops to convert, so that it can say how far it has come.
const convertMargin = 500 * time.Millisecond

// convertAtOnce is how many entries go into one page.
const convertAtOnce = 128

// conversion brings one partition from an older layout to the present one, in steps each of which leaves it whole: an entry is moved
// by one script. It may be cut off between any two, and by any owner; the next goes on.
type conversion struct {
	s         *Store
	p         int32
	prefix    string
	token     string
	placement placement
	from      int // layout
	page      uint32
	moved     int
}

// convert converts what a partition has stored, if it is of an older layout. Fields are those of meta.
func (s *Store) convert(ctx context.Context, p int32, fields map[string]string) error {
	layout, err := strconv.Atoi(fields[fieldLayout])
	_, begun := fields[fieldConverting]
	if err != nil || !begun && (layout < 1 || layout >= layoutOfPages) {
		return nil // it is not, or says something that its reader refuses
	}
	c := conversion{s: s, p: p, prefix: s.prefix(p), token: fields[fieldToken], placement: placement(fields[fieldPlacement]), from: layout}
	if begun {
		if c.from, err = strconv.Atoi(fields[fieldConverted]); err != nil {
			return fmt.Errorf("field %q of meta: %w", fieldConverted, err)
		}
		if c.page, err = parsePage(fields[fieldConverting]); err != nil {
			return err
		}
	}
	if err := c.buckets(ctx); err != nil {
		return err
	}
	if err := c.rest(ctx); err != nil {
		return err
	}
	return c.finish(ctx)
}

// late tells whether there is no time for more.
func (c *conversion) late(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < convertMargin {
		return fmt.Errorf("%w: %d ids have been moved this time", ErrConverting, c.moved)
	}
	return nil
}

// buckets moves all that the expiry index tells of, the lowest bucket first. The order within a bucket is that of the ids' bytes, so
// that a step that is made again puts the same into the same page.
func (c *conversion) buckets(ctx context.Context) error {
	for {
		lowest, err := c.s.client.ZRange(ctx, c.prefix+oldDueKey, 0, 0).Result()
		if err != nil || len(lowest) == 0 {
			return err
		}
		bucket, err := strconv.ParseInt(lowest[0], 10, 64)
		if err != nil {
			return fmt.Errorf("the expiry index has a bucket %.40q", lowest[0])
		}
		ids, err := c.s.client.SMembers(ctx, c.prefix+oldBucketKey+lowest[0]).Result()
		if err != nil {
			return err
		}
		slices.Sort(ids)
		if len(ids) == 0 { // its set is gone
			if err := c.move(ctx, bucket, nil); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(ids, convertAtOnce) {
			if err := c.move(ctx, bucket, some); err != nil {
				return err
			}
		}
	}
}

// rest moves what the index did not tell of: into the first bucket, so that the walk comes by it soon and finds out where it belongs.
func (c *conversion) rest(ctx context.Context) error {
	for first := uint64(0); first < oldShards; first += convertAtOnce {
		pipe := c.s.client.Pipeline()
		sizes := make([]*redis.StringSliceCmd, convertAtOnce)
		for i := range sizes {
			sizes[i] = pipe.HKeys(ctx, c.prefix+oldShard(first+uint64(i)))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for _, ids := range sizes {
			slices.Sort(ids.Val())
			for some := range slices.Chunk(ids.Val(), convertAtOnce) {
				if err := c.move(ctx, 0, some); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// move moves ids of a bucket into a page of their own.
func (c *conversion) move(ctx context.Context, bucket int64, texts []string) error {
	if err := c.late(ctx); err != nil {
		return err
	}
	pipe := c.s.client.Pipeline()
	values := make([]*redis.StringCmd, len(texts))
	for i, text := range texts {
		values[i] = pipe.HGet(ctx, c.prefix+oldShard(c.placement.shard([]byte(text))), text)
	}
	if len(texts) > 0 {
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	number := strconv.FormatInt(int64(c.page)+1, 10)
	b := strconv.FormatInt(bucket, 10)
	args := []any{nil, nil, 5 + len(texts), c.prefix + metaKey, c.prefix + pagesKey, c.prefix + oldDueKey, c.prefix + oldBucketKey + b,
		c.prefix + pageKey + number}
	for _, text := range texts {
		args = append(args, c.prefix+oldShard(c.placement.shard([]byte(text))))
	}
	args = append(args, c.token, number, b, strconv.Itoa(c.from))
	for i, text := range texts {
		id, value := state.IDOf([]byte(text)), []byte(values[i].Val())
		if len(value) > 0 && c.s.opts.Convert != nil {
			value = c.s.opts.Convert([]byte(text), value)
		}
		args = append(args, text, id[:], value)
	}
	if _, err := c.s.run(ctx, c.s.convertScript, args); err != nil {
		return err
	}
	c.page++
	c.moved += len(texts)
	return nil
}

// finish says that all is converted. The placement is of no more use.
func (c *conversion) finish(ctx context.Context) error {
	if c.page == 0 { // there was nothing to move, and so nobody has said yet that the layout is another
		if err := c.move(ctx, 0, nil); err != nil {
			return err
		}
	}
	return c.s.client.HDel(ctx, c.prefix+metaKey, fieldConverting, fieldPlacement).Err()
}

func oldShard(shard uint64) string { return fmt.Sprintf("%s%04x", oldShardKey, shard) }
