package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// errUnexpected: a reply is not in our scripts' format.
var errUnexpected = errors.New("unexpected reply")

var (
	//go:embed checkpoint.lua
	checkpointSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed lookup.lua
	lookUpSource string
	//go:embed due.lua
	dueSource string
	//go:embed announce.lua
	announceSource string
)

// script is a Lua script, sent by its SHA-1. The server forgets it on a restart and on SCRIPT FLUSH, and then gets it in full.
type script struct {
	source, sha string
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:])}
}

// command makes the command from args, whose first two places are the script's and whose fourth is the first key.
func (sc *script) command(ctx context.Context, args []any, whole bool) *redis.Cmd {
	args[0], args[1] = "evalsha", sc.sha
	if whole {
		args[0], args[1] = "eval", sc.source
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

func noScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// run returns a script's reply without the status, or the status as an error.
func (s *Store) run(ctx context.Context, sc *script, args []any) ([]any, error) {
	cmd := sc.command(ctx, args, false)
	err := s.client.Process(ctx, cmd)
	if noScript(err) {
		cmd = sc.command(ctx, args, true)
		err = s.client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	return status(cmd.Val())
}

func status(reply any) ([]any, error) {
	r, ok := reply.([]any)
	if !ok || len(r) == 0 {
		return nil, fmt.Errorf("unexpected reply of a script: %T", reply)
	}
	word, _ := r[0].(string)
	text := func(i int) string {
		if i >= len(r) {
			return ""
		}
		t, _ := r[i].(string)
		return t
	}
	switch word {
	case "OK":
		return r[1:], nil
	case "NOSTATE":
		return nil, state.ErrNoState
	case "FENCED":
		return nil, fmt.Errorf("%w: stored are token %q and sequence %s", state.ErrFenced, text(1), text(2))
	case "TORN":
		return nil, torn(text(1))
	case "GENERATION":
		return nil, fmt.Errorf("%w: generation %s", state.ErrGeneration, text(1))
	case "FORBIDDEN":
		return nil, fmt.Errorf("%w: %s", state.ErrForbidden, text(1))
	case "BAD":
		return nil, errors.New(text(1))
	}
	return nil, fmt.Errorf("unexpected status of a script: %q", word)
}

// incomplete turns ErrTorn, which reading scripts return, into ErrIncomplete.
func incomplete(err error) error {
	if errors.Is(err, state.ErrTorn) {
		return state.ErrIncomplete
	}
	return err
}

// movedTries bounds the look-ups of a slot's node after it has moved.
const movedTries = 3

// runAndWait runs a script and then WAIT on one connection, since WAIT counts replicas with that connection's writes.
func (s *Store) runAndWait(ctx context.Context, sc *script, key string, args []any) error {
	whole := false
	for try := 0; ; try++ {
		node, err := s.node(ctx, key)
		if err != nil {
			return err
		}
		cmd := sc.command(ctx, args, whole)
		wait := redis.NewIntCmd(ctx, "wait", s.opts.WaitReplicas, s.replicaTimeout(ctx).Milliseconds())
		pipe := node.Pipeline()
		_ = pipe.Process(ctx, cmd) // only queues
		_ = pipe.Process(ctx, wait)
		_, _ = pipe.Exec(ctx) // its error is one of the two below
		err = cmd.Err()
		switch {
		case noScript(err) && !whole:
			whole = true
			continue
		case err != nil && s.moved(ctx, err) && try < movedTries:
			continue
		case err != nil:
			return err
		}
		if _, err := status(cmd.Val()); err != nil {
			return err
		}
		if err := wait.Err(); err != nil {
			return fmt.Errorf("wait for %d replicas: %w", s.opts.WaitReplicas, err)
		}
		if n := wait.Val(); n < int64(s.opts.WaitReplicas) {
			return fmt.Errorf("%w: %d of %d within %v", ErrReplicas, n, s.opts.WaitReplicas, s.opts.ReplicaTimeout)
		}
		return nil
	}
}

// replicaTimeout bounds WAIT, whose answer must come before the deadline. Zero would mean for ever.
func (s *Store) replicaTimeout(ctx context.Context) time.Duration {
	d := s.opts.ReplicaTimeout
	if deadline, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(deadline)*3/4)
	}
	return max(d, time.Millisecond)
}

// node returns the client of the server with key: in a cluster, WAIT has no key to be routed by.
func (s *Store) node(ctx context.Context, key string) (*redis.Client, error) {
	switch c := s.client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("unexpected kind of client: %T", s.client)
}

// moved reports whether a cluster's node has redirected the key. If so it reloads the cluster's map.
func (s *Store) moved(ctx context.Context, err error) bool {
	c, ok := s.client.(*redis.ClusterClient)
	if !ok || !redis.HasErrorPrefix(err, "MOVED ") {
		return false
	}
	c.ReloadState(ctx)
	return true
}
