package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options of a Store. Group and one address are needed; zero values of the others take the defaults named.
type Options struct {
	Addresses []string // host:port: one server, or the seeds of a cluster
	Cluster   bool     // Redis Cluster; needed with several addresses
	Username  string   // an ACL user; empty: the default user
	Password  string
	// Credentials is asked at each new connection, in place of Username and Password, where it is not nil.
	Credentials func(ctx context.Context) (username, password string, err error)
	DB          int         // 0 in a cluster
	TLS         *tls.Config // nil: plain TCP

	// Explain puts the errors of single commands into words, until the first has succeeded; nil: they are left as they are.
	Explain func(context.Context, error) error

	Group string // the consumer group: part of every key; without braces

	// WaitReplicas is how many replicas must have a checkpoint before it counts; 0: none. ReplicaTimeout is how long
	// one try waits for them: 1 s by default.
	WaitReplicas   int
	ReplicaTimeout time.Duration

	PoolSize    int           // connections per server: by default 10 per CPU
	DialTimeout time.Duration // 2 s
	IOTimeout   time.Duration // of one read or write on a connection: 10 s; a context's earlier deadline comes first
	MaxRetries  int           // after network errors; 3 by default, -1: none

	// DeltaEntries is about how many checkpoints the stream of deltas keeps: 256 by default. An entry takes at most
	// about MaxDeltaBytes.
	DeltaEntries int
}

// validate reports every fault.
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
	if o.DB < 0 || o.WaitReplicas < 0 || o.ReplicaTimeout < 0 || o.PoolSize < 0 || o.DialTimeout < 0 || o.IOTimeout < 0 ||
		o.DeltaEntries < 0 {
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

// withDefaults replaces zero fields by their defaults.
func (o Options) withDefaults() Options {
	o.ReplicaTimeout = orElse(o.ReplicaTimeout, time.Second)
	o.DialTimeout = orElse(o.DialTimeout, 2*time.Second)
	o.IOTimeout = orElse(o.IOTimeout, 10*time.Second)
	o.DeltaEntries = orElse(o.DeltaEntries, 256)
	// The reply of WAIT must come before the connection gives up on it.
	o.ReplicaTimeout = min(o.ReplicaTimeout, o.IOTimeout*3/4)
	return o
}

func (o *Options) universal() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: o.Addresses, IsClusterMode: o.Cluster, DB: o.DB, TLSConfig: o.TLS, Dialer: o.dialer(),
		Username: o.Username, Password: o.Password, CredentialsProviderContext: o.Credentials,
		PoolSize: o.PoolSize, MaxRetries: o.MaxRetries,
		DialTimeout: o.DialTimeout, ReadTimeout: o.IOTimeout, WriteTimeout: o.IOTimeout,
		// Off by default, and without it no call ends at its context's deadline.
		ContextTimeoutEnabled: true,
		// Commands are retried as a whole; five dials in each try would make a dead server cost half a second more.
		DialerRetries: 1,
		// Nothing of RESP3 is used, and an ACL user need not be allowed CLIENT for it.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// Checkpoints and look-ups are tens to hundreds of kilobytes.
		ReadBufferSize: 128 << 10, WriteBufferSize: 128 << 10,
	}
}
