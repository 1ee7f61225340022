package testenv_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return c
}

func produce(t *testing.T, addr, topic, value string) {
	t.Helper()
	client := &kafkago.Client{Addr: kafkago.TCP(addr), Transport: &kafkago.Transport{}}
	res, err := client.Produce(ctx(t), &kafkago.ProduceRequest{
		Topic: topic, Partition: 0, RequiredAcks: kafkago.RequireAll,
		Records: kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes([]byte(value))}),
	})
	require.NoError(t, err)
	require.NoError(t, res.Error)
}

func consume(t *testing.T, addr, topic string, n int) []string {
	t.Helper()
	r := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: []string{addr}, Topic: topic, Partition: 0, MaxWait: 100 * time.Millisecond,
	})
	defer func() { require.NoError(t, r.Close()) }()
	var values []string
	for range n {
		m, err := r.ReadMessage(ctx(t))
		require.NoError(t, err)
		values = append(values, string(m.Value))
	}
	return values
}

func TestEachPairWorks(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		topic := testenv.Unique(t, "topic")
		testenv.Topics(t, env.Kafka, 3, topic+"?retention.ms=3600000", testenv.Unique(t, "other"))
		produce(t, env.Kafka, topic, "hello")
		require.Equal(t, []string{"hello"}, consume(t, env.Kafka, topic, 1))

		opts, err := goredis.ParseURL(env.RedisURL())
		require.NoError(t, err)
		client := goredis.NewClient(opts)
		defer func() { require.NoError(t, client.Close()) }()
		key := testenv.Unique(t, "key")
		require.NoError(t, client.Set(ctx(t), key, "v", time.Minute).Err())
		require.Equal(t, "v", client.Get(ctx(t), key).Val())
	})
}

func TestEachRedisWorks(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, addr string, mini *miniredis.Miniredis) {
		client := goredis.NewClient(&goredis.Options{Addr: addr})
		defer func() { require.NoError(t, client.Close()) }()
		require.Equal(t, int64(3), client.Eval(ctx(t), "return 1 + 2", nil).Val())
	})
}

func TestEmbeddedTakesOptions(t *testing.T) {
	env := testenv.Embedded(t, kfake.NumBrokers(3), kfake.SeedTopics(2, "seeded"))
	require.Len(t, env.Fake.ListenAddrs(), 3)
	produce(t, env.Kafka, "seeded", "x")
}

// TestTopicsAreAskedForAgain: a broker that cannot be reached for a moment does not fail the creation of topics, and
// neither do topics that exist by then.
func TestTopicsAreAskedForAgain(t *testing.T) {
	env := testenv.Embedded(t, kfake.SeedTopics(3, "made-before"))
	env.Fake.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, topic := range req.(*kmsg.CreateTopicsRequest).Topics {
			one := kmsg.NewCreateTopicsResponseTopic()
			one.Topic, one.ErrorCode = topic.Topic, kerr.BrokerNotAvailable.Code
			res.Topics = append(res.Topics, one)
		}
		return res, nil, true
	})
	testenv.Topics(t, env.Kafka, 3, "made-before", "new")
	produce(t, env.Kafka, "new", "x")
}

func TestSharedServersAreShared(t *testing.T) {
	require.Equal(t, testenv.Kafka(t).Addr, testenv.Kafka(t).Addr)
	require.Equal(t, testenv.Redis(t).URL(), testenv.Redis(t).URL())
}

func TestLogSurvivesAKillOfKafka(t *testing.T) {
	k := testenv.OwnKafka(t)
	testenv.Topics(t, k.Addr, 1, "log")
	produce(t, k.Addr, "log", "a")
	k.Kill()
	k.Start()
	produce(t, k.Addr, "log", "b")
	k.Restart()
	require.Equal(t, []string{"a", "b"}, consume(t, k.Addr, "log", 2))
}

func TestRedisForgetsOrRemembers(t *testing.T) {
	for name, opts := range map[string]redis.Options{"forgets": {}, "remembers": {AppendOnly: true}} {
		t.Run(name, func(t *testing.T) {
			r := testenv.OwnRedis(t, opts)
			client := goredis.NewClient(&goredis.Options{Addr: r.Addr})
			defer func() { require.NoError(t, client.Close()) }()
			require.NoError(t, client.Set(ctx(t), "k", "v", 0).Err())
			r.Kill()
			require.Error(t, client.Get(ctx(t), "k").Err())
			r.Start()
			got, err := client.Get(ctx(t), "k").Result()
			if opts.AppendOnly {
				require.NoError(t, err)
				require.Equal(t, "v", got)
			} else {
				require.ErrorIs(t, err, goredis.Nil)
			}
		})
	}
}

func TestPausedRedisDoesNotAnswer(t *testing.T) {
	r := testenv.OwnRedis(t, redis.Options{Args: []string{"--requirepass", "secret"}})
	client := goredis.NewClient(&goredis.Options{
		Addr: r.Addr, Password: "secret", ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	defer func() { require.NoError(t, client.Close()) }()
	require.NoError(t, client.Ping(ctx(t)).Err())
	r.Pause()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, client.Ping(short).Err())
	r.Resume()
	require.NoError(t, client.Ping(ctx(t)).Err())
}

func TestUniqueNamesAreUsableAsTopics(t *testing.T) {
	t.Run("with / odd ünïcode characters and a name that goes on for longer than Kafka lets a topic go on for", func(t *testing.T) {
		a, b := testenv.Unique(t, "x"), testenv.Unique(t, "x")
		require.NotEqual(t, a, b)
		require.Regexp(t, `^[A-Za-z0-9.-]{1,120}$`, a)
	})
}

// TestMissingServerFailsTheTest runs this test binary where nothing is installed. Without RANKER_TEST_SHORT it must
// fail and say how to install the server; with it, it must log the skipped test.
func TestMissingServerFailsTheTest(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	run := func(env ...string) (string, error) {
		cmd := exec.CommandContext(ctx(t), binary, "-test.run=^TestEachPairWorks$/^real$|^TestSharedServersAreShared$", "-test.v")
		cmd.Env = append([]string{"PATH=" + t.TempDir(), "RANKER_TEST_CACHE=" + t.TempDir(), "HOME=" + t.TempDir()}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	require.Error(t, err)
	require.Contains(t, out, "apt-get install")
	require.NotContains(t, out, "SKIP")

	out, err = run("RANKER_TEST_SHORT=1")
	require.NoError(t, err)
	require.Contains(t, out, "left out, because RANKER_TEST_SHORT=1")
	require.GreaterOrEqual(t, strings.Count(out, "left out"), 2)
}
