package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options of a Store. Group and one address are required; other zero values mean the defaults.
type Options struct {
	Addresses []string // host:port: a server, or the seeds of a cluster
	Cluster   bool     // required with several addresses
	Username  string   // an ACL user; empty: the default user
	Password  string
	// Credentials, if not nil, returns user and password for each new connection, in place of Username and Password.
	Credentials func(ctx context.Context) (username, password string, err error)
	DB          int         // 0 in a cluster
	TLS         *tls.Config // nil: plain TCP

	// Explain explains the errors of single commands, until the first success; nil: errors stay as they are.
	Explain func(context.Context, error) error

	Group string // the consumer group: part of every key; without braces

	// WaitReplicas is the number of replicas that must have a checkpoint; 0: none. ReplicaTimeout bounds one wait for them: 1 s by default.
	WaitReplicas   int
	ReplicaTimeout time.Duration

	IOTimeout  time.Duration // of one read or write: 10 s; a context's earlier deadline wins
	MaxRetries int           // after network errors; 3 by default, -1: none

	// DeltaEntries is the approximate number of checkpoints in the stream of deltas: 256 by default. An entry takes at most about
	// MaxDeltaBytes.
	DeltaEntries int
}

const dialTimeout = 2 * time.Second

func (o *Options) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(o.Addresses) == 0 {
		fault("no address")
	}
	for _, a := range o.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			fault("address %q is not host:port", a)
		}
	}
	if len(o.Addresses) > 1 && !o.Cluster {
		fault("several addresses without cluster")
	}
	if o.Cluster && o.DB != 0 {
		fault("a cluster has database 0 only, not %d", o.DB)
	}
	if o.Group == "" || strings.ContainsAny(o.Group, "{}") {
		fault("group %q: it is part of a hash tag, and must be neither empty nor contain braces", o.Group)
	}
	if o.DB < 0 || o.WaitReplicas < 0 || o.ReplicaTimeout < 0 || o.IOTimeout < 0 || o.DeltaEntries < 0 {
		fault("a number is negative")
	}
	if len(faults) > 0 {
		return fmt.Errorf("options of the Redis store: %w", errors.Join(faults...))
	}
	return nil
}

func orElse[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func (o Options) withDefaults() Options {
	o.ReplicaTimeout = orElse(o.ReplicaTimeout, time.Second)
	o.IOTimeout = orElse(o.IOTimeout, 10*time.Second)
	o.DeltaEntries = orElse(o.DeltaEntries, 256)
	// WAIT must be answered before the connection times out.
	o.ReplicaTimeout = min(o.ReplicaTimeout, o.IOTimeout*3/4)
	return o
}

func (o *Options) universal() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: o.Addresses, IsClusterMode: o.Cluster, DB: o.DB, TLSConfig: o.TLS, Dialer: o.dialer(),
		Username: o.Username, Password: o.Password, CredentialsProviderContext: o.Credentials,
		MaxRetries: o.MaxRetries, DialTimeout: dialTimeout, ReadTimeout: o.IOTimeout, WriteTimeout: o.IOTimeout,
		// Off by default: then no call ends at its context's deadline.
		ContextTimeoutEnabled: true,
		// Commands are retried as a whole. Five dials in each try would make a dead server cost half a second more.
		DialerRetries: 1,
		// RESP3 is not used, and without it an ACL user does not need CLIENT.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// Checkpoints and look-ups are tens to hundreds of kilobytes.
		ReadBufferSize: 128 << 10, WriteBufferSize: 128 << 10,
	}
}

// dialer connects by TLS; nil for plain TCP.
func (o *Options) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.TLS == nil {
		return nil
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout, KeepAlive: 5 * time.Minute}, Config: o.TLS}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return alertConn{c.(*tls.Conn)}, nil // tls.Dialer returns a *tls.Conn
	}
}

// alertConn adds the server's TLS alert to write errors. With TLS 1.3 the server checks our certificate while we already write. Such a
// write fails with a reset connection, before the alert with the cause is read.
type alertConn struct{ *tls.Conn }

// alertTimeout bounds the wait for an alert, which usually arrives before writing fails.
const alertTimeout = 100 * time.Millisecond

func (c alertConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || c.SetReadDeadline(time.Now().Add(alertTimeout)) != nil {
		return n, err
	}
	var alert *net.OpError
	if _, why := c.Read(make([]byte, 1)); errors.As(why, &alert) && alert.Op == "remote error" {
		return n, why
	}
	return n, err
}

// explainer calls Options.Explain for connection errors until the server has answered once. Later errors are not about addresses, TLS and
// passwords, and Explain would delay them.
type explainer struct {
	explain func(context.Context, error) error
	reached atomic.Bool
}

var _ redis.Hook = (*explainer)(nil)

func (e *explainer) done(ctx context.Context, err error) error {
	if err == nil || e.reached.Load() {
		e.reached.Store(true)
		return err
	}
	return e.explain(ctx, err)
}

// DialHook does not explain: dialling is retried, and its last error reaches the command.
func (*explainer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e *explainer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return e.done(ctx, next(ctx, cmd)) }
}

func (e *explainer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
