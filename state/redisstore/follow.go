package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// Fields of an entry of the stream of deltas, beside its writer's token.
const (
	fieldPrevious    = "previous"     // token of the previous checkpoint's writer
	fieldPreviousSeq = "previous_seq" // and its sequence
	fieldChanges     = "changes"      // see packer.published
	fieldReload      = "reload"       // replaces changes if these exceed MaxDeltaBytes
)

// deltasAtOnce bounds the checkpoints of one call: with MaxDeltaBytes, 16 MiB.
const deltasAtOnce = 64

func (s *Store) Sums(ctx context.Context, p int32, hashes []string) (at state.Fence, all []state.Field, err error) {
	defer wrap(&err, p, "read published sums")
	prefix := s.prefix(p)
	pipe := s.client.TxPipeline()
	meta := pipe.HMGet(ctx, prefix+metaKey, fieldWriter, fieldSeq, fieldTorn)
	cmds := make([]*redis.MapStringStringCmd, len(hashes))
	for i, h := range hashes {
		cmds[i] = pipe.HGetAll(ctx, prefix+h)
	}
	if err := execute(ctx, pipe); err != nil {
		return at, nil, err
	}
	if at, err = readFence(meta.Val()); err != nil {
		return at, nil, err
	}
	for i, h := range hashes {
		for f, v := range cmds[i].Val() {
			all = append(all, state.Field{Hash: h, Field: []byte(f), Value: []byte(v)})
		}
	}
	return at, all, nil
}

// Deltas implements state.Follower. One transaction reads the stream and the state's position, to distinguish a lost stream from one
// without deltas yet.
func (s *Store) Deltas(ctx context.Context, p int32, after state.Fence) (_ []state.Delta, err error) {
	defer wrap(&err, p, "follow the deltas")
	prefix := s.prefix(p)
	pipe := s.client.TxPipeline()
	meta := pipe.HMGet(ctx, prefix+metaKey, fieldWriter, fieldSeq, fieldTorn)
	entries := pipe.XRangeN(ctx, prefix+deltasKey, strconv.FormatInt(after.Seq+1, 10)+"-0", "+", deltasAtOnce)
	if err := execute(ctx, pipe); err != nil {
		return nil, err
	}
	at, err := readFence(meta.Val())
	if err != nil {
		return nil, err
	}
	if len(entries.Val()) == 0 && at != after || at.Seq < after.Seq {
		return nil, state.ErrGap
	}
	deltas := make([]state.Delta, 0, len(entries.Val()))
	for _, m := range entries.Val() {
		d, err := readDelta(m, after)
		if err != nil {
			return nil, err
		}
		deltas = append(deltas, d)
		after = d.Fence
	}
	return deltas, nil
}

// readDelta reads the entry that follows after.
func readDelta(m redis.XMessage, after state.Fence) (state.Delta, error) {
	text := func(field string) string {
		v, _ := m.Values[field].(string)
		return v
	}
	number, _, _ := strings.Cut(m.ID, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	previous, err2 := strconv.ParseInt(text(fieldPreviousSeq), 10, 64)
	if err != nil || err2 != nil || seq != after.Seq+1 || previous != after.Seq || text(fieldPrevious) != after.Token {
		return state.Delta{}, state.ErrGap
	}
	if text(fieldReload) != "" { // more changes than the stream carries
		return state.Delta{}, state.ErrGap
	}
	fields, err := parseDelta([]byte(text(fieldChanges)))
	return state.Delta{Fence: state.Fence{Token: text(fieldToken), Seq: seq}, Fields: fields}, err
}

var errDelta = errors.New("an entry of the deltas' stream is cut off")

// parseDelta is the reverse of packer.published. The fields alias b.
func parseDelta(b []byte) ([]state.Field, error) {
	var fields []state.Field
	for len(b) > 0 {
		var name, field []byte
		var ok bool
		if name, b, ok = cutPrefixed(b, 0); !ok {
			return nil, errDelta
		}
		if field, b, ok = cutPrefixed(b, 0); !ok {
			return nil, errDelta
		}
		f := state.Field{Hash: string(name), Field: field}
		if len(b) > 0 && b[0] == 0 {
			b = b[1:]
		} else if f.Value, b, ok = cutPrefixed(b, 1); !ok {
			return nil, errDelta
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// cutPrefixed reads a varint n, and cuts off n−bias bytes.
func cutPrefixed(b []byte, bias uint64) (part, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n < bias || n-bias > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(n-bias)
	return b[size:end:end], b[end:], true
}
