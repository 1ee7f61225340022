package testenv

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// The environment variables of this package.
const (
	KafkaEnv = "RANKER_TEST_KAFKA" // host:port of a Kafka to use instead of starting one
	RedisEnv = "RANKER_TEST_REDIS" // host:port of a Redis to use instead of starting one
	ShortEnv = "RANKER_TEST_SHORT" // 1: skip tests that need real servers
)

// setupTimeout bounds the start of a server, with the download of Kafka.
const setupTimeout = 10 * time.Minute

// Short reports whether this run leaves out real components.
func Short() bool { return os.Getenv(ShortEnv) == "1" }

// skipShort leaves a test out that needs a real server, in a run that asked for that.
func skipShort(t testing.TB, what string) {
	t.Helper()
	if Short() {
		t.Skipf("left out, because %s=1 asks for a run without real components: needs a real %s", ShortEnv, what)
	}
}

// KafkaBroker is the real Kafka that the tests of a process share.
type KafkaBroker struct {
	Addr string // bootstrap address, host:port
}

// RedisServer is the real Redis that the tests of a process share: 16 databases, nothing on disk.
type RedisServer struct {
	Addr string // host:port
}

// URL is the server's address as the configuration takes it.
func (r *RedisServer) URL() string { return "redis://" + r.Addr + "/0" }

// The shared servers of this process. They are never closed: they end with the process.
var (
	sharedKafka = sync.OnceValues(func() (*KafkaBroker, error) {
		addr, err := fromEnv(KafkaEnv)
		if err != nil || addr != "" {
			return &KafkaBroker{Addr: addr}, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		b, err := kafka.Start(ctx, kafka.Options{})
		if err != nil {
			return nil, err
		}
		return &KafkaBroker{Addr: b.Addr()}, nil
	})
	sharedRedis = sync.OnceValues(func() (*RedisServer, error) {
		addr, err := fromEnv(RedisEnv)
		if err != nil || addr != "" {
			return &RedisServer{Addr: addr}, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		s, err := redis.Start(ctx, redis.Options{})
		if err != nil {
			return nil, err
		}
		return &RedisServer{Addr: s.Addr()}, nil
	})
)

// fromEnv reads an address from the environment: empty where the variable is not set.
func fromEnv(name string) (string, error) {
	addr := os.Getenv(name)
	if addr == "" {
		return "", nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", &net.AddrError{Err: name + " has to be host:port", Addr: addr}
	}
	return addr, nil
}

// Kafka returns the real Apache Kafka that all tests of this process share. Topics are named with Unique.
func Kafka(t testing.TB) *KafkaBroker {
	t.Helper()
	skipShort(t, "Apache Kafka")
	b, err := sharedKafka()
	if err != nil {
		t.Fatalf("a real Apache Kafka for tests: %v", err)
	}
	return b
}

// Redis returns the real redis-server that all tests of this process share, and perhaps those of other processes.
// Prefix keys with the result of Unique, and do not flush it.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	skipShort(t, "redis-server")
	s, err := sharedRedis()
	if err != nil {
		t.Fatalf("a real redis-server for tests: %v", err)
	}
	return s
}

// IgnoreServers lets goleak overlook the goroutine that waits for a shared server.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/ranker-worker/ranker-worker/internal/test/testenv/proc.(*Process).own")
}
