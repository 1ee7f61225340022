package testenv

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// controllable is a server that its test can stop and start.
type controllable interface {
	Addr() string
	Start(context.Context) error
	Stop() error
	Kill() error
	Restart(context.Context) error
	Pause() error
	Resume() error
	Tail() string
	Close() error
}

var (
	_ controllable = (*kafka.Broker)(nil)
	_ controllable = (*redis.Server)(nil)
)

// Owned is a server for one test. Each method fails the test on an error. A restart keeps the address.
type Owned struct {
	Addr string // host:port
	// Listeners are the addresses of a Kafka's further listeners, by name.
	Listeners map[string]string
	// TLSAddr is a Redis' address with TLS, or "".
	TLSAddr string
	// Data is the directory with a Kafka's logs, or "".
	Data string

	t      testing.TB
	name   string
	server controllable
}

// quickComeback lets a killed broker rejoin its cluster after 3 s instead of 9. Until its old session ends, the new one counts as a second
// broker of the same name.
var quickComeback = map[string]string{"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}

func withDefaults(settings, defaults map[string]string) map[string]string {
	all := maps.Clone(defaults)
	maps.Copy(all, settings)
	return all
}

// OwnKafka starts a real Apache Kafka, which ends with the test. Its data survive Kill and Restart. At most one of opts may be given.
func OwnKafka(t testing.TB, opts ...kafka.Options) *Owned {
	t.Helper()
	skipShort(t, "Apache Kafka")
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	o := option(opts)
	o.Settings = withDefaults(o.Settings, quickComeback)
	b, err := kafka.Start(ctx, o)
	if err != nil {
		t.Fatalf("a real Apache Kafka for this test: %v", err)
	}
	owned := own(t, "Apache Kafka", b)
	t.Cleanup(func() {
		if lost, err := b.LostMarkers(); t.Failed() && err == nil && len(lost) > 0 {
			t.Logf("requests for transaction markers that Kafka left without an answer, each after 30 s:\n%s", strings.Join(lost, "\n"))
		}
	})
	owned.Listeners, owned.Data = b.ListenerAddrs(), b.Data()
	return owned
}

// OwnRedis starts a real redis-server, which ends with the test. Its data survive Kill and Restart only with AppendOnly. At most one of
// opts may be given.
func OwnRedis(t testing.TB, opts ...redis.Options) *Owned {
	t.Helper()
	skipShort(t, "redis-server")
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	s, err := redis.Start(ctx, option(opts))
	if err != nil {
		t.Fatalf("a real redis-server for this test: %v", err)
	}
	owned := own(t, "redis-server", s)
	owned.TLSAddr = s.TLSAddr()
	return owned
}

// OwnRedisCluster starts a Redis Cluster of three masters, which ends with the test.
func OwnRedisCluster(t testing.TB) *redis.Cluster {
	t.Helper()
	skipShort(t, "redis-server")
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	c, err := redis.StartCluster(ctx, redis.Options{}, 3)
	if err != nil {
		t.Fatalf("a Redis Cluster for this test: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the Redis Cluster: %v", err)
		}
	})
	return c
}

func option[O any](opts []O) O {
	var o O
	if len(opts) > 0 {
		o = opts[0]
	}
	return o
}

func own(t testing.TB, name string, s controllable) *Owned {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s ends with:\n%s", name, s.Tail())
		}
		if err := s.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return &Owned{Addr: s.Addr(), t: t, name: name, server: s}
}

func (o *Owned) must(what string, err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatalf("%s %s: %v", what, o.name, err)
	}
}

func (o *Owned) Kill() { o.t.Helper(); o.must("kill", o.server.Kill()) }

// Stop ends the server in an orderly way.
func (o *Owned) Stop() { o.t.Helper(); o.must("stop", o.server.Stop()) }

// Start starts the server again after Kill or Stop, and returns when it answers.
func (o *Owned) Start() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	o.must("start", o.server.Start(ctx))
}

func (o *Owned) Restart() {
	o.t.Helper()
	o.Stop()
	o.Start()
}

// Pause freezes the server (SIGSTOP): connections stay open without answers.
func (o *Owned) Pause() { o.t.Helper(); o.must("pause", o.server.Pause()) }

func (o *Owned) Resume() { o.t.Helper(); o.must("resume", o.server.Resume()) }
