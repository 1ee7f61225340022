package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
)

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func acquire(t *testing.T, s *redisstore.Store) *state.Checkpoint {
	t.Helper()
	m, err := s.Acquire(t.Context(), 0, 1, false, &state.Meta{Inputs: make([]state.Position, 3)})
	require.NoError(t, err)
	return &state.Checkpoint{Fence: m.Fence, ID: "c", Meta: m,
		Changes: entriesAt(1, []state.ID{{1}}, []byte("1"))}
}

func TestReadySaysWhatIsWrong(t *testing.T) {
	srv := testenv.OwnRedis(t)
	raw := client(t, srv.Addr)
	ctx := t.Context()
	s := open(t, redisstore.Options{Addresses: []string{srv.Addr}, Group: "g"})
	require.NoError(t, s.Ready(ctx))

	require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	err := s.Ready(ctx)
	require.ErrorIs(t, err, state.ErrUnfit)
	require.ErrorContains(t, err, `maxmemory-policy is "allkeys-lru"`)
	require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())

	require.NoError(t, raw.ConfigSet(ctx, "maxmemory", "1").Err())
	err = s.Ready(ctx)
	require.NotErrorIs(t, err, state.ErrUnfit, "more memory mends it")
	require.ErrorContains(t, err, "out of memory")
	require.NoError(t, raw.ConfigSet(ctx, "maxmemory", "0").Err())

	require.NoError(t, raw.ConfigSet(ctx, "min-replicas-to-write", "1").Err())
	require.ErrorContains(t, s.Ready(ctx), "min-replicas-to-write")
	require.NoError(t, raw.ConfigSet(ctx, "min-replicas-to-write", "0").Err())

	require.NoError(t, raw.Do(ctx, "replicaof", "127.0.0.1", "1").Err())
	err = s.Ready(ctx)
	require.NotErrorIs(t, err, state.ErrUnfit, "a failover passes")
	require.ErrorContains(t, err, `role is "slave"`)
	require.NoError(t, raw.Do(ctx, "replicaof", "no", "one").Err())
	require.NoError(t, s.Ready(ctx))

	srv.Kill()
	require.Error(t, s.Ready(ctx))
}

// TestProbe_NoticesEviction: a probe fails while keys can be evicted, and for good once some were, though not for those of
// before we came.
func TestProbe_NoticesEviction(t *testing.T) {
	srv := testenv.OwnRedis(t)
	raw := client(t, srv.Addr)
	ctx := t.Context()
	evict := func(policy string) {
		for i := range 100 {
			require.NoError(t, raw.Set(ctx, "other:"+strconv.Itoa(i), "x", 0).Err())
		}
		require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		require.NoError(t, raw.ConfigSet(ctx, "maxmemory", "1").Err())
		_ = raw.Set(ctx, "last", "x", 0).Err() // refused, or not: something goes
		require.NoError(t, raw.ConfigSet(ctx, "maxmemory", "0").Err())
		require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	}
	evict("allkeys-random")
	s := open(t, redisstore.Options{Addresses: []string{srv.Addr}, Group: "g"})
	c := acquire(t, s)
	at, err := s.Probe(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, c.Fence, at)

	require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	_, err = s.Probe(ctx, 0)
	require.ErrorIs(t, err, state.ErrUnfit)
	require.NotErrorIs(t, err, state.ErrLost, "nothing was evicted")
	require.ErrorContains(t, err, `maxmemory-policy is "allkeys-lru"`)
	require.NoError(t, raw.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	_, err = s.Probe(ctx, 0)
	require.NoError(t, err)

	meta, err := raw.Dump(ctx, "{g:0}:meta").Result()
	require.NoError(t, err)
	evict("allkeys-lru")
	require.NoError(t, raw.RestoreReplace(ctx, "{g:0}:meta", 0, meta).Err()) // perhaps it was among them
	_, err = s.Probe(ctx, 0)
	require.ErrorIs(t, err, state.ErrLost)
	require.ErrorIs(t, s.Ready(ctx), state.ErrUnfit)

	require.NoError(t, raw.ConfigResetStat(ctx).Err()) // the operator is warned of this
	_, err = s.Probe(ctx, 0)
	require.NoError(t, err)
}

// TestOutOfMemoryTearsNothing: Redis refuses the first write of a script, and only the first.
func TestOutOfMemoryTearsNothing(t *testing.T) {
	srv := testenv.OwnRedis(t)
	raw := client(t, srv.Addr)
	s := open(t, redisstore.Options{Addresses: []string{srv.Addr}, Group: "g"})
	c := acquire(t, s)
	require.NoError(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, s.Checkpoint(t.Context(), 0, c), "OOM")
	at, err := s.Probe(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, c.Fence, at)
	_, _, err = s.LookUp(t.Context(), 0, []state.Place{{Page: 1, ID: state.ID{1}}}, 1<<30)
	require.NoError(t, err, "reading needs no memory")
	require.NoError(t, raw.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.NoError(t, s.Checkpoint(t.Context(), 0, c))
}

// TestACLUser: the rights in doc.go suffice, for Ready too, and one forbidden key is noticed.
func TestACLUser(t *testing.T) {
	srv := testenv.OwnRedis(t)
	raw := client(t, srv.Addr)
	ctx := t.Context()
	allow := []any{"acl", "setuser", "ranker", "on", ">s3cret", "resetkeys", "~{g:*", "-@all", "+@hash", "+@set", "+@sortedset",
		"+@stream", "+@string", "+@scripting", "+@transaction", "+info", "+exists", "+del", "+pexpire", "+wait", "+time"}
	require.NoError(t, raw.Do(ctx, allow...).Err())
	opts := redisstore.Options{Addresses: []string{srv.Addr}, Group: "g",
		Credentials: func(context.Context) (string, string, error) { return "ranker", "s3cret", nil }}
	s := open(t, opts)
	require.NoError(t, s.Ready(ctx))
	c := acquire(t, s)
	require.NoError(t, s.Checkpoint(ctx, 0, c))
	_, due, _, err := s.Due(ctx, 0, 1, 1, 1<<30)
	require.NoError(t, err)
	require.Len(t, due, 1)
	_, err = s.Deltas(ctx, 0, c.Fence)
	require.NoError(t, err)
	_, _, err = s.Sums(ctx, 0, []string{"h"})
	require.NoError(t, err)
	_, err = s.Load(ctx, 0, []string{"h"})
	require.NoError(t, err)
	_, _, err = s.KnownIDs(ctx, 0, 0)
	require.NoError(t, err)
	all, err := s.Announce(ctx, state.WorkerInfo{ID: "a"})
	require.NoError(t, err)
	require.Len(t, all, 1)
	_, err = s.Show(ctx, "a", []byte(`{"form":2}`))
	require.NoError(t, err)
	for key, most := range map[string]time.Duration{"{g:workers}": state.WorkerKept, "{g:workers}:shown": state.WorkerCounts} {
		left := raw.PTTL(ctx, key).Val()
		require.True(t, 0 < left && left <= most, "%s ends after the last worker, in %s", key, left)
	}
	require.NoError(t, s.Withdraw(ctx, "a"))

	// Without TIME only Registry fails, with an error of its own.
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "ranker", "-time").Err())
	_, err = s.Announce(ctx, state.WorkerInfo{ID: "a"})
	require.ErrorIs(t, err, state.ErrForbidden)
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "ranker", "-hdel").Err())
	require.ErrorIs(t, s.Withdraw(ctx, "a"), state.ErrForbidden)
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "ranker", "+hdel").Err())
	require.NoError(t, s.Ready(ctx))

	opts.Group = "h"
	_, err = open(t, opts).Announce(ctx, state.WorkerInfo{ID: "a"})
	require.ErrorIs(t, err, state.ErrForbidden)
	require.ErrorContains(t, open(t, opts).Ready(ctx), "NOPERM")
	_, _, err = open(t, opts).Sums(ctx, 0, []string{"h"})
	require.ErrorContains(t, err, "NOPERM", "the error of the command at fault, not that of the transaction")
	_, err = open(t, opts).Deltas(ctx, 0, c.Fence)
	require.ErrorContains(t, err, "NOPERM")
	opts.Credentials = func(context.Context) (string, string, error) { return "ranker", "wrong", nil }
	require.ErrorContains(t, open(t, opts).Ready(ctx), "WRONGPASS")

	// INFO may be forbidden where CONFIG GET is not, and the other way round; one of them has to be allowed.
	opts.Group, opts.Credentials, opts.Username, opts.Password = "g", nil, "ranker", "s3cret"
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "ranker", "-info", "+config|get").Err())
	require.NoError(t, open(t, opts).Ready(ctx))
	require.NoError(t, raw.Do(ctx, "acl", "setuser", "ranker", "-config|get").Err())
	err = open(t, opts).Ready(ctx)
	require.ErrorIs(t, err, state.ErrUnfit)
	require.ErrorContains(t, err, "does the ACL allow INFO?")
}

func TestWaitReplicas(t *testing.T) {
	master := testenv.OwnRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	replica := testenv.OwnRedis(t, server.Options{Args: []string{"--replicaof", host, port}})
	raw := client(t, replica.Addr)
	eventually(t, func(ctx context.Context) bool {
		return strings.Contains(raw.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	opts := redisstore.Options{Addresses: []string{master.Addr}, Group: "g", WaitReplicas: 1, ReplicaTimeout: 200 * time.Millisecond}
	s := open(t, opts)
	c := acquire(t, s)
	// A replica that has just come up takes its time to acknowledge.
	eventually(t, func(context.Context) bool { return s.Checkpoint(t.Context(), 0, c) == nil })
	require.Equal(t, "1", raw.HGet(t.Context(), "{g:0}:meta", "seq").Val(), "the replica has it")

	c.Fence.Seq, c.ID = 1, "d"
	replica.Pause()
	// The same checkpoint again, over other connections: it is stored, and yet no replica has it.
	for range 3 {
		s = open(t, opts)
		require.ErrorIs(t, s.Checkpoint(t.Context(), 0, c), redisstore.ErrReplicas)
	}
	replica.Resume()
	eventually(t, func(context.Context) bool { return s.Checkpoint(t.Context(), 0, c) == nil })
	require.Equal(t, "2", raw.HGet(t.Context(), "{g:0}:meta", "seq").Val(), "the replica has it, once")

	require.NoError(t, client(t, master.Addr).ScriptFlush(t.Context()).Err())
	c.Fence.Seq, c.ID = 2, "e"
	eventually(t, func(context.Context) bool { return s.Checkpoint(t.Context(), 0, c) == nil }) // a forgotten script, in a pipeline
	c.ID = "f"
	require.ErrorIs(t, s.Checkpoint(t.Context(), 0, c), state.ErrFenced)
}

// TestRollbackByFailover: a stalled replica is promoted.
func TestRollbackByFailover(t *testing.T) {
	master := testenv.OwnRedis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	replica := testenv.OwnRedis(t, server.Options{Args: []string{"--replicaof", host, port}})
	raw := client(t, replica.Addr)
	s := open(t, redisstore.Options{Addresses: []string{master.Addr}, Group: "g"})
	c := acquire(t, s)
	require.NoError(t, s.Checkpoint(t.Context(), 0, c))
	eventually(t, func(ctx context.Context) bool { return raw.HGet(ctx, "{g:0}:meta", "seq").Val() == "1" })
	require.NoError(t, raw.Do(t.Context(), "replicaof", "no", "one").Err())
	c.Fence.Seq, c.ID = 1, "d"
	require.NoError(t, s.Checkpoint(t.Context(), 0, c))

	after := open(t, redisstore.Options{Addresses: []string{replica.Addr}, Group: "g"})
	at, err := after.Probe(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, state.Fence{Token: c.Fence.Token, Seq: 1}, at)
	c.Fence.Seq, c.ID = 2, "e"
	require.ErrorIs(t, after.Checkpoint(t.Context(), 0, c), state.ErrFenced)
}

// TestTLS connects by TLS.
func TestTLS(t *testing.T) {
	ports, err := proc.FreePorts(1)
	require.NoError(t, err)
	dir := t.TempDir()
	pool := certificate(t, dir)
	testenv.OwnRedis(t, server.Options{Args: []string{"--tls-port", fmt.Sprint(ports[0]), "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "cert.pem")}})
	opts := redisstore.Options{Addresses: []string{fmt.Sprintf("127.0.0.1:%d", ports[0])}, Group: "g",
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1"}}
	require.ErrorContains(t, open(t, opts).Ready(t.Context()), "certificate")
	opts.TLS.RootCAs = pool
	s := open(t, opts)
	require.NoError(t, s.Ready(t.Context()))
	require.NoError(t, s.Checkpoint(t.Context(), 0, acquire(t, s)))
}

func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool.AddCert(cert)
	return pool
}

// TestDeadlines: against a server that accepts and never answers, every method ends at its context's deadline, with
// an error that says so.
func TestDeadlines(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	s := open(t, redisstore.Options{Addresses: []string{listener.Addr().String()}, Group: "g"})
	replicated := open(t, redisstore.Options{Addresses: []string{listener.Addr().String()}, Group: "g", WaitReplicas: 1})
	cp := &state.Checkpoint{Fence: state.Fence{Token: "t"}, ID: "c"}
	for name, call := range map[string]func(context.Context) error{
		"Acquire":    func(ctx context.Context) error { _, err := s.Acquire(ctx, 0, 1, false, nil); return err },
		"Load":       func(ctx context.Context) error { _, err := s.Load(ctx, 0, nil); return err },
		"LookUp":     func(ctx context.Context) error { _, _, err := s.LookUp(ctx, 0, nil, 1<<30); return err },
		"Due":        func(ctx context.Context) error { _, _, _, err := s.Due(ctx, 0, 1, 1, 1<<30); return err },
		"KnownIDs":   func(ctx context.Context) error { _, _, err := s.KnownIDs(ctx, 0, 0); return err },
		"Checkpoint": func(ctx context.Context) error { return s.Checkpoint(ctx, 0, cp) },
		"replicated": func(ctx context.Context) error { return replicated.Checkpoint(ctx, 0, cp) },
		"Probe":      func(ctx context.Context) error { _, err := s.Probe(ctx, 0); return err },
		"Ready":      s.Ready,
		"Announce":   func(ctx context.Context) error { _, err := s.Announce(ctx, state.WorkerInfo{ID: "a"}); return err },
		"Withdraw":   func(ctx context.Context) error { return s.Withdraw(ctx, "a") },
		"Sums":       func(ctx context.Context) error { _, _, err := s.Sums(ctx, 0, []string{"h"}); return err },
		"Deltas":     func(ctx context.Context) error { _, err := s.Deltas(ctx, 0, state.Fence{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			require.Error(t, err)
			var timeout net.Error
			require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
			require.Less(t, time.Since(began), 5*time.Second)
		})
	}
}

// TestNetworkErrorsCanBeMatched: an unreachable store has another error than one that refuses.
func TestNetworkErrorsCanBeMatched(t *testing.T) {
	mini := miniredis.RunT(t)
	s := open(t, redisstore.Options{Addresses: []string{mini.Addr()}, Group: "g", MaxRetries: -1})
	c := acquire(t, s)
	mini.Close()
	err := s.Checkpoint(t.Context(), 0, c)
	require.Error(t, err)
	require.NotErrorIs(t, err, state.ErrFenced)
	require.ErrorContains(t, err, "partition 0 in Redis: store a checkpoint: ")
	_, err = s.Probe(t.Context(), 0)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	require.NoError(t, mini.Restart())
	require.NoError(t, s.Checkpoint(t.Context(), 0, c), "and it comes back by itself")
}

func TestOptionsAllFaultsAtOnce(t *testing.T) {
	_, err := redisstore.New(redisstore.Options{Addresses: []string{"a:1", "b"}, Group: "a}b", WaitReplicas: -1})
	for _, part := range []string{`"b" is not host:port`, "without cluster", "braces", "negative"} {
		require.ErrorContains(t, err, part)
	}
	_, err = redisstore.New(redisstore.Options{Cluster: true, DB: 1})
	require.ErrorContains(t, err, "no address")
	require.ErrorContains(t, err, "database 0 only")
}
