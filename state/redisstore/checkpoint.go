package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
)

// Checkpoint implements state.Store by one script; checkpoint.lua documents its order of effects. After an error other than ErrFenced,
// ErrTorn or ErrNoState the outcome is unknown; sending the same checkpoint again settles it. The caller bounds its size: by
// BenchmarkBusiest one of 8 MiB blocks the server for 60 ms if its records are small, and for 20 ms if they are large.
func (s *Store) Checkpoint(ctx context.Context, p int32, c *state.Checkpoint) (err error) {
	defer wrap(&err, p, "store a checkpoint")
	if c.ID == "" || c.Fence.Token == "" || c.Fence.Seq < 0 {
		return errors.New("it lacks an id or a fence")
	}
	k := s.pack.Get().(*packer)
	defer s.release(k)
	prefix := s.prefix(p)
	if err := k.checkpoint(prefix, c, s.opts.WaitReplicas > 0, s.opts.DeltaEntries); err != nil {
		return err
	}
	args := k.command(prefix + metaKey)
	if s.opts.WaitReplicas > 0 {
		return s.runAndWait(ctx, s.checkpoint, prefix+metaKey, args)
	}
	_, err = s.run(ctx, s.checkpoint, args)
	return err
}

func (s *Store) release(k *packer) {
	if k.reset() {
		s.pack.Put(k)
	}
}

// checkpoint returns keys and arguments of the checkpoint script.
func (k *packer) checkpoint(prefix string, c *state.Checkpoint, rewrite bool, deltaEntries int) error {
	if err := k.changes(prefix, &c.Changes); err != nil {
		return err
	}
	for _, h := range c.Drop {
		if err := checkHash(&state.Write{Hash: h}); err != nil || h == metaKey {
			return fmt.Errorf("hash %q cannot be emptied", h)
		}
	}
	meta := k.hash(prefix, metaKey)
	err := eachCutField(&c.Meta, func(field, value string) {
		k.put(elem{group: meta, field: k.text(field), value: k.text(value)})
	})
	if err != nil {
		return err
	}
	flag, published := "0", fieldChanges
	if rewrite {
		flag = "1"
	}
	blob, tooLarge := k.published()
	if tooLarge || len(c.Drop) > 0 {
		published, blob = fieldReload, []byte("1")
	}
	k.keys = append(k.keys, k.text(prefix+pagesKey), k.text(prefix+deltasKey))
	k.argv = append(k.argv, k.text(c.Fence.Token), k.number(c.Fence.Seq), k.text(c.ID), k.number(c.Fence.Seq+1),
		k.text(flag), k.number(int64(deltaEntries)), k.text(published), argument(blob))
	at := len(k.argv)
	k.argv = append(k.argv, nil, nil, nil, nil, k.number(2*int64(len(c.Changes.Pages))))
	for i := range c.Changes.Pages {
		page := &c.Changes.Pages[i]
		k.argv = append(k.argv, k.number(page.Bucket), k.number(int64(page.Number)))
	}
	for i, n := range k.sections() {
		k.argv[at+i] = k.number(n)
	}
	for _, h := range c.Drop {
		k.keys = append(k.keys, k.text(prefix+h))
	}
	return nil
}

// Acquire implements state.Store. If the client library sends the script twice, the second run finds its own token.
func (s *Store) Acquire(ctx context.Context, p int32, generation int64, force bool, fresh *state.Meta) (m state.Meta, err error) {
	defer wrap(&err, p, "take over")
	prefix := s.prefix(p)
	args := []any{nil, nil, 3, prefix + metaKey, prefix + pagesKey, prefix + deltasKey,
		newToken(), strconv.FormatInt(generation, 10), force, fresh != nil} // a bool is sent as 1 or 0
	if fresh != nil {
		if err := eachCutField(fresh, func(field, value string) { args = append(args, field, value) }); err != nil {
			return m, err
		}
	}
	reply, err := s.run(ctx, s.acquire, args)
	if err != nil {
		return m, err
	}
	fields, err := metaFields(reply)
	if err != nil {
		return m, err
	}
	if m, err = parseMeta(fields); err != nil {
		return m, fmt.Errorf("reading the stored state: %w", err)
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
