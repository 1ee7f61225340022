package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/state"
)

// ErrReplicas: fewer replicas than Options.WaitReplicas have the checkpoint. Some may have it; sending it again waits again.
var ErrReplicas = errors.New("redisstore: too few replicas have the checkpoint")

// Store keeps partitions' state in Redis. It is safe for concurrent use.
type Store struct {
	opts   Options
	client redis.UniversalClient
	pack   sync.Pool // of *packer

	evicted evictions

	checkpoint, acquire, lookUp, due, announce *script
}

var (
	_ state.AdminStore = (*Store)(nil)
	_ state.Follower   = (*Store)(nil)
	_ state.Registry   = (*Store)(nil)
)

// New does not connect; Ready checks the server.
func New(opts Options) (*Store, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	client := redis.NewUniversalClient(opts.universal())
	if opts.Explain != nil {
		client.AddHook(&explainer{explain: opts.Explain})
	}
	return &Store{
		opts: opts, client: client,
		pack:       sync.Pool{New: func() any { return newPacker() }},
		checkpoint: newScript(checkpointSource), acquire: newScript(acquireSource),
		lookUp: newScript(lookUpSource), due: newScript(dueSource), announce: newScript(announceSource),
	}, nil
}

// Close closes all connections. Calls in flight fail. A connection that the server closed before is no error.
func (s *Store) Close() error {
	var network net.Error
	if err := s.client.Close(); err != nil && !errors.As(err, &network) {
		return fmt.Errorf("close the connections to Redis: %w", err)
	}
	return nil
}

func (s *Store) prefix(p int32) string {
	return "{" + s.opts.Group + ":" + strconv.Itoa(int(p)) + "}:"
}

// Names of keys behind the prefix. All keys of partition 3 of group "ranker" begin with the hash tag {ranker:3}, hence lie in one slot.
//
//	{ranker:3}:meta         hash: the cut, field by field; partition's own fields beside it
//	{ranker:3}:<name>       hash: one that the partition names, such as feed:items
//	{ranker:3}:p:<page>     hash: an id's 16 bytes -> record; a page's records lie in one bucket of event time
//	{ranker:3}:pages        sorted set: the pages' numbers, by their bucket
//	{ranker:3}:deltas       stream: the published writes of each checkpoint, entry id <seq>-0, bounded by MAXLEN
//	{ranker:workers}        hash: worker's id -> its announcement, see state.WorkerInfo
//	{ranker:ready}:write    string with an expiry of a minute: the trial write of Ready
const (
	metaKey   = state.MetaHash
	pagesKey  = "pages" // sorted set: numbers of pages, by bucket
	pageKey   = "p:"    // followed by the page's number: hash, from id to value
	deltasKey = "deltas"
)

// wrap names the partition and the work in an error, if there is one. It is deferred.
func wrap(err *error, p int32, doing string) {
	if *err != nil {
		*err = fmt.Errorf("partition %d in Redis: %s: %w", p, doing, *err)
	}
}

// execute sends a transaction. If the server refused it, execute returns the error of the refused command: EXECABORT, the transaction's
// own, does not name the missing right.
func execute(ctx context.Context, tx redis.Pipeliner) error {
	cmds, err := tx.Exec(ctx)
	if redis.HasErrorPrefix(err, "EXECABORT") {
		for _, c := range cmds {
			if e := c.Err(); e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
				return e
			}
		}
	}
	return err
}

// torn explains a torn mark to a reader that did not set it.
func torn(id string) error {
	return fmt.Errorf("%w: checkpoint %q is half-written; its worker repairs it by sending it again, "+
		"else restore Redis from a copy, or stop the workers and run `ranker-worker state rebuild --replace`", state.ErrTorn, id)
}

func (s *Store) Probe(ctx context.Context, p int32) (f state.Fence, err error) {
	defer wrap(&err, p, "read the fence")
	at, err := s.client.HMGet(ctx, s.prefix(p)+metaKey, fieldToken, fieldSeq, fieldTorn).Result()
	if err != nil {
		return state.Fence{}, err
	}
	if f, err = readFence(at); err != nil {
		return state.Fence{}, err
	}
	if err := s.checkPartitionEvictions(ctx, p); err != nil {
		return state.Fence{}, fmt.Errorf("check that it keeps its data: %w", err)
	}
	return f, nil
}

func readFence(at []any) (state.Fence, error) {
	if len(at) < 3 || at[0] == nil {
		return state.Fence{}, state.ErrNoState
	}
	if id, _ := at[2].(string); id != "" {
		return state.Fence{}, fmt.Errorf("checkpoint %q: %w", id, state.ErrIncomplete)
	}
	return parseFence(at[0], at[1])
}

func parseFence(token, seq any) (state.Fence, error) {
	t, ok := token.(string)
	n, isString := seq.(string)
	if !ok || !isString {
		return state.Fence{}, errors.New("meta lacks token or seq")
	}
	number, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return state.Fence{}, fmt.Errorf("seq of meta: %w", err)
	}
	return state.Fence{Token: t, Seq: number}, nil
}
