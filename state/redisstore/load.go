package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// Bounds of a step that reads a hash.
const (
	stepBytes  = 1 << 20 // approximate bytes of a step
	firstStep  = 32      // fields of the first step
	stepAtMost = 4096    // fields of any step
	// scansAtOnce is the number of hashes read in parallel: a learner has about ten, mostly small, and a step costs a round trip.
	scansAtOnce = 8
)

// pace is the number of fields that the next step asks for.
type pace int64

// next returns the pace after a step with the given fields and bytes. It grows slowly, since the next fields may be larger.
func (n pace) next(fields, bytes int) pace {
	most := min(4*n, stepAtMost)
	if bytes == 0 {
		return most
	}
	return min(most, max(1, pace(stepBytes*fields/bytes)))
}

type scan struct {
	hash   string
	key    string
	cursor uint64
	pace   pace
	size   *redis.IntCmd // fields at the beginning
	cmd    *redis.ScanCmd
	seen   map[string]bool
	fields []state.Field
}

// Load implements state.Store. Hashes are scanned in steps, several at a time. No step blocks the server for long, and at most a few
// megabytes are in flight. Only the caller, which has just acquired the partition, may change the hashes meanwhile.
func (s *Store) Load(ctx context.Context, p int32, hashes []string) (all []state.Field, err error) {
	if _, err := s.Probe(ctx, p); err != nil {
		return nil, err
	}
	defer wrap(&err, p, "load")
	prefix := s.prefix(p)
	scans := []*scan{{hash: metaKey, key: prefix + metaKey, pace: firstStep}}
	for _, h := range hashes {
		if h != metaKey {
			scans = append(scans, &scan{hash: h, key: prefix + h, pace: firstStep})
		}
	}
	total := 0
	for open := scans; len(open) > 0; {
		now := open[:min(len(open), scansAtOnce)]
		if err := s.scanStep(ctx, now); err != nil {
			return nil, err
		}
		var left []*scan
		for _, sc := range now {
			if sc.cursor != 0 {
				left = append(left, sc)
				continue
			}
			// A cursor of one server may skip fields on another: after a failover, or when its slot moves.
			if n := int64(len(sc.seen)); n < sc.size.Val() {
				return nil, fmt.Errorf("a scan of %q returned %d of %d fields: has the server changed meanwhile?", sc.hash, n, sc.size.Val())
			}
			sc.seen = nil
			total += len(sc.fields)
		}
		open = append(left, open[len(now):]...)
	}
	all = make([]state.Field, 0, total)
	for _, sc := range scans {
		all = append(all, sc.fields...)
	}
	return all, nil
}

func (s *Store) scanStep(ctx context.Context, scans []*scan) error {
	pipe := s.client.Pipeline()
	for _, sc := range scans {
		if sc.size == nil {
			sc.size = pipe.HLen(ctx, sc.key)
		}
		sc.cmd = pipe.HScan(ctx, sc.key, sc.cursor, "", int64(sc.pace))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for _, sc := range scans {
		flat, next := sc.cmd.Val()
		sc.cmd, sc.cursor = nil, next
		sc.pace = sc.pace.next(len(flat)/2, sc.add(flat))
	}
	return nil
}

// add appends a step's fields, which share their memory, and returns their size. A scan may return a field again if the hash is rehashed
// meanwhile.
func (sc *scan) add(flat []string) (bytes int) {
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
		sc.seen = make(map[string]bool, sc.size.Val())
		sc.fields = make([]state.Field, 0, max(len(flat)/2, int(sc.size.Val())))
	}
	for i := 0; i+1 < len(flat); i += 2 {
		again := sc.seen[flat[i]]
		sc.seen[flat[i]] = true
		if again || sc.hash == metaKey && reserved(flat[i]) {
			continue
		}
		sc.fields = append(sc.fields, state.Field{Hash: sc.hash, Field: keep(flat[i]), Value: keep(flat[i+1])})
	}
	return bytes
}
