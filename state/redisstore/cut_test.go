package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
)

// cutting makes the checkpoint script fail in place of its n-th write, counted from 0.
func cutting(t *testing.T, n int) *script {
	const line = "local call, pcall = redis.call, redis.pcall\n"
	require.Contains(t, checkpointSource, line)
	return newScript(strings.Replace(checkpointSource, line, fmt.Sprintf(`
local left = %d
local writes = {HSET = true, HDEL = true, SADD = true, SREM = true, ZADD = true, ZREM = true, XADD = true, DEL = true}
local function counted(f)
  return function(command, ...)
    if writes[command] then
      if left == 0 then error('cut off') end
      left = left - 1
    end
    return f(command, ...)
  end
end
local call, pcall = counted(redis.call), counted(redis.pcall)
`, n), 1))
}

func write(hash, field, value string) state.Write {
	return state.Write{Hash: hash, Field: []byte(field), Value: []byte(value), Publish: true}
}

// TestTornAtEveryWriteIsRepaired aborts the script before each of its writes. Nobody can read or take over until the
// same checkpoint is sent again. Afterwards each key is as it would have been.
func TestTornAtEveryWriteIsRepaired(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		group := testenv.Unique(t, "cut")
		raw := redis.NewClient(&redis.Options{Addr: addr})
		defer func() { require.NoError(t, raw.Close()) }()
		meta := &state.Meta{Layout: 1, TopicNames: []string{"a"}, Inputs: make([]state.Position, 3)}
		s, err := New(Options{Addresses: []string{addr}, Group: group})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		whole := s.checkpoint

		first := state.Changes{
			Writes:  []state.Write{write("h", "f", "1"), write("h", "gone", "1"), write("meta", "watermark", "1")},
			Pages:   []state.Page{{Number: 1, Bucket: 1}, {Number: 2, Bucket: 2}, {Number: 5, Bucket: 2}},
			Entries: []state.Entry{lying(1, 'a', "1"), lying(2, 'g', "1"), lying(5, 'm', "1")},
		}
		second := state.Changes{
			Writes: []state.Write{write("h", "f", "2"), {Hash: "h", Field: []byte("gone"), Publish: true}, write("g", "f", "2"),
				write("meta", "watermark", "2")},
			Pages: []state.Page{{Number: 3, Bucket: 1}, {Number: 4, Bucket: 9}},
			Entries: []state.Entry{lying(1, 'a', "2"), lying(1, 'b', "2"), lying(2, 'g', ""), lying(3, 'c', "2"), lying(5, 'm', ""),
				lying(4, 'm', "2"), lying(4, 'n', "2"), lying(4, 'n', "")},
		}
		var want string
		finished := false
		for n := -1; !finished; n++ {
			p := int32(n + 1)
			ctx := t.Context()
			m, err := s.Acquire(ctx, p, 1, false, meta)
			require.NoError(t, err)
			c := &state.Checkpoint{Fence: m.Fence, ID: "first", Meta: m, Changes: first}
			require.NoError(t, s.Checkpoint(ctx, p, c))
			m, err = s.Acquire(ctx, p, 2, false, nil) // "previous" is another token
			require.NoError(t, err)
			c = &state.Checkpoint{Fence: m.Fence, ID: "second", Meta: m, Changes: second}
			if n >= 0 { // the first round is not aborted: it gives the expected state
				s.checkpoint = cutting(t, n)
				err = s.Checkpoint(ctx, p, c)
				s.checkpoint = whole
				if finished = err == nil; !finished {
					require.ErrorContains(t, err, "cut off")
				}
				if n > 0 && !finished {
					_, err = s.Probe(ctx, p)
					require.ErrorIs(t, err, state.ErrIncomplete, "cut before write %d", n)
					_, err = s.Acquire(ctx, p, 3, true, nil)
					require.ErrorIs(t, err, state.ErrTorn)
					other := *c
					other.ID = "other"
					require.ErrorIs(t, s.Checkpoint(ctx, p, &other), state.ErrTorn)
				}
				if n == 0 {
					at, err := s.Probe(ctx, p)
					require.NoError(t, err, "nothing was written")
					require.Equal(t, m.Fence, at)
				}
			}
			require.NoError(t, s.Checkpoint(ctx, p, c))
			require.NoError(t, s.Checkpoint(ctx, p, c))
			got := text(t, raw, s.prefix(p), m.Token)
			if want == "" {
				want = got
			}
			require.Equal(t, want, got, "cut before write %d", n)
			t.Logf("cut before write %d", n)
			for _, k := range raw.Keys(ctx, s.prefix(p)+"*").Val() {
				require.NoError(t, raw.Del(ctx, k).Err())
			}
		}
	})
}

// lying is an entry of a page; "" takes it out.
func lying(page uint32, id byte, value string) state.Entry {
	e := state.Entry{Place: state.Place{Page: page, ID: state.ID{id}}}
	if value != "" {
		e.Value = []byte(value)
	}
	return e
}

// text is everything under a prefix, with the owner's token and the prefix taken out.
func text(t *testing.T, raw *redis.Client, prefix, token string) string {
	t.Helper()
	ctx := t.Context()
	var b strings.Builder
	all := raw.Keys(ctx, prefix+"*").Val()
	require.NotEmpty(t, all)
	names := map[string]bool{}
	for _, k := range all {
		names[strings.TrimPrefix(k, prefix)] = true
	}
	fmt.Fprintln(&b, names)
	for name := range names {
		if raw.Type(ctx, prefix+name).Val() == "hash" {
			names[name] = false
		}
	}
	lines := map[string]any{}
	for name, other := range names {
		key := prefix + name
		switch {
		case !other:
			h := raw.HGetAll(ctx, key).Val()
			for f, v := range h {
				if v == token {
					h[f] = "TOKEN"
				}
			}
			lines[name] = h
		case name == pagesKey:
			lines[name] = raw.ZRangeWithScores(ctx, key, 0, -1).Val()
		case name == deltasKey:
			for _, m := range raw.XRange(ctx, key, "-", "+").Val() {
				owners := m.Values[fieldToken] == token
				lines[name+m.ID] = fmt.Sprint(owners, m.Values[fieldPreviousSeq], m.Values[fieldPrevious] != token,
					m.Values[fieldChanges])
			}
		default:
			lines[name] = raw.SMembersMap(ctx, key).Val()
		}
	}
	fmt.Fprintln(&b, lines) // maps are printed in the order of their keys
	return b.String()
}

// TestWrongTypeWritesNothing: a key of a wrong type is found before the first write.
func TestWrongTypeWritesNothing(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		ctx := t.Context()
		s, err := New(Options{Addresses: []string{addr}, Group: testenv.Unique(t, "type")})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		raw := redis.NewClient(&redis.Options{Addr: addr})
		defer func() { require.NoError(t, raw.Close()) }()
		m, err := s.Acquire(ctx, 0, 1, false, &state.Meta{})
		require.NoError(t, err)
		c := &state.Checkpoint{Fence: m.Fence, ID: "c", Meta: m, Changes: state.Changes{
			Writes:  []state.Write{write("a", "f", "v"), write("h", "f", "v")},
			Pages:   []state.Page{{Number: 3, Bucket: 1}},
			Entries: []state.Entry{lying(3, 'a', "v")},
		}}
		for _, key := range []string{"h", pagesKey} {
			key = s.prefix(0) + key
			require.NoError(t, raw.Set(ctx, key, "x", 0).Err())
			require.ErrorContains(t, s.Checkpoint(ctx, 0, c), "WRONGTYPE")
			at, err := s.Probe(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, m.Fence, at)
			require.Zero(t, raw.Exists(ctx, s.prefix(0)+"a").Val())
			require.NoError(t, raw.Del(ctx, key).Err())
		}
		// The stream of deltas only serves followers: a faulty one is replaced.
		require.NoError(t, raw.Set(ctx, s.prefix(0)+deltasKey, "x", 0).Err())
		require.NoError(t, s.Checkpoint(ctx, 0, c))
		deltas, err := s.Deltas(ctx, 0, m.Fence)
		require.NoError(t, err)
		require.Len(t, deltas, 1)
		// A stream that is ahead belongs to a state that is gone.
		require.NoError(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: s.prefix(0) + deltasKey, ID: "99-0", Values: []string{"token", "x"}}).Err())
		c.Fence.Seq, c.ID = 1, "d"
		require.NoError(t, s.Checkpoint(ctx, 0, c))
		deltas, err = s.Deltas(ctx, 0, state.Fence{Token: m.Token, Seq: 1})
		require.NoError(t, err)
		require.Len(t, deltas, 1)
		// A page of a wrong type is found when known ids are read, behind the acquire.
		require.NoError(t, raw.Set(ctx, s.prefix(0)+pageKey+"3", "x", 0).Err())
		_, _, err = s.KnownIDs(ctx, 0, 0)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NoError(t, raw.Del(ctx, s.prefix(0)+pageKey+"3").Err())
	})
}

// TestScriptsMayRunTwice: the client library sends a script again when the reply was lost.
func TestScriptsMayRunTwice(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		ctx := t.Context()
		s, err := New(Options{Addresses: []string{addr}, Group: testenv.Unique(t, "twice")})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		prefix := s.prefix(0)
		args := func(generation string) []any {
			a := []any{nil, nil, 3, prefix + metaKey, prefix + pagesKey, prefix + deltasKey, newToken(), generation, "0", "1"}
			require.NoError(t, eachCutField(&state.Meta{}, func(f, v string) { a = append(a, f, v) }))
			return a
		}
		for _, generation := range []string{"1", "2"} { // fresh, then taken over
			a := args(generation)
			one, err := s.run(ctx, s.acquire, a)
			require.NoError(t, err)
			two, err := s.run(ctx, s.acquire, a)
			require.NoError(t, err)
			first, err := metaFields(one)
			require.NoError(t, err)
			second, err := metaFields(two)
			require.NoError(t, err)
			require.Equal(t, first, second)
		}
	})
}

// TestFreshRefusesRemains: meta alone is gone, which no worker does.
func TestFreshRefusesRemains(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, addr string, _ *miniredis.Miniredis) {
		ctx := t.Context()
		s, err := New(Options{Addresses: []string{addr}, Group: testenv.Unique(t, "remains")})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		raw := redis.NewClient(&redis.Options{Addr: addr})
		defer func() { require.NoError(t, raw.Close()) }()
		m, err := s.Acquire(ctx, 0, 1, false, &state.Meta{})
		require.NoError(t, err)
		require.NoError(t, s.Checkpoint(ctx, 0, &state.Checkpoint{Fence: m.Fence, ID: "c", Meta: m}))
		require.NoError(t, raw.Del(ctx, s.prefix(0)+metaKey).Err())
		_, err = s.Acquire(ctx, 0, 1, false, &state.Meta{})
		require.ErrorContains(t, err, "meta is missing, but")
		require.NoError(t, raw.HSet(ctx, s.prefix(0)+metaKey, "watermark", "1").Err())
		_, err = s.Acquire(ctx, 0, 1, false, &state.Meta{})
		require.ErrorContains(t, err, "no token")
	})
}

// TestReservedNames: a write cannot reach the store's own keys and fields.
func TestReservedNames(t *testing.T) {
	for _, w := range []state.Write{
		write("meta", "token", "x"), write("meta", "seq", "1"), write("meta", "offset.payoffs", "1"), write("", "f", "v"),
		write("pages", "f", "v"), write("p:1", "f", "v"), write("deltas", "f", "v"),
	} {
		k := newPacker()
		require.Error(t, k.changes("{g:1}:", &state.Changes{Writes: []state.Write{w}}), "%s %s", w.Hash, w.Field)
	}
	require.Error(t, newPacker().changes("", &state.Changes{Pages: []state.Page{{Bucket: 1 << 60}}}))
}

// FuzzParseDelta: no bytes make the decoder fail in another way than by an error.
func FuzzParseDelta(f *testing.F) {
	k := newPacker()
	_ = k.changes("p", &state.Changes{Writes: []state.Write{write("h", "f", "v"), {Hash: "h", Field: []byte("g"), Publish: true}}})
	blob, _ := k.published()
	f.Add(blob)
	f.Add([]byte{1, 'h', 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := parseDelta(b)
		if err != nil {
			return
		}
		k := newPacker()
		distinct := map[string]bool{}
		for _, x := range fields {
			key := x.Hash + "\x00" + string(x.Field)
			if checkHash(&state.Write{Hash: x.Hash, Field: x.Field}) != nil || distinct[key] {
				return
			}
			distinct[key] = true
			k.put(elem{group: k.hash("", x.Hash), field: x.Field, value: x.Value, del: x.Value == nil, publish: true})
		}
		again, tooLarge := k.published()
		if tooLarge {
			return
		}
		back, err := parseDelta(again)
		require.NoError(t, err)
		require.Equal(t, len(fields), len(back))
		for i := range back {
			require.Equal(t, fields[i].Hash, back[i].Hash)
			require.Equal(t, string(fields[i].Field), string(back[i].Field))
			require.Equal(t, fields[i].Value == nil, back[i].Value == nil)
			require.Equal(t, string(fields[i].Value), string(back[i].Value))
		}
	})
}
