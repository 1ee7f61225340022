package testenv

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Env is one Kafka and one Redis.
type Env struct {
	Name  string // "embedded" or "real"
	Kafka string // bootstrap address, host:port
	Redis string // host:port

	// The embedded servers, to inject faults into them and to move miniredis' clock: nil where the pair is real.
	Fake *kfake.Cluster
	Mini *miniredis.Miniredis
}

// RedisURL is the address of the pair's Redis as the configuration takes it.
func (e Env) RedisURL() string { return "redis://" + e.Redis + "/0" }

// Embedded starts kfake, with one broker unless opts say otherwise, and miniredis on loopback. They end with the test.
func Embedded(t testing.TB, opts ...kfake.Opt) Env {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	t.Cleanup(fake.Close)
	mini, err := miniredis.Run()
	if err != nil {
		t.Fatalf("start miniredis: %v", err)
	}
	t.Cleanup(mini.Close)
	return Env{Name: "embedded", Kafka: fake.ListenAddrs()[0], Redis: mini.Addr(), Fake: fake, Mini: mini}
}

// Real is the shared pair of real servers.
func Real(t testing.TB) Env {
	t.Helper()
	return Env{Name: "real", Kafka: Kafka(t).Addr, Redis: Redis(t).Addr}
}

// Each runs f as a subtest on the embedded pair and as another on the real pair. With RANKER_TEST_SHORT=1 the second
// is left out, and the log says so.
func Each(t *testing.T, f func(t *testing.T, env Env)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { f(t, Embedded(t)) })
	if Short() {
		t.Logf("left out, because %s=1: the same test on a real Apache Kafka and a real redis-server", ShortEnv)
		return
	}
	t.Run("real", func(t *testing.T) { f(t, Real(t)) })
}

// One runs f as a subtest on the real pair, or with RANKER_TEST_SHORT=1 on the embedded pair. It is for statements about a learner, whose
// records either pair carries, and about commands, which reach both by packages whose own tests use Each. Each is for statements about the
// pipeline.
func One(t *testing.T, f func(t *testing.T, env Env)) {
	t.Helper()
	if Short() {
		t.Run("embedded", func(t *testing.T) { f(t, Embedded(t)) })
		return
	}
	t.Run("real", func(t *testing.T) { f(t, Real(t)) })
}

// EachRedis is Each for tests that need a Redis only: f gets its address, and miniredis itself where it is that one.
func EachRedis(t *testing.T, f func(t *testing.T, addr string, mini *miniredis.Miniredis)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		mini := miniredis.RunT(t)
		f(t, mini.Addr(), mini)
	})
	if Short() {
		t.Logf("left out, because %s=1: the same test on a real redis-server", ShortEnv)
		return
	}
	t.Run("real", func(t *testing.T) { f(t, Redis(t).Addr, nil) })
}

// Throttled lets an embedded broker answer its next fetches as over a quota, as many as are stored in the result, with a pause.
func (e Env) Throttled(pause time.Duration) *atomic.Int32 {
	var answers atomic.Int32
	e.Fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		e.Fake.KeepControl()
		if answers.Add(-1) < 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.ThrottleMillis = int32(pause.Milliseconds())
		return res, nil, true
	})
	return &answers
}
